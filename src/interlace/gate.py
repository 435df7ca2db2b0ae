"""Is the node empty enough to measure on? Evidence, one pure judgement of it, and one loop that waits.

Foreign processes are named, never ended. The gate returns what it found and never raises: the caller
records the evidence and decides.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psutil

from interlace.monitor.cpu import busy_over, mem_available_mib
from interlace.monitor.occupancy import GpuState, Limits, occupancy, own_contexts
from interlace.monitor.readings import GpuReadError, GpuSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from interlace.settings import GateConfig

STABLE_S = 2.0
"""After the node was busy it must stay empty this long: memory is freed late, and in steps."""

CPU_SAMPLE_S = 0.15
"""How long the CPU load is looked at; short, because every run pays for it."""


@dataclass(frozen=True)
class GateEvidence:
    """The node at one moment. `unreadable` is why GPUs that exist could not be read; None otherwise."""

    taken_at: float
    gpus: tuple[GpuState, ...] = ()
    cpu_busy_pct: float | None = None
    unreadable: str | None = None
    notes: tuple[str, ...] = ()
    mem_available_mib: float | None = None


@dataclass(frozen=True)
class GateResult:
    """Whether the run may start. `reasons` are those still standing (with `warn`: those passed over)."""

    ok: bool
    waited_s: float
    reasons: tuple[str, ...] = ()
    evidence: GateEvidence | None = None

    @property
    def idle_mib(self) -> dict[str, float | None]:
        """Memory in use on each GPU before the run, by UUID: the monitor's idle baseline."""
        states = self.evidence.gpus if self.evidence else ()
        return {state.uuid: state.used_mib for state in states}


class Clock(Protocol):
    """What the loop needs of time; the module `time` has it."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Let this long pass."""
        ...


def judge(evidence: GateEvidence, config: GateConfig, empty_mib: Mapping[str, float] | None = None) -> tuple[str, ...]:
    """Return why the node is not empty, one sentence each; nothing when it is.

    `empty_mib` is the memory in use on each GPU (UUID) when it was last known to be empty.
    """
    reasons = [f"the GPUs cannot be read: {evidence.unreadable}"] if evidence.unreadable else []
    for state in evidence.gpus:
        reasons.extend(_gpu_reasons(state, config, (empty_mib or {}).get(state.uuid)))
    if evidence.cpu_busy_pct is not None and evidence.cpu_busy_pct > config.cpu_busy_pct:
        reasons.append(f"the CPUs are {evidence.cpu_busy_pct:.0f} % busy (gate.cpu_busy_pct={config.cpu_busy_pct:g})")
    free_mib = evidence.mem_available_mib
    if free_mib is not None and free_mib < config.memory_available_mib:
        limit = f"gate.memory_available_mib={config.memory_available_mib:g}"
        reasons.append(f"{free_mib:.0f} MiB of memory are available ({limit})")
    return tuple(reasons)


def wait_until_idle(
    config: GateConfig,
    source: GpuSource,
    *,
    cpu: Callable[[], float | None] = lambda: busy_over(CPU_SAMPLE_S),
    own_pids: Callable[[], Collection[int]] | None = None,
    clock: Clock = time,
    stable_s: float = STABLE_S,
    empty_mib: Mapping[str, float] | None = None,
    on_wait: Callable[[Sequence[str], float], None] = lambda _reasons, _waited_s: None,
) -> GateResult:
    """Look at the node as `gate.action` says: wait (up to `timeout_s`), warn, fail, or off.

    A node that is empty at the first look passes at once; one that was not must stay empty for `stable_s`.
    """
    if config.action == "off":
        return GateResult(ok=True, waited_s=0.0)
    began_s = clock.monotonic()
    idle_since_s: float | None = -math.inf  # nothing has been seen that would have to drain first
    while True:
        evidence = look(source, config, cpu=cpu, own_pids=own_pids)
        reasons = judge(evidence, config, empty_mib)
        now_s = clock.monotonic()
        if reasons:
            idle_since_s = None
        elif idle_since_s is None:
            idle_since_s = now_s
        if idle_since_s is not None and now_s - idle_since_s >= stable_s:
            return GateResult(ok=True, waited_s=now_s - began_s, evidence=evidence)
        if config.action != "wait":
            return GateResult(config.action == "warn", now_s - began_s, reasons, evidence)
        left_s = config.timeout_s - (now_s - began_s)
        if left_s <= 0:
            reasons = reasons or (_NOT_STABLE,)
            return GateResult(ok=False, waited_s=now_s - began_s, reasons=reasons, evidence=evidence)
        on_wait(reasons, now_s - began_s)
        clock.sleep(min(config.poll_s, left_s))


