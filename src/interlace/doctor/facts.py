"""What the doctor knows of a node: frozen facts, units in their names. No behaviour.

What could not be read is None (or empty); where a reason is known it stands in a field beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlace.gate import GateEvidence
    from interlace.monitor.readings import GpuSample
    from interlace.node import NodeInfo


SHOWN_FROM_PCT = 5.0
"""Of one core. Below this a process cannot be told from the coarse ticks in which the kernel counts."""


@dataclass(frozen=True)
class GpuSigns:
    """Signs of GPUs that need no driver to be seen: its folder in /proc, and NVIDIA display devices on the bus."""

    proc_driver: bool = False
    pci_bus_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedRank:
    """Where one rank would run, were one started for each visible GPU. `action`: bind, noop or unpinned."""

    local_rank: int
    gpu_index: int | None
    action: str
    numa_node: int | None
    cpus: str
    whole_node: bool
    code: str | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """CPUs by inherited mask (`affinity`) and by cpuset, the ranks' plan, and why numactl would not bind."""

    affinity: str
    cpuset: str
    ranks: tuple[PlannedRank, ...] = ()
    numactl_refusal: str | None = None


@dataclass(frozen=True)
class CpuUser:
    """A process that computes and is not ours; `cpu_pct` is of one core."""

    pid: int
    name: str
    user: str | None
    cpu_pct: float


@dataclass(frozen=True)
class CpuLoad:
    """All CPUs over a moment, and the processes that used most of it, biggest first."""

    sampled_s: float
    busy_pct: float | None
    users: tuple[CpuUser, ...] = ()


@dataclass(frozen=True)
class CpuSettings:
    """How fast the CPUs may go. `governors` and `preferences`: value -> number of CPUs that have it."""

    online: str = ""
    offline: str = ""
    isolated: str = ""
    governors: dict[str, int] = field(default_factory=dict)
    preferences: dict[str, int] = field(default_factory=dict)
    driver: str | None = None
    driver_active: bool = False
    smt: str | None = None
    boost: bool | None = None


@dataclass(frozen=True)
class Memory:
    """Main memory and swap, MiB."""

    available_mib: float | None = None
    swap_total_mib: float | None = None
    swap_free_mib: float | None = None
    huge_pages: str | None = None


@dataclass(frozen=True)
class Ulimits:
    """Limits of this process and its children: soft values, None for unlimited; `nofile_hard` may be raised to."""

    nofile: int | None
    nofile_hard: int | None
    nproc: int | None
    memlock_kib: float | None
    core_kib: float | None


@dataclass(frozen=True)
class OutputFolder:
    """The output folder and its disk; where it does not exist, its `nearest` parent was looked at.

    `unusable` is what keeps anybody from writing there; None where a file could be written.
    """

    path: str
    exists: bool
    nearest: str
    file_system: str | None = None
    free_gib: float | None = None
    inodes_left: bool = True
    unusable: str | None = None


@dataclass(frozen=True)
class Requirement:
    """A dependency as Interlace's own metadata declares it, and the version that is installed."""

    name: str
    wanted: str
    installed: str | None


@dataclass(frozen=True)
class TorchBuild:
    """What the files of torch say: `cuda` is None for a build without CUDA."""

    version: str
    cuda: str | None


@dataclass(frozen=True)
class TorchSees:
    """What torch says when asked in a process of its own; `failure` is its last line where it could not."""

    python: str
    version: str | None = None
    cuda: str | None = None
    gpus: int | None = None
    nccl: str | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Software:
    """Versions. `requires_python` and `requirements` are those of Interlace's metadata; None without it."""

    python: str
    requires_python: str | None
    requirements: tuple[Requirement, ...]
    torch: TorchBuild | None
    torch_sees: TorchSees | None
    git: str | None


@dataclass(frozen=True)
class Surroundings:
    """What this process runs inside of, and the variables of its environment that bear on a measurement."""

    slurm: dict[str, str] = field(default_factory=dict)
    container: str | None = None
    host_pids: bool | None = None
    infiniband: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeFacts:
    """One node at one moment, as the rules need it. The gate's evidence is judged by the gate's own limits."""

    node: NodeInfo
    signs: GpuSigns
    gate: GateEvidence
    samples: tuple[GpuSample, ...]
    placement: Placement
    load: CpuLoad
    cpu: CpuSettings
    memory: Memory
    ulimits: Ulimits
    output: OutputFolder
    software: Software
    surroundings: Surroundings
