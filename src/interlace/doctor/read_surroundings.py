"""Reads what this process runs inside of: a SLURM job, a container, an environment that bears on a measurement."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from interlace.doctor.facts import Surroundings
from interlace.node import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SLURM = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_NODELIST",
    "SLURMD_NODENAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_GPUS",
)
WATCHED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_DISTRIBUTED_DEBUG",
    "NCCL_DEBUG",
    "OMP_NUM_THREADS",
    "PYTHONPROFILEIMPORTTIME",
)
"""Variables that a measured program inherits and that change what it does; `ACCELERATE_*` is watched too."""

HOST_PID_NAMESPACE = "pid:[4026531836]"
"""Inode of the first PID namespace: PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h."""

_IN_CGROUP = {
    "kubepods": "Kubernetes",
    "docker": "Docker",
    "libpod": "Podman",
    "containerd": "containerd",
    "lxc": "LXC",
}


def surroundings(environ: Mapping[str, str], root: Path) -> Surroundings:
    """Look around. Of the environment only the variables that are watched are taken."""
    env = {name: environ[name] for name in WATCHED if name in environ}
    env |= {name: value for name, value in sorted(environ.items()) if name.startswith("ACCELERATE_")}
    infiniband: tuple[str, ...] = ()
    with contextlib.suppress(OSError):
        infiniband = tuple(sorted(one.name for one in (root / "sys/class/infiniband").iterdir()))
    slurm = {name: environ[name] for name in SLURM if name in environ}
    return Surroundings(slurm, container(environ, root), _host_pids(root), infiniband, env)


def container(environ: Mapping[str, str], root: Path) -> str | None:
    """Name the kind of container this is, by the marks that each kind leaves; None where there is none."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "Kubernetes"
    if {"APPTAINER_NAME", "SINGULARITY_NAME"} & environ.keys():
        return "Apptainer"
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    cgroups = text_of(root / "proc/1/cgroup")
    named = next((name for mark, name in _IN_CGROUP.items() if mark in cgroups), None)
    return named or environ.get("container") or None


def _host_pids(root: Path) -> bool | None:
    try:
        return str((root / "proc/self/ns/pid").readlink()) == HOST_PID_NAMESPACE
    except OSError:
        return None
