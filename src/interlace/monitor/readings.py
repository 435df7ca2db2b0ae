"""The boundary to the GPUs: the only module that defines what a source of GPU facts must answer.

Every fact may be None; then `reasons` says why under the field's name. A missing value is never 0.
GPUs are told apart by UUID alone: an index differs between CUDA, NVML, nvidia-smi and a SLURM job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from interlace.errors import InterlaceError
from interlace.wording import printable


class GpuReadError(InterlaceError):
    """The GPUs could not be read at all. `code` is a short word, the text carries the raw first line."""

    def __init__(self, code: str, message: str, bus_id: str | None = None) -> None:
        super().__init__(printable(message))
        self.code = code
        self.bus_id = bus_id


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A slice of a GPU. `profile` as in `2g.20gb`; `device` counts within its GPU."""

    profile: str
    device: int
    uuid: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU. `bus_id` is the PCI address as sysfs spells it, `0000:1b:00.0`.

    A GPU that fell off the bus stays in the inventory: its `uuid` is then a stand-in made of what is
    known of it, its index may be None, and `reasons["gpu"]` says what happened.
    """

    index: int | None
    uuid: str
    bus_id: str | None = None
    name: str | None = None
    memory_total_mib: float | None = None
    mig: tuple[MigDevice, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment. `t_s` is `time.monotonic()`; `throttle` is NVML's mask of reasons."""

    t_s: float
    uuid: str
    memory_used_mib: float | None = None
    utilization_pct: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: int | None = None
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process as the driver lists it. In a container `pid` may belong to another namespace."""

    pid: int
    uuid: str | None
    name: str | None = None
    used_mib: float | None = None


@dataclass(frozen=True, slots=True)
class ProcessList:
    """All compute processes. `reasons`: GPU UUID (or `*` for all) -> why its list cannot be had."""

    processes: tuple[GpuProcess, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Driver:
    """Version of the driver and the newest CUDA it supports. None where it was not to be found out."""

    version: str | None = None
    cuda_version: str | None = None


class GpuSource(Protocol):
    """Where GPU facts come from. Every method raises `GpuReadError` alone, and only when nothing is known."""

    @property
    def kind(self) -> str:
        """`nvml`, `nvidia-smi`, `none`, or `fake`."""
        ...

    @property
    def reason(self) -> str:
        """Why this source was chosen, or why there is none; one sentence."""
        ...

    @property
    def min_interval_s(self) -> float:
        """Sampling faster than this would disturb the run more than it tells."""
        ...

    def driver(self) -> Driver:
        """Return the versions of the driver."""
        ...

    def inventory(self) -> tuple[Gpu, ...]:
        """Return every physical GPU of the node, used or not, lost ones included."""
        ...

    def sample(self) -> tuple[GpuSample, ...]:
        """Return what every GPU does now."""
        ...

    def processes(self) -> ProcessList:
        """Return who computes on the GPUs."""
        ...

    def close(self) -> None:
        """Let go of the driver; harmless when called again."""
        ...
