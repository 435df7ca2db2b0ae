"""Reads who uses the CPUs, and how fast they may go."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import psutil

from interlace.doctor.facts import SHOWN_FROM_PCT, CpuLoad, CpuSettings, CpuUser
from interlace.gate import own_process_tree
from interlace.monitor.cpu import busy_pct, cpu_times
from interlace.node import text_of
from interlace.rank.numa import parse_cpulist
from interlace.wording import printable

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_S = 0.5
SHOWN_USERS = 5


class _Used(NamedTuple):
    at_s: float
    cpu_s: float


def load_over(sample_s: float = SAMPLE_S, shown: int = SHOWN_USERS) -> CpuLoad:
    """Sleep for a moment, and say how busy all CPUs were and which processes that are not ours kept them so."""
    before = _used_by_process()
    first = cpu_times()
    time.sleep(sample_s)
    busy = busy_pct(first, cpu_times())
    own = own_process_tree()
    shares = {process: _share_pct(before[process], now) for process, now in _used_by_process().items()
              if process in before and process.pid not in own}  # fmt: skip
    biggest = sorted(shares, key=lambda process: -shares[process])[:shown]
    users = (_user(process, shares[process]) for process in biggest if shares[process] >= SHOWN_FROM_PCT)
    return CpuLoad(sample_s, busy, tuple(user for user in users if user is not None))


def _used_by_process() -> dict[psutil.Process, _Used]:
    """Read the CPU seconds of every process; those that just ended are left out."""
    used = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            used[process] = _Used(time.monotonic(), times.user + times.system)
    return used


def _share_pct(before: _Used, now: _Used) -> float:
    passed_s = now.at_s - before.at_s
    return 100.0 * (now.cpu_s - before.cpu_s) / passed_s if passed_s > 0 else 0.0


def _user(process: psutil.Process, share_pct: float) -> CpuUser | None:
    """Name a process; None when it has ended meanwhile. Its owner may have no name in a container."""
    user = None
    with contextlib.suppress(psutil.Error, KeyError):
        user = process.username()
    try:
        return CpuUser(process.pid, printable(process.name()), user, round(share_pct, 1))
    except psutil.Error:
        return None


def cpu_settings(root: Path) -> CpuSettings:
    """Read frequency scaling, boost, SMT and CPUs that are offline or isolated."""
    cpus = root / "sys/devices/system/cpu"
    online = text_of(cpus / "online")
    folders = [cpus / f"cpu{number}/cpufreq" for number in sorted(_numbers(online))]
    states = [text_of(cpus / f"{driver}/status") for driver in ("intel_pstate", "amd_pstate")]
    return CpuSettings(
        online,
        text_of(cpus / "offline"),
        text_of(cpus / "isolated"),
        _counted(folders, "scaling_governor"),
        _counted(folders, "energy_performance_preference"),
        next((text for folder in folders if (text := text_of(folder / "scaling_driver"))), None),
        "active" in states,
        text_of(cpus / "smt/control") or None,
        _boost(cpus),
    )


def _numbers(online: str) -> frozenset[int]:
    try:
        return parse_cpulist(online)
    except ValueError:
        return frozenset()


def _counted(folders: list[Path], name: str) -> dict[str, int]:
    return dict(Counter(text for folder in folders if (text := text_of(folder / name))))


def _boost(cpus: Path) -> bool | None:
    """Tell whether clocks above the nominal one are allowed; intel_pstate writes it the other way round."""
    if allowed := text_of(cpus / "cpufreq/boost"):
        return allowed == "1"
    forbidden = text_of(cpus / "intel_pstate/no_turbo")
    return forbidden == "0" if forbidden else None
