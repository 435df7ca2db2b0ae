"""Reader `tqdm`: a bare progress bar (`12%|#2 | 12/100 [00:30<03:40,  2.50s/it]`), where a log has nothing better.

Clock: time.time() of the process that draws. The rate is a running average (exponential, smoothing 0.3, unless
the script says otherwise), so its values are marked as smoothed. The elapsed time is a real clock; it is kept as
a column, and a note says what it gives over the whole bar.
Includes: everything between two updates of the bar, evaluation and checkpoints too.
Ranks: whoever draws, mostly rank 0.
Resolution: 10 ms for s/it, two decimals for it/s, whole seconds for the elapsed time; drawn ten times a second.
Lost: single steps, and whatever happens between two drawings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.steplog.bars import LiveCount, bars_in, is_training, main_loop, rows_of
from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)


class TqdmReader:
    """The reader; asked after all others, because a printed step time is better than a bar's."""

    name = "tqdm"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a bar with a rate that is not known to be of other work."""
        for line in head.split("\n"):
            for bar in bars_in(line):
                if bar.s_per_it is not None and is_training(bar):
                    return f"a progress bar, like `{shorten(line[-120:], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the bar of the training loop."""
        del options
        remarks = Remarks()
        bars = [bar for record in records for bar in bars_in(record.text, record.line)]
        return Parsed(rows_of(main_loop(bars, remarks), remarks), remarks, kind="smoothed")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the counts of a bar that is named after training."""
        del options
        return LiveCount()


READER = TqdmReader()
