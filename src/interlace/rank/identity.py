"""Which rank this process is, by the variables of whichever launcher started it. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Identity(NamedTuple):
    """Which rank this is, and by whose variables. Alone: rank 0 of 1 by `none`."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int | None = None
    launcher: str = "none"


# launcher: local rank, rank, world size, local world size; alternatives where a launcher has two names for one
# thing. The first launcher whose local rank is set gives all four, because a batch job's own SLURM_* stay set in
# the ranks that mpirun or torchrun starts inside it. accelerate, Ray Train and DeepSpeed set torchrun's names
# (DeepSpeed's launcher says LOCAL_SIZE); Intel MPI sets MPICH's. Flux does not say how many tasks a node has.
_LAUNCHERS = {
    "torchrun": ("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE LOCAL_SIZE"),
    "horovod": ("HOROVOD_LOCAL_RANK", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
    "openmpi": (
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpich": ("MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    "mvapich2": (
        "MV2_COMM_WORLD_LOCAL_RANK MVP_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_RANK MVP_COMM_WORLD_RANK PMI_RANK",
        "MV2_COMM_WORLD_SIZE MVP_COMM_WORLD_SIZE PMI_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE MVP_COMM_WORLD_LOCAL_SIZE",
    ),
    "pals": ("PALS_LOCAL_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_SIZE PMI_LOCAL_SIZE"),
    "pmi": ("PMI_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_SIZE"),
    "flux": ("FLUX_TASK_LOCAL_ID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ""),
    "jsrun": (
        "JSM_NAMESPACE_LOCAL_RANK",
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        "JSM_NAMESPACE_LOCAL_SIZE",
    ),
    "slurm": ("SLURM_LOCALID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
}


TELLS_RANK = frozenset(name for names in _LAUNCHERS.values() for one in names[:2] for name in one.split())
"""The variables by which launchers tell a process its rank."""


def identity(env: Mapping[str, str]) -> Identity:
    """Read rank and sizes as whichever launcher set them; a value that is no number counts as unset."""
    for launcher, names in _LAUNCHERS.items():
        local_rank, rank, world, local_world = (_first(env, name) for name in names)
        if local_rank is None or (launcher == "slurm" and "SLURM_STEP_ID" not in env):
            continue
        if launcher == "slurm":
            local_world = tasks_here(env.get(names[-1], ""), _number(env.get("SLURM_NODEID")))
        if launcher == "flux" and _number(env.get("FLUX_JOB_NNODES")) == 1:
            local_world = world
        return Identity(local_rank if rank is None else rank, local_rank, world or 1, local_world or None, launcher)
    world = _number(env.get("WORLD_SIZE")) or 1
    # Interlace says how many ranks it starts; a launcher of one process often sets nothing.
    alone = 1 if world == 1 and _number(env.get("INTERLACE_NPROC_PER_NODE")) == 1 else None
    return Identity(rank=_number(env.get("RANK")) or 0, world_size=world, local_world_size=alone)


def _first(env: Mapping[str, str], names: str) -> int | None:
    found = (_number(env.get(name)) for name in names.split())
    return next((number for number in found if number is not None), None)


def _number(text: str | None) -> int | None:
    """Read a count. None for anything else, -1 included."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() else None


def tasks_here(text: str, node: int | None) -> int | None:
    """Read SLURM's tasks per node, such as `2(x3),1`, for the node of this number; None where it cannot be told."""
    counts: list[int] = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        number, repeat = _number(count), _number(times.removesuffix(")")) if "(x" in part else 1
        if number is None or repeat is None:
            return None
        counts += [number] * repeat
    if len(set(counts)) == 1:
        return counts[0]
    return counts[node] if node is not None and node < len(counts) else None
