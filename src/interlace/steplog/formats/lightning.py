"""Reader `lightning`: the progress bar of Lightning's Trainer, drawn by tqdm or by rich.

(A Lightning metrics.csv is read by `csv`, where it has a step time or ThroughputMonitor's cumulative `time`.)

Clock: time.time() of rank 0. The rate is the mean since the epoch's start (Lightning turns tqdm's smoothing off),
so values are marked as smoothed; it is a mean of more and more steps, and a change shows less and less.
Includes: data loading, the step, callbacks and loggers; validation within an epoch too.
Ranks: rank 0 alone.
Resolution: two decimals of it/s, also for slow steps (5 % at 0.1 it/s); whole seconds for the elapsed time, kept as
a column.
Lost: single steps; the first steps of an epoch weigh on all values after them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.bars import Bar, bars_in, rows_of
from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)

_EPOCH = re.compile(r"Epoch (\d+)\Z")
_MARK = re.compile(r"Epoch \d+:.*\bv_num[=:]|Epoch \d+/\d+ .*•.*\bv_num[=:]")


class LightningReader:
    """The reader of the training bar; those of sanity checks and validation are others."""

    name = "lightning"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise `Epoch 0: ... v_num=`, with a rate."""
        for line in head.split("\n") if "v_num" in head else ():
            if _MARK.search(line) and any(bar.s_per_it is not None for bar in _training(line)):
                return f"Lightning's bar, like `{shorten(line, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all training bars; a step is counted from the epoch in front of the bar."""
        del options
        remarks = Remarks()
        bars = [bar for record in records for bar in _training(record.text, record.line)]
        return Parsed(rows_of(bars, remarks), remarks, kind="smoothed")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the steps of the bars."""
        del options
        return lambda text: [(bar.rank, bar.n) for bar in _training(text)]


def _training(text: str, line: int = 0) -> Iterator[Bar]:
    """Yield the training bars with their count over all epochs, of which the first is 0.

    Lightning sets a bar to 0 before it gives it the next epoch's name: such drawings are passed over.
    """
    for bar in bars_in(text, line):
        if bar.n and (match := _EPOCH.match(bar.desc)):
            yield bar._replace(n=int(match[1]) * (bar.total or 0) + bar.n)


READER = LightningReader()
