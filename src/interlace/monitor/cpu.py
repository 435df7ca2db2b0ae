"""How busy the CPUs of the node are: the only reader of /proc/stat and /proc/meminfo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8


class CpuTimes(NamedTuple):
    """Clock ticks since boot over all CPUs: not idle, and all."""

    busy: int
    total: int


def cpu_times(proc: Path = PROC) -> CpuTimes | None:
    """Read the first line of /proc/stat (proc(5)); None where it cannot be read.

    Time stolen by a hypervisor counts as busy: it is gone for us. Guest time is already part of user time.
    """
    try:
        with (proc / "stat").open("rb") as stream:
            fields = [int(part) for part in stream.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    total = sum(fields[:_GUEST])
    return CpuTimes(total - sum(fields[_IDLE : _IOWAIT + 1]), total) if total else None


def busy_pct(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Return the share of all CPUs that was busy between two readings, 0 to 100; None when unknown."""
    if before is None or after is None or after.total <= before.total:
        return None
    return min(100.0, max(0.0, 100.0 * (after.busy - before.busy) / (after.total - before.total)))


def busy_over(duration_s: float = 0.15, proc: Path = PROC) -> float | None:
    """Sleep for a moment and return how busy the node was meanwhile.

    The load average would not do: it still carries our own last run for a minute or more.
    """
    before = cpu_times(proc)
    time.sleep(duration_s)
    return busy_pct(before, cpu_times(proc))


def mem_available_mib(proc: Path = PROC) -> float | None:
    """Read MemAvailable of /proc/meminfo; None where it cannot be read."""
    try:
        with (proc / "meminfo").open("rb") as stream:
            for line in stream:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
