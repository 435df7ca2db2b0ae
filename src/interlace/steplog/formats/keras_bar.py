"""Reader `keras`: Keras's progress bar (`100/1875 ━━━━━━━━ 3s 2ms/step - accuracy: ...`), and its lines with verbose=2.

Clock: time.time() of the process that prints. The time is a mean since the second step of the epoch, marked as
smoothed.
Includes: everything between two batches: data loading, the step, callbacks. With validation the closing line of an
epoch divides the time of the validation by its steps, too: it is left out.
Ranks: the process that prints.
Resolution: whole milliseconds (microseconds below one, whole seconds from one second on).
Lost: single steps. Steps that are run in one go (steps_per_execution) are drawn together.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
_EPOCH = re.compile(r"(?:\A|[\s\x08])Epoch (\d+)/\d+\s*\Z")
_BAR = re.compile(
    r"(?<![\d/.])(?P<n>\d+)/(?P<of>\d+) (?:(?:\u2501+|\[[=>.]+\]) (?:- )?|- )\d[\d:]*s? (?P<before>[^\r]{0,400}?)"
    r"(?<![\w.])(?P<time>\d+)(?P<unit>us|ms|s)/step(?P<rest>[^\r]*)"
)


class Drawing(NamedTuple):
    """One drawing of a bar. `validated`: the time in it holds the validation's."""

    n: int
    of: int
    step_s: float
    validated: bool
    line: int


class KerasReader:
    """The reader; asked among the bars, because a printed step time is better."""

    name = "keras"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a drawing with a time a step."""
        for line in head.split("\n") if "s/step" in head else ():
            if _drawing(line):
                return f"Keras's bar, like `{shorten(line, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the bars of the training."""
        del options
        loops = _Loops()
        remarks = Remarks()
        rows = [row for record in records for row in loops.rows_in(record)]
        if rows and not loops.named:
            text = "the bar is taken for the training's; no `Epoch 1/N` above it says so"
            remarks.note("unnamed_bar", text)
        if loops.others:
            remarks.note("other_bars", f"{loops.others} drawings of other bars (evaluation, prediction) were left out")
        if loops.validated:
            text = f"{loops.validated} closing lines of epochs were left out: their time holds the validation's"
            remarks.note("validation_in_time", text)
        return Parsed(rows, remarks, kind="smoothed")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the steps of a bar that stands below an `Epoch 1/N`."""
        del options
        loops = _Loops()

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            return [(row.rank, row.step) for row in loops.rows_in(_Text(text, 0)) if loops.named]

        return steps_in


class _Text(NamedTuple):
    text: str
    line: int


class _Loops:
    """Tells the bar of the training from others: it stands below `Epoch 1/N` and is drawn up to its end once."""

    def __init__(self) -> None:
        self.named = False
        self.others = self.validated = 0
        self._epoch = 1
        self._before: Drawing | None = None
        self._over = False

    def rows_in(self, record: Record | _Text) -> Iterator[Row]:
        """Yield the new drawings of the training in one line."""
        if match := _EPOCH.search(record.text):
            self._epoch, self._before, self._over, self.named = int(match[1]), None, False, True
        if drawn := _drawing(record.text, record.line):
            yield from self._row(drawn)

    def _row(self, drawn: Drawing) -> Iterator[Row]:
        before, self._before = self._before, drawn
        self._over = self._over or (before is not None and (drawn.of != before.of or drawn.n < before.n))
        if self._over:
            self.others += 1
        elif drawn.validated:
            self.validated += 1
        elif (before is None or drawn.n > before.n) and drawn.step_s > 0:
            step = (self._epoch - 1) * drawn.of + drawn.n
            yield Row(step, drawn.step_s, extra={"epoch": float(self._epoch)}, line=drawn.line)


def _drawing(text: str, line: int = 0) -> Drawing | None:
    match = _BAR.search(text)
    if not match or int(match["n"]) > int(match["of"]) or not int(match["n"]):
        return None
    step_s = parse_duration(f"{match['time']} {match['unit']}").value
    validated = "val_" in match["before"] + match["rest"]
    return Drawing(int(match["n"]), int(match["of"]), math.nan if step_s is None else step_s, validated, line)


READER = KerasReader()
