"""What one rank's trace says of each profiled step. Pure; definitions and their sources: docs/traces.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlace.trace import spans
from interlace.trace.idle import IDLE, idle_parts
from interlace.trace.sites import blocking_calls, sync_sites

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from interlace.trace.columns import Calls, Collective, Trace

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

WHOLE_FILE = -1
MS_PER_US = 1e-3
NO_LAUNCH = -1
COMPLETE = 0.8
"""A step with fewer kernels than this share of the median was cut by the profiler's window."""
SHORT_KERNEL_US = 10.0
WORK = ("compute", "exposed_comm", "exposed_mem")
PARTS = (*WORK, *IDLE)


@dataclass(frozen=True)
class StepMetrics:
    """One profiled step of one rank. Times in ms; `parts_ms` divide `window_ms` without overlap (names: PARTS).

    The window is the host's step, extended to the end of the GPU work that it launched. `busy_ms` counts a moment
    once however many streams are at work; `comm_ms` is communication whether hidden by compute or not. `collectives`
    and `collective_ms` are the communication kernels in their order.
    """

    step: int
    host_ms: float
    window_ms: float
    busy_ms: float
    comm_ms: float
    parts_ms: dict[str, float]
    kernels: int
    copies: int
    mean_kernel_us: float
    short_kernels: float
    launches: int
    graph_launches: int
    graph_kernels: int
    operators: int
    syncs: int
    sync_ms: float
    sync_sites: dict[str, int]
    allocations: int
    data_ms: float
    collectives: tuple[Collective, ...]
    collective_ms: tuple[float, ...]


@dataclass(frozen=True)
class RankMetrics:
    """The complete steps of one rank; `dropped` are those that the profiler's window cut."""

    name: str
    rank: int | None
    world_size: int | None
    steps: tuple[StepMetrics, ...]
    dropped: tuple[int, ...]
    orphans: int
    longest: tuple[tuple[str, float, int], ...]
    remarks: tuple[str, ...] = ()


def measure(trace: Trace) -> RankMetrics:
    """Describe every step of a trace, or the whole file as one where the profiler had no schedule."""
    steps, numbers = trace.steps, trace.step_number.tolist()
    if len(steps) == 0:
        steps, numbers = np.array([trace.host]), [WHOLE_FILE]
    launch = _launch_of(trace)
    step_of = _step_of(trace, steps, launch)
    windows = _windows(trace, steps, step_of)
    blocking = blocking_calls(trace, launch)
    every = [
        _one(trace, number, steps[index], windows[index], step_of == index, launch, blocking)
        for index, number in enumerate(numbers)
    ]
    enough = COMPLETE * float(np.median([one.kernels for one in every]))
    complete = [index for index, one in enumerate(every) if one.kernels >= enough]
    return RankMetrics(
        name=trace.name,
        rank=trace.rank,
        world_size=trace.world_size,
        steps=tuple(every[index] for index in complete),
        dropped=tuple(one.step for one in every if one.kernels < enough),
        orphans=int((launch < 0).sum()) if len(trace.steps) == 0 else int((step_of < 0).sum()),
        longest=_longest(trace, np.isin(step_of, complete), len(complete)),
        remarks=trace.remarks,
    )


def _launch_of(trace: Trace) -> Ints:
    """Return the index of the earliest launch call with each GPU event's correlation, NO_LAUNCH without one."""
    first: dict[int, int] = {}
    for index, correlation in enumerate(trace.launches.correlation.tolist()):
        first.setdefault(correlation, index)
    first[-1] = NO_LAUNCH
    return np.array([first.get(one, NO_LAUNCH) for one in trace.gpu_correlation.tolist()], dtype=np.int64)


def _step_of(trace: Trace, steps: Floats, launch: Ints) -> Ints:
    """Return the index of the step in which each GPU event was launched, -1 outside of all."""
    begun = np.full(len(launch), -np.inf)
    begun[launch >= 0] = trace.launches.begin[launch[launch >= 0]]
    index = np.searchsorted(steps[:, 0], begun, side="right") - 1
    return np.where((index >= 0) & (begun < steps[index.clip(0), 1]), index, -1)


