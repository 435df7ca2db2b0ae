"""The fixtures of a real Slurm, for every test of this folder."""

from __future__ import annotations

from tests.slurm.cluster import slurm_cluster, slurm_cluster_with_accounts

__all__ = ["slurm_cluster", "slurm_cluster_with_accounts"]
