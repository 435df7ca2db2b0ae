"""What bounds a step, from the metrics of the rank that the others wait for, and what could be had at most. Pure.

Thresholds and where each is from: docs/traces.md.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.trace.metrics import PARTS
from interlace.trace.ranks import Meeting, meeting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlace.trace.metrics import RankMetrics, StepMetrics


@dataclass(frozen=True)
class Limits:
    """From which share of a step on (0 to 1) something is a finding."""

    data: float = 0.05
    comm: float = 0.10
    skew: float = 0.50
    launch: float = 0.20
    launch_busy: float = 0.80
    sync: float = 0.05
    syncs: float = 5.0
    memory: float = 0.05
    device: float = 0.20
    compute: float = 0.80
    slowdown: float = 1.5
    speedup: float = 1.2
    kernels_cv: float = 0.10


LIMITS = Limits()

LEVERS = {
    "data-bound": "more loader workers, persistent_workers, pin_memory, prefetch_factor",
    "skew-bound": "look at the rank that comes last: its host, NUMA binding, its share of the data; not at the links",
    "comm-bound": "fewer and larger collectives, bucket_cap_mb, overlap, broadcast_buffers=False",
    "launch-bound": "compile with CUDA graphs, fused optimizer, fewer and larger operations",
    "sync-bound": "keep losses and metrics on the device, read them every k steps",
    "memcpy-bound": "pinned memory with non_blocking=True, copy ahead, build tensors on the device",
    "device-wait": "dependencies between streams, launch latency of a graph",
}
"""What helps against each finding."""


@dataclass(frozen=True)
class Finding:
    """One thing that holds a step up: `ceiling_ms` a step is what removing all of it could give, and no promise."""

    kind: str
    ceiling_ms: float
    why: str
    lever: str


@dataclass(frozen=True)
class Diagnosis:
    """What one job's traces say. Medians over the complete steps of the judged rank; times in ms.

    `step_ms` is the step without the profiler where that is known, else None; the idle time of `parts_ms` is then
    scaled so that the parts sum to it. `findings` are ordered by what they could give; none of them means that the
    device's own work bounds the step, or (`verdict` None) that the trace shows no work of a GPU.
    """

    name: str
    ranks: tuple[RankMetrics, ...]
    judged: int
    step_ms: float | None
    profiled_ms: float
    parts_ms: dict[str, float]
    busy: float
    verdict: str | None
    findings: tuple[Finding, ...]
    meeting: Meeting | None
    doubts: tuple[str, ...]

    @property
    def steps(self) -> tuple[StepMetrics, ...]:
        """The complete steps of the judged rank."""
        return self.ranks[self.judged].steps

    def number_of(self, position: int) -> int:
        """Return a rank's number, or its position where its trace does not say it."""
        rank = self.ranks[position].rank
        return position if rank is None else rank


def median(steps: Sequence[StepMetrics], of: Callable[[StepMetrics], float]) -> float:
    """Return the median of one number over steps."""
    return float(statistics.median(of(one) for one in steps))


def diagnose(
    name: str, ranks: Sequence[RankMetrics], step_ms: float | None = None, limits: Limits = LIMITS
) -> Diagnosis:
    """Judge the traces of one job, one a rank; `step_ms` is its step time without the profiler.

    The rank that most collectives wait for is judged: on the others its lateness looks like communication. Where that
    cannot be told, the first one with work of a GPU is.
    """
    met = meeting(ranks)
    working = (position for position, one in enumerate(ranks) if any(step.kernels for step in one.steps))
    return _judge(name, tuple(ranks), next(working, 0) if met is None else met.last, met, step_ms, limits)


def each_rank(job: Diagnosis) -> list[Diagnosis]:
    """Judge every rank of a job."""
    return [
        _judge(f"{job.name}, rank {job.number_of(index)}", job.ranks, index, job.meeting, job.step_ms, LIMITS)
        for index in range(len(job.ranks))
    ]


def _judge(
    name: str, ranks: tuple[RankMetrics, ...], judged: int, met: Meeting | None, step_ms: float | None, limits: Limits
) -> Diagnosis:
    steps = ranks[judged].steps
    profiled_ms = median(steps, lambda one: one.window_ms)
    strange = _strange(steps, profiled_ms, step_ms, limits)
    parts = _parts(steps, profiled_ms if step_ms is None or strange else step_ms)
    whole = sum(parts.values())
    busy = min(1.0, median(steps, lambda one: one.busy_ms) / whole) if whole > 0 else 0.0
    works = any(one.kernels for one in steps)
    findings = _findings(steps, parts, busy, met, limits) if works else []
    findings.sort(key=lambda one: -one.ceiling_ms)
    bound = "compute-bound" if parts["compute"] >= limits.compute * whole else "nothing stands out"
    return Diagnosis(
        name, ranks, judged, step_ms, profiled_ms, parts, busy,
        (findings[0].kind if findings else bound) if works else None,
        tuple(findings), met,
        (*(_of_profiler(profiled_ms, step_ms, strange, limits) if works else ()), *_doubts(ranks, judged, met, limits)),
    )  # fmt: skip