def _windows(trace: Trace, steps: Floats, step_of: Ints) -> list[tuple[float, float]]:
    """Extend each step to the end of the GPU work that it launched; no moment is in two windows."""
    own = step_of >= 0
    earlier = trace.gpu[~own & (trace.gpu[:, 1] <= trace.gpu[own, 0].min())] if own.any() else spans.NONE
    end, windows = float(earlier[:, 1].max(initial=-np.inf)), []
    for index, (host_begin, host_end) in enumerate(steps.tolist()):
        begin = max(end, host_begin)
        end = max(begin, host_end, float(trace.gpu[step_of == index, 1].max(initial=-np.inf)))
        windows.append((begin, end))
    return windows


def _one(
    trace: Trace, number: int, host: Floats, window: tuple[float, float], own: Bools, launch: Ints, blocking: Calls
) -> StepMetrics:
    kernel = own & ~trace.copy
    lengths_us = trace.gpu[kernel, 1] - trace.gpu[kernel, 0]
    comm_index = np.flatnonzero(own & trace.comm)
    launched, inside = _within(trace.launches.begin, host), _within(trace.operators.begin, host)
    graph = np.array(["GraphLaunch" in name for name in trace.launches.name], dtype=np.bool_)
    syncs = blocking.chosen(_within(blocking.begin, host))
    busy_ms, comm_ms, parts_ms = _times(trace, window, launch, np.sort(blocking.end))
    return StepMetrics(
        step=number,
        host_ms=MS_PER_US * float(host[1] - host[0]),
        window_ms=MS_PER_US * (window[1] - window[0]),
        busy_ms=busy_ms,
        comm_ms=comm_ms,
        parts_ms=parts_ms,
        kernels=int(kernel.sum()),
        copies=int((own & trace.copy).sum()),
        mean_kernel_us=float(lengths_us.mean()) if len(lengths_us) else 0.0,
        short_kernels=float((lengths_us < SHORT_KERNEL_US).mean()) if len(lengths_us) else 0.0,
        launches=int(launched.sum()),
        graph_launches=int((launched & graph).sum()),
        graph_kernels=int(graph[launch[kernel]].sum()) if len(graph) else 0,
        operators=sum(name.startswith("aten::") for name in trace.operators.chosen(inside).name),
        syncs=len(syncs.name),
        sync_ms=MS_PER_US * float((syncs.end - syncs.begin).sum()),
        sync_sites=dict(Counter(sync_sites(trace, syncs))),
        allocations=int(_within(trace.allocations.begin, host).sum()),
        data_ms=MS_PER_US * spans.total(spans.clip(spans.union(trace.data), float(host[0]), float(host[1]))),
        collectives=tuple(one for one in (trace.collectives[index] for index in comm_index) if one is not None),
        collective_ms=tuple((MS_PER_US * (trace.gpu[comm_index, 1] - trace.gpu[comm_index, 0])).tolist()),
    )


def _times(
    trace: Trace, window: tuple[float, float], launch: Ints, blocking_end: Floats
) -> tuple[float, float, dict[str, float]]:
    """Divide one window by what the GPU did and waited for; also its busy time and all communication. In ms."""
    near = (trace.gpu[:, 0] < window[1]) & (trace.gpu[:, 1] > window[0])
    comm, compute, memory = (
        spans.clip(spans.union(trace.gpu[chosen & near]), *window)
        for chosen in (trace.comm, ~trace.comm & ~trace.copy, trace.copy)
    )
    busy = spans.union(np.concatenate((comm, compute, memory)))
    shown = {
        "compute": spans.total(compute),
        "exposed_comm": spans.total(spans.subtract(comm, compute)),
        "exposed_mem": spans.total(spans.subtract(memory, spans.union(np.concatenate((compute, comm))))),
        **idle_parts(trace, window, busy, launch, blocking_end),
    }
    parts_ms = {name: MS_PER_US * shown[name] for name in PARTS}
    return MS_PER_US * spans.total(busy), MS_PER_US * spans.total(comm), parts_ms


def _within(begin: Floats, host: Floats) -> Bools:
    return np.asarray((begin >= host[0]) & (begin < host[1]))


def _longest(trace: Trace, chosen: Bools, steps: int, most: int = 5) -> tuple[tuple[str, float, int], ...]:
    """Return the kernels that take longest: name, ms a step, times in all."""
    spent: Counter[str] = Counter()
    times: Counter[str] = Counter()
    lengths = (trace.gpu[:, 1] - trace.gpu[:, 0]).tolist()
    for index in np.flatnonzero(chosen & ~trace.copy):
        spent[trace.gpu_name[index]] += lengths[index]
        times[trace.gpu_name[index]] += 1
    return tuple((name, MS_PER_US * total / steps, times[name]) for name, total in spent.most_common(most))
