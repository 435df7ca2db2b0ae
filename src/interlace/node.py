"""The fingerprint of a machine: what `node.json` holds. Reads, and changes nothing; imports no torch.

`root` stands for `/`, so that a test can give a tree of its own. Whatever cannot be read is None, with the
reason in `missing` under the field's name.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.monitor.readings import Driver, Gpu, GpuReadError, GpuSource
from interlace.rank import numa

if TYPE_CHECKING:
    from collections.abc import Iterable

NODE_FORMAT_VERSION = 1
"""Version of node.json. 1: first."""

PACKAGES = (
    "interlace",
    "torch",
    "accelerate",
    "hydra-core",
    "omegaconf",
    "submitit",
    "numpy",
    "pandas",
    "scipy",
    "pyarrow",
    "psutil",
    "nvidia-ml-py",
    "msgspec",
    "triton",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "transformer-engine",
    "lerobot",
    "fairchem-core",
)


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node; `cpus` as the kernel writes lists, distances to all online nodes in their order."""

    node: int
    cpus: str
    memory_mib: float | None
    distances: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cpu:
    """The processors. `cores` are physical, `threads` those the system runs on."""

    model: str | None
    sockets: int | None
    cores: int | None
    threads: int | None
    governor: str | None
    clock_source: str | None


@dataclass(frozen=True)
class Limits:
    """What this process may use: CPUs by its mask and by quota, memory by cgroup, shared memory."""

    cpus_allowed: str
    cpu_quota: float | None
    memory_max_mib: float | None
    dev_shm_mib: float | None
    dev_shm_free_mib: float | None


@dataclass(frozen=True)
class NodeGpu:
    """A GPU and the NUMA node that sysfs gives for its bus id."""

    gpu: Gpu
    numa_node: int | None


@dataclass(frozen=True)
class NodeInfo:
    """One machine at one moment."""

    hostname: str
    kernel: str
    system: str | None
    cpu: Cpu
    memory_total_mib: float | None
    numa: tuple[NumaNode, ...]
    limits: Limits
    gpus: tuple[NodeGpu, ...]
    gpu_source: str
    gpu_source_reason: str
    driver: str | None
    cuda_driver: str | None
    python: str
    python_executable: str
    versions: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)
    format_version: int = NODE_FORMAT_VERSION


def fingerprint(source: GpuSource, *, root: Path = Path("/"), packages: Iterable[str] = PACKAGES) -> NodeInfo:
    """Describe this machine. Versions are those of the orchestrator's own environment."""
    missing: dict[str, str] = {}
    gpus, driver = _gpus(source, missing)
    sysfs = str(root / "sys")
    return NodeInfo(
        hostname=platform.node(),
        kernel=platform.release(),
        system=_system(root),
        cpu=_cpu(root, missing),
        memory_total_mib=_meminfo_mib(root / "proc/meminfo", missing),
        numa=tuple(_numa_node(node, root) for node in numa.online_nodes(sysfs)),
        limits=_limits(root, missing),
        gpus=tuple(NodeGpu(gpu, numa.node_of_gpu(gpu.bus_id, sysfs) if gpu.bus_id else None) for gpu in gpus),
        gpu_source=source.kind,
        gpu_source_reason=source.reason,
        driver=driver.version,
        cuda_driver=driver.cuda_version,
        python=platform.python_version(),
        python_executable=sys.executable,
        versions=installed_versions(packages),
        missing=missing,
    )


