"""What ranks inherit from the shell or the job, on this node. Pure but for asking which GPUs there are."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from interlace.monitor.readings import GpuReadError
from interlace.node import gpu_map
from interlace.source import without_git_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.monitor import GpuSource

OTHERS_RANKS = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|LOCAL_(WORLD_)?SIZE|MASTER_(ADDR|PORT)"
    r"|(TORCHELASTIC|OMPI|PMI|PMIX|MV2_COMM_WORLD|FLUX_TASK|JSM_NAMESPACE|MPI_LOCAL\w*?)_.*|MPI_LOCAL\w*"
    r"|(HOROVOD|PALS)_(CROSS_|LOCAL_)?(RANK|RANKID|SIZE)"
)
"""What a launcher tells its ranks; inherited from the shell it would be taken for our launcher's word."""

_SLURM = ("SLURM_", "SLURMD_", "SRUN_")


def rank_environ(gpus: GpuSource, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what other launchers and git hooks left, and with the map of this node's GPUs."""
    try:
        found = json.dumps(gpu_map(gpus.inventory()))
    except GpuReadError:
        found = "[]"
    clean = {name: value for name, value in environ.items() if not OTHERS_RANKS.fullmatch(name)}
    return {**without_git_variables(clean), "INTERLACE_GPU_MAP": found}


def slurms(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what SLURM says in an environment."""
    return {name: value for name, value in environ.items() if name.startswith(_SLURM)}


def of_the_job(own: Mapping[str, str], lanes: Mapping[str, str], name: str, number: int) -> dict[str, str]:
    """Return the environment of an agent as that of its job: `lanes` are SLURM's words on the lane's own node.

    The agent is a step of one task; ranks that read this (Lightning does) would take themselves for that task, and
    behave otherwise than the ranks of the first node. `number` counts the nodes of the lane from 0.
    """
    kept = {key: value for key, value in own.items() if not key.startswith(_SLURM)}
    alike = {key: value for key, value in lanes.items() if not key.endswith("_GPUS")}
    gpus = {key: value for key, value in own.items() if key.startswith(_SLURM) and key.endswith("_JOB_GPUS")}
    place = {"SLURMD_NODENAME": name, "SLURM_NODEID": str(number)} if lanes else {}
    return {**kept, **alike, **gpus, **place}
