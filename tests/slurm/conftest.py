"""The fixtures of a real Slurm, for every test of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.slurm.cluster import slurm_cluster, slurm_cluster_with_accounts
from tests.slurm.user import User

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.cluster import SlurmCluster

__all__ = ["slurm_cluster", "slurm_cluster_with_accounts"]


@pytest.fixture
def user(slurm_cluster: SlurmCluster, tmp_path: Path) -> User:
    """A user in a folder of its own."""
    return User(slurm_cluster, tmp_path)
