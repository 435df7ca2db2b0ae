"""Who else binds this rank: a second pinning layer is found here, so that two of them do not fight.

Standard library only: every rank imports this before it starts. Pure functions over the environment and masks.
Sources: accelerate's utils/environment.py, torch/numa/binding.py, srun(1), GCC's libgomp manual, the OpenMP
specification (OMP_PROC_BIND, OMP_PLACES), Intel's description of KMP_AFFINITY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.rank.numa import Cpus

TRUE = frozenset({"1", "y", "yes", "t", "true", "on"})


def other_layer(
    env: Mapping[str, str], launcher: str, *, affinity: Cpus, cpuset: Cpus, parent: Cpus | None
) -> str | None:
    """Name the layer that has bound this rank or is going to; None where there is none.

    `parent` is the mask of the process that started this one. torchrun gives its ranks its own mask unless it
    was told to bind them, so a mask that is not the parent's was made for this rank. MPI launchers bind ranks
    without being asked and know nothing of GPUs: theirs counts as inherited.
    """
    if env.get("ACCELERATE_CPU_AFFINITY", "").lower() in TRUE:
        return "accelerate (ACCELERATE_CPU_AFFINITY)"
    narrowed = affinity < cpuset
    if narrowed and launcher == "torchrun" and parent is not None and affinity != parent:
        return "the launcher (a mask made for this rank, as by torchrun --numa-binding)"
    if narrowed and launcher == "slurm" and _srun_binds(env):
        return "srun (--cpu-bind)"
    return _openmp(env)


def _srun_binds(env: Mapping[str, str]) -> bool:
    """Tell whether srun bound its tasks: SLURM_CPU_BIND_TYPE is `none`, or the kind of binding that was made."""
    text = f"{env.get('SLURM_CPU_BIND_TYPE', '')},{env.get('SLURM_CPU_BIND', '')}"
    words = {word.partition(":")[0] for word in text.replace(" ", "").lower().split(",")}
    return bool(words - {"", "none", "quiet", "verbose"}) and "none" not in words


def _openmp(env: Mapping[str, str]) -> str | None:
    """Name an OpenMP setting that names CPUs by number. One that does not (cores, compact) stays inside our mask."""
    if env.get("GOMP_CPU_AFFINITY", "").strip():
        return "OpenMP (GOMP_CPU_AFFINITY)"
    kmp = env.get("KMP_AFFINITY", "").replace(" ", "").lower()
    if {"explicit", "norespect"} & set(kmp.split(",")) or "proclist=" in kmp:
        return "OpenMP (KMP_AFFINITY)"
    bound = env.get("OMP_PROC_BIND", "").strip().lower() not in ("", "false")
    if bound and "{" in env.get("OMP_PLACES", ""):
        return "OpenMP (OMP_PLACES with OMP_PROC_BIND)"
    return None
