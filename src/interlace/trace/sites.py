"""Where the host waits for the device: which calls block it, and the operators around each. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from interlace.trace.columns import Calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from interlace.trace.columns import Trace

    Ints = NDArray[np.int64]

BLOCKING_COPY = "DtoH (Device -> Pageable)"

FARTHEST = 200
"""So many operators back the one that holds a call is looked for; operators nest a few deep."""
SHOWN = 3


def blocking_calls(trace: Trace, launch: Ints) -> Calls:
    """Return the calls that held up a thread that works: it launches, or makes the steps.

    They are synchronisations, and copies to pageable memory, which return when they are done; such a copy is not
    counted where a synchronisation follows it before the next launch (PyTorch's own pairs would count twice).
    """
    working = np.unique(np.concatenate((trace.launches.thread, trace.step_thread)))
    copies = np.zeros(len(trace.launches.begin), dtype=np.bool_)
    copies[[call for call in _pageable(trace, launch) if not _followed(trace, call)]] = True
    one, two = trace.syncs.chosen(np.isin(trace.syncs.thread, working)), trace.launches.chosen(copies)
    order = np.argsort(np.concatenate((one.begin, two.begin)), kind="stable")
    return Calls(
        np.concatenate((one.begin, two.begin))[order],
        np.concatenate((one.end, two.end))[order],
        np.concatenate((one.thread, two.thread))[order],
        np.concatenate((one.correlation, two.correlation))[order],
        tuple((*one.name, *two.name)[index] for index in order),
    )


def _pageable(trace: Trace, launch: Ints) -> list[int]:
    copies = np.flatnonzero(trace.copy & (launch >= 0))
    return sorted({int(launch[index]) for index in copies.tolist() if BLOCKING_COPY in trace.gpu_name[index]})


def _followed(trace: Trace, call: int) -> bool:
    """Tell whether the same thread synchronises between this launch call and its next one."""
    thread, begin = trace.launches.thread[call], trace.launches.begin[call]
    later = trace.launches.begin[(trace.launches.thread == thread) & (trace.launches.begin > begin)]
    syncs = trace.syncs.begin[(trace.syncs.thread == thread) & (trace.syncs.begin > begin)]
    return len(syncs) > 0 and (len(later) == 0 or bool(syncs[0] < later[0]))


def sync_sites(trace: Trace, calls: Calls) -> Iterator[str]:
    """Name each call and the operators that hold it, outermost first, as in `aten::item > cudaStreamSynchronize`."""
    operators = trace.operators
    for begin, thread, name in zip(calls.begin, calls.thread, calls.name, strict=True):
        last = int(np.searchsorted(operators.begin, begin, side="right"))
        first = max(last - FARTHEST, 0)
        near = slice(first, last)
        around = np.flatnonzero((operators.end[near] > begin) & (operators.thread[near] == thread)) + first
        yield " > ".join([*(operators.name[index] for index in around[-SHOWN:]), name])
