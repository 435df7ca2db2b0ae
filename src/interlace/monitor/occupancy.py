"""Who holds each GPU: the one pure judgement of idle, own, busy, unknown from memory, load and processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from interlace.monitor.readings import Gpu, GpuProcess, GpuSample, ProcessList

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Verdict = Literal["idle", "own", "busy", "unknown"]
Owner = Literal["own", "foreign", "unknown"]


@dataclass(frozen=True)
class OwnedProcess:
    """A compute process and whose it is. `unknown`: its pid is not in this namespace's /proc."""

    pid: int
    owner: Owner
    name: str | None = None
    used_mib: float | None = None


@dataclass(frozen=True)
class GpuState:
    """What one GPU is found to be; `reason` is a code, and `why` the text of an unknown."""

    index: int | None
    uuid: str
    verdict: Verdict
    reason: str | None
    used_mib: float | None = None
    utilization_pct: float | None = None
    processes: tuple[OwnedProcess, ...] = ()
    why: dict[str, str] = field(default_factory=dict)
    temperature_c: float | None = None


@dataclass(frozen=True)
class Limits:
    """Above these a GPU counts as busy. An idle GPU may show hundreds of MiB, so zero is no limit."""

    memory_mib: float = 1024.0
    utilization_pct: float = 10.0


def occupancy(
    gpus: Iterable[Gpu],
    samples: Iterable[GpuSample],
    listed: ProcessList,
    *,
    own_pids: Collection[int] = (),
    living_pids: Collection[int] | None = None,
    limits: Limits | None = None,
) -> tuple[GpuState, ...]:
    """Judge every GPU; idle needs no process AND little memory AND little load, each of them known.

    Samples and processes are joined by UUID alone. `living_pids` are the pids of our own /proc; without
    them every pid that is not ours is foreign. A process on a GPU that is not in the inventory (another
    container's, say) is shown as a GPU of its own.
    """
    gpus = tuple(gpus)
    by_uuid = {sample.uuid: sample for sample in samples}
    parents = {child.uuid: gpu.uuid for gpu in gpus for child in gpu.mig}
    held: dict[str, list[OwnedProcess]] = {}
    for process in listed.processes:
        uuid = parents.get(process.uuid or "", process.uuid or "unknown")
        held.setdefault(uuid, []).append(_owned(process, own_pids, living_pids))
    strangers = (Gpu(None, uuid) for uuid in held if uuid not in {gpu.uuid for gpu in gpus})
    return tuple(
        _state(
            gpu,
            by_uuid.get(gpu.uuid),
            tuple(held.get(gpu.uuid, ())),
            listed.reasons.get(gpu.uuid, listed.reasons.get("*")),
            limits or Limits(),
        )
        for gpu in (*gpus, *strangers)
    )


def overall(states: Iterable[GpuState]) -> Verdict:
    """Reduce to one word: busy over unknown over own over idle."""
    found = {state.verdict for state in states}
    order: tuple[Verdict, ...] = ("busy", "unknown", "own")
    return next((verdict for verdict in order if verdict in found), "idle")


def own_contexts(states: Iterable[GpuState]) -> dict[str, int]:
    """Count our own processes per GPU; more than one on a GPU is a finding, not foreign load."""
    return {state.uuid: len({one.pid for one in state.processes if one.owner == "own"}) for state in states}


def _owned(process: GpuProcess, own_pids: Collection[int], living_pids: Collection[int] | None) -> OwnedProcess:
    if process.pid in own_pids:
        owner: Owner = "own"
    elif living_pids is None or process.pid in living_pids:
        owner = "foreign"
    else:
        owner = "unknown"
    return OwnedProcess(process.pid, owner, process.name, process.used_mib)


def _state(
    gpu: Gpu, sample: GpuSample | None, held: tuple[OwnedProcess, ...], unlisted: str | None, limits: Limits
) -> GpuState:
    used = sample.memory_used_mib if sample else None
    load = sample.utilization_pct if sample else None
    why = dict(sample.reasons) if sample else dict(gpu.reasons)
    if unlisted is not None:
        why["processes"] = unlisted
    verdict, reason = _verdict(used, load, held, unlisted=unlisted is not None, limits=limits)
    heat_c = sample.temperature_c if sample else None
    return GpuState(gpu.index, gpu.uuid, verdict, reason, used, load, held, why, heat_c)


def _verdict(
    used: float | None, load: float | None, held: tuple[OwnedProcess, ...], *, unlisted: bool, limits: Limits
) -> tuple[Verdict, str | None]:
    owners = {process.owner for process in held}
    busy = {
        "foreign_process": "foreign" in owners,
        "process_unknown_pid": "unknown" in owners,
        "memory_without_process": _unexplained_mib(used, held) > limits.memory_mib,
        "load_without_process": not owners and load is not None and load > limits.utilization_pct,
    }
    for reason, holds in busy.items():
        if holds:
            return "busy", reason
    if owners:
        return "own", None
    if unlisted:
        return "unknown", "process_list_not_supported"
    return ("idle", None) if used is not None else ("unknown", "memory_unavailable")


def _unexplained_mib(used: float | None, held: tuple[OwnedProcess, ...]) -> float:
    """Return the memory no listed process accounts for; 0 where a process does not tell its share."""
    shares = [process.used_mib for process in held]
    if used is None or None in shares:
        return 0.0
    return used - sum(share for share in shares if share is not None)
