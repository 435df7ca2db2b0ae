"""Tables of the comparison as text: Markdown for people, CSV for everything else. Pure."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from benchmarks.verdicts.noise import NOISES
from benchmarks.verdicts.score import POWER_NOISES, pairings
from benchmarks.verdicts.summary import usual

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.verdicts.score import Cell, Needed
    from benchmarks.verdicts.summary import Row

ABSENT = "no runs"
HEAD = (
    "rule",
    "order",
    "false, independent",
    "false, worst noise",
    "false, real",
    "missed, independent",
    "missed, all noises",
    "missed, real",
    "covered, least",
    "rounds, independent",
    "rounds, drift 3 %",
)


def main_table(rows: Sequence[Row], most_rounds: int) -> str:
    """One row a rule and order; shares in percent, rounds 2 / 3 / 4 / 8 (real: 2 / 3 / 4)."""
    body = [_cells_of(row, most_rounds) for row in rows]
    return _markdown(HEAD, body)


def _cells_of(row: Row, most_rounds: int) -> list[str]:
    order = f"{row.order} (own)" if row.own else row.order
    if row.refused:
        return [row.rule.name, order, "refused: no verdict", *["-"] * (len(HEAD) - 3)]
    needed = dict(zip(POWER_NOISES, row.needed, strict=True))
    return [
        row.rule.name,
        order,
        _percents(row.false_quiet),
        _percents(row.false_worst),
        _percents(row.false_real[:3]),
        _percents(row.missed_quiet),
        _percents(row.missed_mean),
        _percents(row.missed_real[:3]),
        "-" if row.covered is None else f"{100.0 * row.covered:.0f}",
        _needed(needed["independent"], most_rounds),
        _needed(needed["drift 3 %"], most_rounds),
    ]


def noise_table(cells: Sequence[Cell], value: Callable[[Cell], float]) -> str:
    """One share in percent, a column a noise, at the usual spread and rounds."""
    body = [
        [rule.name, order, *(f"{100.0 * value(cell):.0f}" for cell in usual(cells, rule, order))]
        for rule, order in pairings()
    ]
    return _markdown(("rule", "order", *NOISES), [row for row in body if row[:2] != ["Interlace", "sequential"]])


def cells_csv(cells: Sequence[Cell]) -> str:
    """Write all cells; shares from 0 to 1, empty where there is none."""
    head = ["noise", "sigma", "rounds", "rule", "order", "sweeps", "false_calls", "missed", "wrong_way", "covered"]
    return _csv(head, [[_plain(getattr(cell, name)) for name in head] for cell in cells])


def needed_csv(needed: Sequence[Needed]) -> str:
    """Write the rounds needed; empty where that is not within the most tried."""
    head = ["noise", "sigma", "rule", "order", "rounds"]
    return _csv(head, [[_plain(getattr(one, name)) for name in head] for one in needed])


def _needed(fewest: Sequence[int | None], most: int) -> str:
    return " / ".join(f">{most}" if rounds is None else str(rounds) for rounds in fewest)


def _percents(shares: Sequence[float]) -> str:
    return " / ".join(f"{100.0 * share:.0f}" for share in shares) or ABSENT


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _csv(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *body])
    return text.getvalue()


def _plain(value: float | str | None) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