_NOT_STABLE = "the node became empty only just before the time limit (gate.timeout_s)"


def look(
    source: GpuSource,
    config: GateConfig,
    *,
    cpu: Callable[[], float | None] = lambda: busy_over(CPU_SAMPLE_S),
    own_pids: Callable[[], Collection[int]] | None = None,
) -> GateEvidence:
    """Take one look at the node: every GPU, used or not, and the CPUs."""
    unreadable: str | None = None
    states: tuple[GpuState, ...] = ()
    try:
        states = _gpu_states(source, config, own_pids or own_process_tree)
    except GpuReadError as error:
        unreadable = str(error)
    notes = (f"GPUs not checked: {source.reason}",) if source.kind == "none" else ()
    return GateEvidence(time.time(), states, cpu(), unreadable, notes + _notes(states), mem_available_mib())


def own_process_tree() -> frozenset[int]:
    """Return the pids of this process and everything below it."""
    me = psutil.Process()
    return frozenset((me.pid, *(child.pid for child in me.children(recursive=True))))


def _gpu_states(source: GpuSource, config: GateConfig, own_pids: Callable[[], Collection[int]]) -> tuple[GpuState, ...]:
    gpus = source.inventory()
    if not gpus:
        return ()
    listed = source.processes()
    pids = {process.pid for process in listed.processes}
    return occupancy(
        gpus,
        source.sample(),
        listed,
        own_pids=own_pids() if pids else (),
        living_pids={pid for pid in pids if Path(f"/proc/{pid}").exists()},
        limits=Limits(config.gpu_memory_mib, config.gpu_utilization_pct),
    )


def _gpu_reasons(state: GpuState, config: GateConfig, empty_mib: float | None) -> list[str]:
    """Say what keeps one GPU from being empty; our own left-overs count by their memory."""
    name = f"GPU {state.uuid if state.index is None else state.index}"
    if state.verdict == "busy" and state.reason in ("foreign_process", "process_unknown_pid"):
        return [f"{name}: {_names(state)}"]
    found = []
    if state.used_mib is not None and state.used_mib > config.gpu_memory_mib:
        holder = _names(state) or "no process listed for it"
        limit = f"gate.gpu_memory_mib={config.gpu_memory_mib:g}"
        found.append(f"{name}: {state.used_mib:.0f} MiB in use, {holder} ({limit})")
    elif state.used_mib is not None and empty_mib is not None and state.used_mib > empty_mib + config.gpu_drained_mib:
        limit = f"gate.gpu_drained_mib={config.gpu_drained_mib:g}"
        found.append(
            f"{name}: {state.used_mib:.0f} MiB in use, {empty_mib:.0f} when it was empty: not drained ({limit})"
        )
    if state.used_mib is None and empty_mib is not None:
        why = "; ".join(state.why.values()) or "no answer"
        found.append(f"{name}: its memory could be read before and cannot be now ({why})")
    if state.utilization_pct is not None and state.utilization_pct > config.gpu_utilization_pct:
        limit = f"gate.gpu_utilization_pct={config.gpu_utilization_pct:g}"
        found.append(f"{name}: {state.utilization_pct:.0f} % busy ({limit})")
    if state.temperature_c is not None and state.temperature_c > config.gpu_temperature_c:
        limit = f"gate.gpu_temperature_c={config.gpu_temperature_c:g}"
        found.append(f"{name}: {state.temperature_c:.0f} C, it has to cool ({limit})")
    return found


_WHOSE = {"own": "ours", "foreign": "not ours", "unknown": "outside this container"}


def _names(state: GpuState) -> str:
    """Name who computes on a GPU: those who are not ours, or ours when there is nobody else."""
    foreign = [process for process in state.processes if process.owner != "own"]
    return ", ".join(
        f"pid {one.pid} ({one.name or 'name unknown'}, {_WHOSE[one.owner]})" for one in foreign or state.processes
    )


def _notes(states: tuple[GpuState, ...]) -> tuple[str, ...]:
    """Tell what could not be known, and more than one process of ours on a GPU."""
    unknown = tuple(
        f"GPU {state.uuid if state.index is None else state.index} judged on part of the evidence:"
        f" {state.reason} ({'; '.join(f'{field}: {reason}' for field, reason in state.why.items())})"
        for state in states
        if state.verdict == "unknown"
    )
    crowded = (uuid for uuid, count in own_contexts(states).items() if count > 1)
    return unknown + tuple(f"GPU {uuid}: more than one process of ours holds a context" for uuid in crowded)
