"""What every GPU did under every arm, as a table of strings, and as CSV rows. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from interlace.report.table import Table, gib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlace.schema import GpuSeen, RunRecord

HEADER = ("arm", "GPU", "memory peak (idle)", "SM clock", "power", "hottest", "at work", "clock held down by")


def gpu_rows(runs: Iterable[tuple[str, RunRecord]]) -> list[dict[str, Any]]:
    """Return one row an arm and GPU: peaks are the highest over the runs, all else medians; units in the names."""
    seen: dict[tuple[str, str | None, str], list[GpuSeen]] = {}
    for arm, record in runs:
        for gpu in record.gpus:
            seen.setdefault((arm, gpu.node, gpu.uuid), []).append(gpu)
    return [_row(arm, gpus) for (arm, *_), gpus in seen.items()]


def _row(arm: str, gpus: Sequence[GpuSeen]) -> dict[str, Any]:
    held = sorted({reason for gpu in gpus for reason in gpu.held_pct})
    return {
        "arm": arm,
        "node": gpus[0].node,
        "index": gpus[0].index,
        "uuid": gpus[0].uuid,
        "peak_mib": _over(gpus, "peak_mib", max),
        "idle_mib": _over(gpus, "baseline_mib", statistics.median),
        "sm_clock_mhz": _over(gpus, "sm_clock_mhz", statistics.median),
        "power_w": _over(gpus, "power_w", statistics.median),
        "temperature_c": _over(gpus, "temperature_c", max),
        "busy_pct": _over(gpus, "busy_pct", statistics.median),
        "held_pct": {reason: statistics.mean(gpu.held_pct.get(reason, 0.0) for gpu in gpus) for reason in held},
    }


def _over(gpus: Sequence[GpuSeen], name: str, reduce: Callable[[list[float]], float]) -> float | None:
    known = [value for gpu in gpus if (value := getattr(gpu, name)) is not None]
    return reduce(known) if known else None


def gpu_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Lay the rows out; what is not known is a dash, never a 0."""
    return Table(HEADER, tuple(_cells(row) for row in rows), frozenset({1, 2, 3, 4, 5, 6}))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    name = str(row["index"]) if row["index"] >= 0 else row["uuid"]
    idle = "" if row["idle_mib"] is None else f" ({gib(row['idle_mib'])})"
    return (
        row["arm"],
        f"{row['node']} {name}" if row["node"] else name,
        "-" if row["peak_mib"] is None else gib(row["peak_mib"]) + idle,
        _with_unit(row["sm_clock_mhz"], "MHz"),
        _with_unit(row["power_w"], "W"),
        _with_unit(row["temperature_c"], "C"),
        _with_unit(row["busy_pct"], "%"),
        ", ".join(f"{reason} {share:.0f} %" for reason, share in row["held_pct"].items()),
    )


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.0f} {unit}"
