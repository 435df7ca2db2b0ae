"""Who else used the node while a run was on, and whether that spoils the run."""

from __future__ import annotations

import resource
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from interlace import process
from interlace.monitor.foreign import LEAST_LOOKS, foreigners
from interlace.schema import Cause, Foreigner, gpu_name
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.gate import GateResult
    from interlace.lane.nodes.node import Ended
    from interlace.monitor.foreign import Sighting
    from interlace.schema import GpuSeen, RunRecord
    from interlace.settings import GateConfig

SHOWN = 3
MIB_PER_GIB = 1024.0


def children_cpu_s() -> float:
    """Return the CPU time of all children that have ended, and of theirs, as far as each waited for its own."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def others_cpu_pct(record: RunRecord, nodes: Sequence[Ended]) -> float | None:
    """Return the share of a node's CPUs that was busy and not ours, in percent; of several nodes the highest.

    None for a run that was killed: what its processes used was then never accounted to us.
    """
    if record.status != "ok" or record.returncode != 0 or record.wall_s <= 0:
        return None
    shares = [
        max(0.0, one.cpu_busy_pct - 100.0 * one.children_cpu_s / (record.wall_s * one.cpus))
        for one in nodes
        if one.cpu_busy_pct is not None
    ]
    return round(max(shares), 1) if shares else None


class Seen(Protocol):
    """What these judgements need of a monitor's result."""

    @property
    def gpus(self) -> tuple[GpuSeen, ...]:
        """What each GPU did."""

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """Who was on them."""


def foreigners_of(seen: Seen, placements: Sequence[Mapping[str, Any]]) -> tuple[Foreigner, ...]:
    """Return the compute processes on the GPUs that were not of this run."""
    gpus = [(rank.get("binding") or {}).get("gpu") or {} for rank in placements]
    own_ranks = Counter(str(gpu["uuid"]) for gpu in gpus if gpu.get("uuid"))
    index_of = {gpu.uuid: gpu.index for gpu in seen.gpus}
    return foreigners(seen.sightings, index_of, own_ranks, host_pids=process.has_host_pids())


def with_those_at_the_gate(foreign: tuple[Foreigner, ...], gate: GateResult) -> tuple[Foreigner, ...]:
    """Add those whom the gate saw just before the run and passed over; short runs see nobody twice."""
    known = {(one.pid, one.uuid) for one in foreign}
    states = gate.evidence.gpus if gate.evidence is not None and gate.reasons else ()
    there = tuple(
        Foreigner(process.pid, process.name, state.uuid, state.index, 0.0, 0.0, process.used_mib)
        for state in states
        for process in state.processes
        if process.owner != "own" and (process.pid, state.uuid) not in known
    )
    return (*foreign, *there)


def crowded(seen: Seen) -> tuple[str, ...]:
    """Say on which GPUs more than one process of ours computed: their peak memory holds more than one rank."""
    own = Counter(one.uuid for one in seen.sightings if one.owner == "own" and one.looks >= LEAST_LOOKS)
    index_of = {gpu.uuid: gpu.index for gpu in seen.gpus}
    return tuple(
        f"GPU {index_of.get(uuid, uuid)}: {number} processes of ours computed there; its peak memory holds them all"
        for uuid, number in own.items()
        if number > 1
    )


def disturbed(record: RunRecord, gate: GateConfig) -> RunRecord:
    """Mark a run disturbed that others shared the GPUs with.

    Not where the gate lets runs start beside others (`warn`, `off`): then the record names them, and reports flag it.
    """
    if record.status != "ok" or not record.foreign or gate.action in ("warn", "off"):
        return record
    who = first_of([told(one) for one in record.foreign], SHOWN)
    return replace(record, status="disturbed", cause=Cause("foreign", f"others computed on the GPUs: {who}"))


def told(one: Foreigner) -> str:
    """Write one foreign process: `pid 4711 (python) on GPU 3 from 12 to 80 s, 10.2 GiB`."""
    where = gpu_name(one)
    memory = "" if one.used_mib is None else f", {one.used_mib / MIB_PER_GIB:.1f} GiB"
    name = one.name or "name unknown"
    return f"pid {one.pid} ({name}) on {where} from {one.first_s:.0f} to {one.last_s:.0f} s{memory}"
