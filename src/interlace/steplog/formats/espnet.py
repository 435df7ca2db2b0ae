"""Reader `espnet`: ESPnet2's `1epoch:train:1-90batch: iter_time=0.003, forward_time=0.095, ..., train_time=0.734`.

Clock: time.perf_counter of the printing process from the end of one update to the end of the next; train_time is the
mean over the updates of the interval (iter_time is the waiting for data, and no step's time).
Includes: data loading, forward, backward, optimizer of one update: with accum_grad above 1, of that many batches.
Ranks: rank 0 alone.
Resolution: 1 ms (four digits below 1 ms), of a mean over the interval.
Lost: single updates. Steps are numbered by batches, as in the log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.formats.line_end import LineEndReader
from interlace.steplog.formats.per_epoch import counted_on
from interlace.steplog.lines import NUM, LineFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row

_VALUE = r"\d+\.\d{3}(?:e[+-]\d\d)?"  # always three decimals, so a cut number is seen


class EspnetReader(LineEndReader):
    """Counts batches on from epoch to epoch."""

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Put the global numbers in place of those of the epoch."""
        del header
        rows[:] = counted_on(rows, remarks)


READER = EspnetReader(
    LineFormat(
        name="espnet",
        doc=__doc__,
        hint="epoch:train:",
        begins=re.compile(r"(?<!\d)\d+epoch:train:\d+-"),
        record=re.compile(
            r"(?P<epoch>\d+)epoch:train:\d+-(?P<step>\d+)batch: .*?(?<!\w)"
            rf"train_time=(?P<step_s>{_VALUE})(?![\d.e\u2026])"
        ),
        pairs=re.compile(
            rf"(?<!\w)(?P<key>loss|acc|iter_time|forward_time|backward_time)=(?P<number>{NUM})(?=,|\s|\Z)"
        ),
        kind="mean",
    )
)
