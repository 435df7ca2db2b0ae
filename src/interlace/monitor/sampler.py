"""The thread that watches the node during a run, and what it saw: the only sampler."""

from __future__ import annotations

import threading
import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.monitor.cpu import PROC, CpuTimes, busy_pct, cpu_times, mem_available_mib
from interlace.monitor.readings import Gpu, GpuReadError, GpuSample, GpuSource
from interlace.monitor.seen import gpus_seen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from interlace.monitor.foreign import Sighting, Sightings
    from interlace.schema import GpuSeen

GPU_COLUMNS = (
    "memory_used_mib",
    "utilization_pct",
    "sm_clock_mhz",
    "temperature_c",
    "power_w",
    "throttle",
)
NODE_COLUMNS = ("cpu_busy_pct", "mem_available_mib")
_MISSING = float("nan")
_JOIN_TIMEOUT_S = 1.0
LOOK_EVERY_S = 1.0
"""How often the processes on the GPUs are listed; it costs more than a sample, and who computes stays a while."""
LOOKS_PER_INTERVAL = 5.0


@dataclass(frozen=True)
class MonitorResult:
    """What was seen during one run.

    `columns`: name -> values of equal length; one row per moment and GPU, and one per moment for the node
    itself (`uuid` None). Missing values are NaN. `t_s` counts from `started_monotonic_s`, the system-wide
    monotonic clock that ranks also read. `own_cpu_s` is the sampler's own CPU time (without nvidia-smi's
    processes); None when the sampler hung. `samples` are the moments sampled, `missed` those skipped or
    unreadable.
    """

    source: str
    started_at: float
    started_monotonic_s: float
    interval_s: float
    columns: Mapping[str, list[float] | list[str | None]]
    gpus: tuple[GpuSeen, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    cpu_busy_pct: float | None = None
    own_cpu_s: float | None = None
    samples: int = 0
    missed: int = 0
    notes: tuple[str, ...] = ()


class _Rows:
    """Samples as plain numbers: hours at 5 Hz on eight GPUs stay within a few tens of MiB."""

    def __init__(self) -> None:
        self._uuids: list[str | None] = []
        self._numbers = {name: array("d") for name in ("t_s", *GPU_COLUMNS, *NODE_COLUMNS)}

    def add(self, t_s: float, uuid: str | None, values: Mapping[str, float | None]) -> None:
        """Append one row; what `values` lacks is missing."""
        self._numbers["t_s"].append(t_s)
        for name in (*GPU_COLUMNS, *NODE_COLUMNS):
            value = values.get(name)
            self._numbers[name].append(_MISSING if value is None else value)
        self._uuids.append(uuid)

    def columns(self) -> dict[str, list[float] | list[str | None]]:
        """Copy the complete rows (a sampler left behind may be in the middle of one)."""
        n = min(len(self._uuids), *(len(column) for column in self._numbers.values()))
        numbers: dict[str, list[float] | list[str | None]] = {
            name: column[:n].tolist() for name, column in self._numbers.items()
        }
        return {"uuid": self._uuids[:n], **numbers}


class Monitor:
    """Samples a node every `interval_s` from a thread of its own; nothing it meets reaches the run.

    `sightings` collects who computes on the GPUs meanwhile; without it nobody is looked for. `idle_mib` (GPU UUID ->
    MiB) is the memory in use before the run; without it one sample is taken in `start`, before any rank can have
    started. Start once, stop once.
    """

    def __init__(
        self,
        source: GpuSource,
        interval_s: float = 0.2,
        *,
        idle_mib: Mapping[str, float | None] | None = None,
        sightings: Sightings | None = None,
        proc: Path = PROC,
    ) -> None:
        self._source = source
        self._interval_s = max(interval_s, source.min_interval_s)
        self._idle_mib = dict(idle_mib) if idle_mib is not None else None
        self._sightings = sightings
        self._look_every_s = max(LOOK_EVERY_S, LOOKS_PER_INTERVAL * source.min_interval_s)
        self._next_look_s = 0.0
        self._proc = proc
        self._rows = _Rows()
        self._notes: dict[str, None] = {}
        if self._interval_s > interval_s:
            self._note(f"{source.kind} is asked every {self._interval_s:g} s, not every {interval_s:g} s")
        self._gpus: tuple[Gpu, ...] = ()
        self._ask_gpus = True
        self._samples = self._missed = 0
        self._own_cpu_s: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interlace-monitor", daemon=True)

    def start(self) -> None:
        """Take the idle baseline, then begin to sample."""
        self._prepare()
        self._started_at, self._started_s = time.time(), time.monotonic()
        self._first_cpu = self._last_cpu = cpu_times(self._proc)
        self._thread.start()

    def stop(self) -> MonitorResult:
        """End the sampling and return what was seen. Waits at most a second for a sample in flight."""
        self._stopping.set()
        self._thread.join(_JOIN_TIMEOUT_S)
        if not self._thread.is_alive():
            self._last_look()
        else:
            self._note(f"{self._source.kind} did not answer when the run ended; its sampler was left behind")
        columns = self._rows.columns()
        gpus = gpus_seen(self._gpus, self._idle_mib or {}, columns)
        for gpu in gpus:
            name = self._name(gpu.uuid)
            told = any(note.startswith(f"{name}: memory") for note in self._notes)
            if gpu.reason is not None and self._ask_gpus and not told:
                self._note(f"{name}: {gpu.reason}")
        return MonitorResult(
            self._source.kind,
            self._started_at,
            self._started_s,
            self._interval_s,
            columns,
            gpus,
            self._sightings.all() if self._sightings else (),
            busy_pct(self._first_cpu, cpu_times(self._proc)),
            self._own_cpu_s,
            self._samples,
            self._missed,
            tuple(self._notes),
        )

    def _prepare(self) -> None:
        if self._source.kind == "none":
            self._ask_gpus = False
            self._note(f"no GPU samples: {self._source.reason}")
            return
        try:
            self._gpus = self._source.inventory()
            if self._idle_mib is None:
                self._idle_mib = {one.uuid: one.memory_used_mib for one in self._source.sample()}
        except Exception as error:  # noqa: BLE001 (whatever a driver does, the run goes on)
            self._note(f"no idle baseline of the GPUs: {error}")

    def _run(self) -> None:
        began_s = time.thread_time()
        next_s = self._started_s
        while not self._stopping.wait(max(0.0, next_s - time.monotonic())):
            self._tick()
            due = int((time.monotonic() - next_s) / self._interval_s)
            self._missed += due
            next_s += (due + 1) * self._interval_s
        self._own_cpu_s = time.thread_time() - began_s

    def _tick(self) -> None:
        try:
            self._sample_node()
            if self._ask_gpus:
                self._sample_gpus()
                self._look_around()
            self._samples += 1
        except Exception as error:  # noqa: BLE001 (a sampler's trouble must never reach the run)
            self._missed += 1
            self._note(f"a sample failed: {error}")
            self._ask_gpus &= not (isinstance(error, GpuReadError) and error.code == "switched_off")

    def _sample_node(self) -> None:
        now: CpuTimes | None = cpu_times(self._proc)
        busy = busy_pct(self._last_cpu, now)
        self._last_cpu = now
        t_s = time.monotonic() - self._started_s
        self._rows.add(t_s, None, {"cpu_busy_pct": busy, "mem_available_mib": mem_available_mib(self._proc)})

    def _sample_gpus(self) -> None:
        for one in self._source.sample():
            self._rows.add(one.t_s - self._started_s, one.uuid, _numbers(one))
            for field, reason in one.reasons.items():
                self._note(f"{self._name(one.uuid)}: {field} not available: {reason}")

    def _last_look(self) -> None:
        """Look around once more at the end: a run of a second has one look at its start and this one."""
        self._next_look_s = 0.0
        try:
            if self._ask_gpus:
                self._look_around()
        except Exception as error:  # noqa: BLE001 (as in `_tick`)
            self._note(f"a sample failed: {error}")

    def _look_around(self) -> None:
        """List who computes on the GPUs, now and then."""
        t_s = time.monotonic() - self._started_s
        if self._sightings is None or t_s < self._next_look_s:
            return
        self._next_look_s = t_s + self._look_every_s
        listed = self._source.processes()
        self._sightings.look(listed.processes, t_s)
        for uuid, reason in listed.reasons.items():
            where = "" if uuid == "*" else f"{self._name(uuid)}: "
            self._note(f"{where}who computes there is not known: {reason}")

    def _name(self, uuid: str) -> str:
        index = next((gpu.index for gpu in self._gpus if gpu.uuid == uuid), None)
        return f"GPU {uuid}" if index is None else f"GPU {index}"

    def _note(self, text: str) -> None:
        """Keep each note once, in the order of their coming."""
        self._notes.setdefault(text)


def _numbers(sample: GpuSample) -> dict[str, float | None]:
    return {name: getattr(sample, name) for name in GPU_COLUMNS}
