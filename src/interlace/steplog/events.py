"""What else a log tells between its steps: a compilation, an evaluation, a checkpoint. Pure.

Each kind becomes a column of the step series: how often it was seen while that step was on. A trainer that uses the
recorder has `event.compiled` from torch's own counter; other logs have it from the lines that libraries print.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from interlace.steplog.model import Row
    from interlace.steplog.text import Record

EVENTS = {
    "event.compiled": "code was compiled or tuned",
    "event.evaluated": "an evaluation ran",
    "event.saved": "a checkpoint was saved",
}
"""Column -> what it means, in words."""

REMEDY = {
    "event.compiled": "leave out more steps (a later window), or see why it recompiles (TORCH_LOGS=recompiles)",
    "event.evaluated": "its time may count as a step's; evaluate outside the window",
    "event.saved": "its time may count as a step's; save outside the window",
}
SHOWN = 5

_LINES = {
    "event.compiled": re.compile(
        r"\[__recompiles(?:_verbose)?\]|Recompiling function \w+|hit config\.(?:recompile_limit|cache_size_limit)"
        r"|\bAUTOTUNE \w+\(|Triton autotuning for function"
    ),
    "event.evaluated": re.compile(
        r"\*{3,} *Running (?:Evaluation|Prediction)|Eval policy at step|Validation DataLoader|validation loss at iter"
        r"|\bval(?:idation)?[ _]loss\b|\bvalidate step:"
    ),
    "event.saved": re.compile(r"Checkpoint policy after step|[Ss]aving (?:the |model )?[Cc]heckpoint\b"),
}
_HINTS = ("ecompil", "_limit", "UTOTUNE", "utotuning", "Running", "Eval", "alidat", "val", "heckpoint")
"""One of these stands in every line above: a search for words costs a hundredth of one for expressions."""


class Watched:
    """Records handed on as they are, while the lines among them that tell of an event are remembered."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self._seen: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            if any(hint in record.text for hint in _HINTS):
                self._seen += [(record.line, kind) for kind, line in _LINES.items() if line.search(record.text)]
            yield record

    def marked(self, rows: list[Row]) -> list[Row]:
        """Add the events to the rows of the steps during which they were printed.

        A step is recorded at its end, so an event belongs to the next row. A row that itself speaks of a
        validation loss is a step like any other; what is printed after the last row belongs to none.
        """
        if not self._seen or not rows:
            return rows
        ordered = sorted(rows, key=lambda row: row.line)
        lines = [row.line for row in ordered]
        for line, kind in self._seen:
            place = bisect_left(lines, line)
            if place == len(lines) or lines[place] == line:
                continue
            row = ordered[place]
            extra = dict(row.extra or {})
            ordered[place] = row._replace(extra={**extra, kind: extra.get(kind, 0.0) + 1.0})
        return ordered


def event_notes(steps: pd.DataFrame, window: tuple[int, int]) -> list[str]:
    """Say at which steps of the window of one run something else was going on (columns as in `EVENTS`)."""
    inside = steps[steps["step"].between(window[0], window[1])]
    notes = []
    for kind, meaning in EVENTS.items():
        if kind in inside and (inside[kind] > 0).any():
            where = [str(step) for step in sorted(set(inside.loc[inside[kind] > 0, "step"]))]
            notes.append(f"{meaning} inside the window (step {first_of(where, SHOWN)}): {REMEDY[kind]}")
    return notes
