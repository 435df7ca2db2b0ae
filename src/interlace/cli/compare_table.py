"""The table and the notes that `interlace compare` prints for people."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.cli.compare import Outcome
    from interlace.compare.comparison import Comparison
    from interlace.schema import StepSummary

SHOWN_RESOLUTION = 1e-5
WIDTH = 120
"""Columns where the output is no terminal: the table must not fold in a file."""


def show(outcome: Outcome) -> None:
    """Print the table, one sentence a candidate, and the notes."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(_table(outcome))
    for candidate in outcome.compared.candidates:
        _line(console, f"{candidate.arm}: {candidate.sentence}")
        for note in candidate.notes:
            _line(console, f"  {note}")
    _line(console, "")
    for line in _facts(outcome):
        _line(console, line)
    for note in outcome.notes:
        _line(console, f"note: {note}")


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


def _table(outcome: Outcome) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("arm", overflow="fold")
    for name in ("runs", "median step", "p90", "slowest", "step 1", "ratio", "speed-up"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    compared = outcome.compared.by_arm()
    for arm in outcome.arms:
        summaries = [
            stats.summary for run, stats in zip(outcome.ordered.runs, outcome.measured, strict=True) if run.arm == arm
        ]
        table.add_row(Text(arm), str(len(summaries)), *_times(summaries), *_judged(compared.get(arm)))
    return table


def _times(summaries: list[StepSummary]) -> list[str]:
    first = [one.step1_s for one in summaries if one.step1_s is not None]
    return [
        _with_range(summaries, lambda one: one.median_s),
        milliseconds(statistics.median(one.p90_s for one in summaries)),
        milliseconds(max(one.max_s for one in summaries)),
        milliseconds(statistics.median(first)) if first else "-",
    ]


def _with_range(summaries: list[StepSummary], value: Callable[[StepSummary], float]) -> str:
    """Median over runs and, with more than one, the range over them: `28.0 ms (27.0 / 29.0)`."""
    values = [value(one) for one in summaries]
    text = milliseconds(statistics.median(values))
    if len(values) == 1:
        return text
    places = _places(statistics.median(values))
    return f"{text} ({1000.0 * min(values):.{places}f} / {1000.0 * max(values):.{places}f})"


def milliseconds(seconds: float) -> str:
    """Write a time with two decimals under 10 ms, one under 1 s, none above."""
    return f"{1000.0 * seconds:.{_places(seconds)}f} ms"


def _places(seconds: float) -> int:
    return 2 if seconds < 0.01 else 1 if seconds < 1.0 else 0  # noqa: PLR2004 (10 ms, as said above)


def _judged(candidate: Comparison | None) -> list[str]:
    if candidate is None:
        return ["1", "1.00x", "baseline"]
    if candidate.ratio is None or candidate.speedup is None:
        return ["-", "-", candidate.verdict]
    return [f"{candidate.ratio:.4f}", f"{candidate.speedup:.3g}x", candidate.verdict]


def _facts(outcome: Outcome) -> list[str]:
    readers = sorted({run.log.reader for run in outcome.ordered.runs})
    lines = [
        f"order: {outcome.ordered.source} ({outcome.ordered.order.kind})",
        f"window: {outcome.window_why}",
        f"reader: {', '.join(readers)}",
    ]
    floors = {(one.noise_floor, one.noise_floor_source) for one in outcome.compared.candidates}
    for floor, source in sorted((floor, source) for floor, source in floors if floor is not None and source):
        lines.append(f"noise floor: +-{100.0 * floor:.2g} % ({source})")
    bounds = [one.resolution for one in outcome.compared.candidates if one.resolution is not None]
    if bounds and max(bounds) > SHOWN_RESOLUTION:
        lines.append(f"resolution of the logs: {100.0 * max(bounds):.2g} %")
    for one in outcome.compared.candidates:
        if one.round_ratios:
            ratios = " ".join(f"{ratio:.4f}" for ratio in one.round_ratios)
            lines.append(f"{one.arm} / {one.baseline} by round: {ratios}")
    return lines