def _strange(steps: Sequence[StepMetrics], profiled_ms: float, step_ms: float | None, limits: Limits) -> str | None:
    """Say why a step time cannot be that of these steps: the profiler shortens none, and no kernel either."""
    if step_ms is None:
        return None
    compute_ms = median(steps, lambda one: one.parts_ms["compute"])
    if step_ms > limits.speedup * profiled_ms:
        return f"the step as profiled is shorter than without the profiler ({profiled_ms:.4g} ms, {step_ms:.4g} ms)"
    if limits.speedup * step_ms < compute_ms:
        return f"the step without the profiler is shorter than its compute ({step_ms:.4g} ms, {compute_ms:.4g} ms)"
    return None


def _parts(steps: Sequence[StepMetrics], step_ms: float) -> dict[str, float]:
    """Divide a step of `step_ms`: work as traced, idle time scaled (the profiler slows the host and not the GPU)."""
    parts = {name: median(steps, lambda one, name=name: one.parts_ms[name]) for name in PARTS}  # type: ignore[misc]
    idle = sum(value for name, value in parts.items() if name.startswith("idle"))
    left = max(step_ms - sum(value for name, value in parts.items() if not name.startswith("idle")), 0.0)
    scale = left / idle if idle > 0 else 0.0
    return {name: value * scale if name.startswith("idle") else value for name, value in parts.items()}


def _findings(
    steps: Sequence[StepMetrics], parts: dict[str, float], busy: float, met: Meeting | None, limits: Limits
) -> list[Finding]:
    whole = sum(parts.values())
    share = {name: value / whole for name, value in parts.items()}
    syncs = median(steps, lambda one: one.syncs)
    waited = median(steps, lambda one: one.data_ms / one.host_ms if one.host_ms else 0.0)
    late = share["idle_sync"] + share["idle_launch"]
    found = []

    def add(kind: str, part: str, why: str) -> None:
        found.append(Finding(kind, parts[part], why, LEVERS[kind]))

    if max(share["idle_data"], waited) >= limits.data:
        add("data-bound", "idle_data", f"the host waits for the data loader for {100 * waited:.0f} % of its step")
    if share["exposed_comm"] >= limits.comm:
        if met is not None and met.wait_share >= limits.skew:
            why = f"{100 * met.wait_share:.0f} % of all communication is waiting for a rank that comes late"
            add("skew-bound", "exposed_comm", why)
        else:
            why = f"communication that no compute hides is {100 * share['exposed_comm']:.0f} % of the step"
            add("comm-bound", "exposed_comm", why)
    if share["idle_launch"] >= limits.launch and busy < limits.launch_busy:
        calls, mean_us = median(steps, lambda one: one.launches), median(steps, lambda one: one.mean_kernel_us)
        why = f"the GPU waits for the host to launch; {calls:,.0f} launch calls a step, kernels of {mean_us:.1f} us"
        add("launch-bound", "idle_launch", why)
    if share["idle_sync"] >= limits.sync or (syncs > limits.syncs and late >= limits.launch):
        why = f"{syncs:.0f} times a step the host waits for the device, and the device then for the host"
        add("sync-bound", "idle_sync", why)
    if share["exposed_mem"] >= limits.memory:
        why = f"copies that nothing hides are {100 * share['exposed_mem']:.0f} % of the step"
        add("memcpy-bound", "exposed_mem", why)
    if share["idle_device"] >= limits.device:
        why = f"work is queued and does not start for {100 * share['idle_device']:.0f} % of the step"
        add("device-wait", "idle_device", why)
    return found


def _doubts(ranks: Sequence[RankMetrics], judged: int, met: Meeting | None, limits: Limits) -> list[str]:
    """Say what of the traces themselves makes the numbers less sure."""
    steps = ranks[judged].steps
    doubts = _of_steps(steps, limits) if any(one.kernels for one in steps) else []
    if len(ranks) > 1 and met is None and any(step.collectives for rank in ranks for step in rank.steps):
        doubts.append(
            "the ranks have no step with the same collectives in common (another run, other steps, a trace that was"
            f" cut?): who waits for whom cannot be told; {ranks[judged].name} is judged, and its waiting looks like"
            " communication"
        )
    worlds = {rank.world_size for rank in ranks if rank.world_size}
    if worlds and max(worlds) > len(ranks):
        doubts.append(f"{len(ranks)} of {max(worlds)} ranks: who waits for whom is only seen over all of them")
    for rank in ranks:
        if rank.dropped:
            cut = ", ".join(map(str, rank.dropped))
            doubts.append(f"{rank.name}: steps {cut} were cut by the profiler and are left out")
        doubts += [f"{rank.name}: {remark}" for remark in rank.remarks]
    return doubts


def _of_profiler(profiled_ms: float, step_ms: float | None, strange: str | None, limits: Limits) -> list[str]:
    if step_ms is None:
        return [
            "the step time without the profiler is not known: shares are of the profiled step, whose host is slower"
        ]
    if strange:
        return [f"{strange}: not the same job or not its usual steps; shares are of the profiled step"]
    slowdown = profiled_ms / step_ms
    if slowdown <= limits.slowdown:
        return []
    return [f"the profiler made the step {slowdown:.1f} times as long: the idle time's division is rough"]


def _of_steps(steps: Sequence[StepMetrics], limits: Limits) -> list[str]:
    if len(steps) < 2:  # noqa: PLR2004 (one step may be any)
        return ["one complete step only"]
    kernels = [one.kernels for one in steps]
    if statistics.stdev(kernels) <= limits.kernels_cv * statistics.mean(kernels):
        return []
    return [f"steps differ in their work: {min(kernels)} to {max(kernels)} kernels"]