def node_name() -> str:
    """Return what this machine is called: by SLURM inside one of its jobs, else by itself."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def gpu_map(gpus: Iterable[Gpu]) -> list[dict[str, object]]:
    """Return what INTERLACE_GPU_MAP passes to every rank as JSON; GPUs without a bus id are left out."""
    return [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "bus_id": gpu.bus_id,
            "name": gpu.name,
            "mig": [child.uuid for child in gpu.mig],
        }
        for gpu in gpus
        if gpu.index is not None and gpu.bus_id
    ]


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that is installed, by its metadata alone."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def environment_versions() -> dict[str, str]:
    """Return what the environment that Interlace runs in is made of: Python, and the packages that matter."""
    return {"python": platform.python_version(), **installed_versions(PACKAGES)}


def _gpus(source: GpuSource, missing: dict[str, str]) -> tuple[tuple[Gpu, ...], Driver]:
    try:
        gpus, driver = source.inventory(), source.driver()
    except GpuReadError as error:
        missing["gpus"] = str(error)
        return (), Driver()
    for name, value in (("driver", driver.version), ("cuda_driver", driver.cuda_version)):
        if value is None:
            missing[name] = source.reason if source.kind == "none" else f"{source.kind} does not tell"
    return gpus, driver


def _system(root: Path) -> str | None:
    for line in text_of(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return None


def _cpu(root: Path, missing: dict[str, str]) -> Cpu:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in text_of(root / "proc/cpuinfo").splitlines()
            if line.startswith("model name")
        ),
        None,
    )
    if model is None:
        missing["cpu.model"] = "no model name in /proc/cpuinfo"
    cpus = root / "sys/devices/system/cpu"
    threads = numa.parse_cpulist(text_of(cpus / "online"))
    packages, cores = set(), set()
    for cpu in threads:
        package = text_of(cpus / f"cpu{cpu}/topology/physical_package_id")
        if package:
            packages.add(package)
            cores.add((package, text_of(cpus / f"cpu{cpu}/topology/core_id")))
    governor = text_of(cpus / "cpu0/cpufreq/scaling_governor") or None
    if governor is None:
        missing["cpu.governor"] = "no cpufreq in sysfs (a virtual machine, or the driver is not loaded)"
    clock = text_of(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    return Cpu(model, len(packages) or None, len(cores) or None, len(threads) or None, governor, clock or None)


def _numa_node(node: int, root: Path) -> NumaNode:
    folder = root / f"sys/devices/system/node/node{node}"
    distances = tuple(int(part) for part in text_of(folder / "distance").split() if part.isdigit())
    cpus = numa.format_cpulist(numa.cpus_of_node(node, str(root / "sys")))
    return NumaNode(node, cpus, _meminfo_mib(folder / "meminfo", {}), distances)


def _meminfo_mib(path: Path, missing: dict[str, str]) -> float | None:
    """Read MemTotal, of the machine or of one NUMA node (there the line opens with `Node 0`)."""
    for line in text_of(path).splitlines():
        name, _, value = line.partition(":")
        if name.split()[-1:] == ["MemTotal"]:
            return int(value.split()[0]) / 1024
    missing["memory_total_mib"] = f"no MemTotal in {path.name}"
    return None


def _limits(root: Path, missing: dict[str, str]) -> Limits:
    shm_mib = free_mib = None
    try:
        shm = os.statvfs(root / "dev/shm")
    except OSError as error:
        missing["limits.dev_shm_mib"] = f"cannot be read: {error.strerror}"
    else:
        shm_mib, free_mib = (blocks * shm.f_frsize / 2**20 for blocks in (shm.f_blocks, shm.f_bavail))
    return Limits(
        numa.format_cpulist(os.sched_getaffinity(0)), cpu_quota(root), memory_max_mib(root), shm_mib, free_mib
    )


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many CPUs the cgroup's quota amounts to, the smallest on the way up; None without."""
    quotas = []
    for folder in _cgroup_folders(root, ""):
        quota, _, period = text_of(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            quotas.append(int(quota) / int(period))
    for folder in _cgroup_folders(root, "cpu"):
        quota = text_of(folder / "cpu.cfs_quota_us")
        period = text_of(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # no quota is -1
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_max_mib(root: Path = Path("/")) -> float | None:
    """Return the cgroup's memory limit, the smallest on the way up; None without one."""
    limits = [text_of(folder / "memory.max") for folder in _cgroup_folders(root, "")]
    limits += [text_of(folder / "memory.limit_in_bytes") for folder in _cgroup_folders(root, "memory")]
    no_limit = 1 << 60  # version 1 writes "none" as the largest multiple of a page
    return min((int(text) / 2**20 for text in limits if text.isdigit() and int(text) < no_limit), default=None)


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Return this process's cgroup and its parents, nearest first; `controller` "" is version 2."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controller
            own = base / path.lstrip("/")
            return [folder for folder in (own, *own.parents) if folder.is_relative_to(base)]
    return []


def text_of(path: Path) -> str:
    """Return a small file's text without the blanks around it; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
