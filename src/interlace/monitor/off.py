"""The source of a node whose GPUs cannot be read, or that has none: answers nothing, and says why."""

from __future__ import annotations

from dataclasses import dataclass

from interlace.monitor.readings import Driver, Gpu, GpuSample, ProcessList


@dataclass(frozen=True)
class NoGpus:
    """No GPU facts. `reason` is kept beside every result, so that silence is never taken for idleness."""

    reason: str
    kind: str = "none"
    min_interval_s: float = 0.0

    def driver(self) -> Driver:
        """Return a driver of which nothing is known."""
        return Driver()

    def inventory(self) -> tuple[Gpu, ...]:
        """Return no GPUs."""
        return ()

    def sample(self) -> tuple[GpuSample, ...]:
        """Return no samples."""
        return ()

    def processes(self) -> ProcessList:
        """Return no processes; `reasons` says that nobody was asked."""
        return ProcessList((), {"*": self.reason})

    def close(self) -> None:
        """Do nothing."""
