"""Why the GPU idles: every gap of a window is divided by what it waited for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from interlace.trace import spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from interlace.trace.columns import Trace

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

IDLE = ("idle_data", "idle_sync", "idle_launch", "idle_device")
SLACK_US = 1.0


def idle_parts(
    trace: Trace, window: tuple[float, float], busy: Floats, launch: Ints, blocking_end: Floats
) -> dict[str, float]:
    """Divide the idle time (us) of one window; `blocking_end` are the sorted ends of calls that held up the host.

    A gap ends with a GPU event. Until its launch call returned, the host was late: it waited for a data loader, or it
    came out of a synchronisation inside the gap with nothing queued, or it was busy launching. After that the event
    was queued and waited for the device (another stream, a graph's own latency).
    """
    gaps = spans.subtract(np.array([window]), busy)
    following = np.searchsorted(trace.gpu[:, 0], gaps[:, 1], side="left")
    waiting = spans.union(trace.data)
    found = dict.fromkeys(IDLE, 0.0)
    for (begin, end), event in zip(gaps.tolist(), following.tolist(), strict=True):
        call = int(launch[event]) if event < len(launch) and trace.gpu[event, 0] < window[1] else -1
        launched, ready = end, end
        if call >= 0:
            launched, ready = float(trace.launches.begin[call]), min(max(float(trace.launches.end[call]), begin), end)
        found["idle_device"] += end - ready
        late = ready - begin
        if len(waiting):
            late = spans.total(spans.subtract(np.array([[begin, ready]]), waiting))
        found["idle_data"] += ready - begin - late
        after = int(np.searchsorted(blocking_end, begin - SLACK_US, side="left"))
        synced = after < len(blocking_end) and blocking_end[after] <= launched
        found["idle_sync" if synced else "idle_launch"] += late
    return found
