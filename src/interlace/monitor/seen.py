"""What the samples of a run come to, GPU by GPU. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from interlace.monitor.cells import brakes, throttle_names
from interlace.schema import GpuSeen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.monitor.readings import Gpu

    Columns = Mapping[str, Sequence[float] | Sequence[str | None]]

AT_WORK_PCT = 10.0
"""From this utilisation on a GPU counts as at work: many small kernels leave it at 20 or 30 %, an idle one shows 0."""


def gpus_seen(gpus: Sequence[Gpu], idle_mib: Mapping[str, float | None], columns: Columns) -> tuple[GpuSeen, ...]:
    """Sum up the samples of every GPU; the idle baseline stands beside the peak and is not taken off."""
    rows: dict[str, list[int]] = {}
    for row, uuid in enumerate(columns["uuid"]):
        if isinstance(uuid, str):
            rows.setdefault(uuid, []).append(row)
    return tuple(_seen(gpu, rows.get(gpu.uuid, []), idle_mib.get(gpu.uuid), columns) for gpu in gpus)


def _seen(gpu: Gpu, rows: Sequence[int], idle_mib: float | None, columns: Columns) -> GpuSeen:
    peak_mib = max(_known(columns, "memory_used_mib", rows), default=None)
    reason = None
    if peak_mib is None:
        reason = gpu.reasons.get("gpu") or "memory was never readable during the run"
    loads = _known(columns, "utilization_pct", rows)
    if loads:
        work = [row for row in rows if float(columns["utilization_pct"][row] or 0.0) >= AT_WORK_PCT]
    else:  # a GPU with MIG on does not tell its load
        work = [row for row in rows if "gpu_idle" not in _reasons(columns["throttle"][row])]
    return GpuSeen(
        uuid=gpu.uuid,
        index=-1 if gpu.index is None else gpu.index,
        peak_mib=peak_mib,
        baseline_mib=idle_mib,
        reason=reason,
        sm_clock_mhz=_median(_known(columns, "sm_clock_mhz", work)),
        temperature_c=max(_known(columns, "temperature_c", rows), default=None),
        power_w=_median(_known(columns, "power_w", work)),
        busy_pct=100.0 * len(work) / len(loads) if loads else None,
        held_pct=_held(_known(columns, "throttle", work)),
    )


def _known(columns: Columns, name: str, rows: Sequence[int]) -> list[float]:
    """Return the values of a column that are there; a missing one is NaN."""
    column = columns[name]
    return [value for row in rows if isinstance(value := column[row], float) and not math.isnan(value)]


def _reasons(mask: object) -> tuple[str, ...]:
    return throttle_names(int(mask)) or () if isinstance(mask, float) and not math.isnan(mask) else ()


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _held(masks: Sequence[float]) -> dict[str, float]:
    """Return the share of samples (%) in which each reason held the clock down; chosen clocks do not count."""
    counts = Counter(name for mask in masks for name in brakes(int(mask)))
    return {name: round(100.0 * count / len(masks), 1) for name, count in sorted(counts.items())}
