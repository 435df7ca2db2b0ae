"""Reader `fairseq`: `train_inner | epoch 001: 100 / 4870 loss=..., wps=..., ups=..., wpb=...`, as text or JSON.

Clock: time.perf_counter of rank 0 from one record to the next. A step's time is wpb / wps (words of a batch, words a
second), which is the same mean as 1 / ups and finer; 1 / ups where words are not printed.
Includes: data loading, forward, backward, optimizer; validation and checkpoints where they fall between two records.
A step is one update, with all of update_freq.
Ranks: rank 0 alone prints; words are those of all ranks.
Resolution: a tenth of a word a second, of a mean over log_interval updates; by ups two decimals.
Lost: single updates. The first record's words are of one update more than its clock.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.lines import NUM, LineFormat, LineReader
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row


def _field(key: str, group: str) -> str:
    return rf'(?<!\w)"?{key}"?(?:=|: )"?(?P<{group}>{NUM})"?[,}}\s]'


class FairseqReader(LineReader):
    """Turns words a second into seconds an update."""

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return wpb / wps, else 1 / ups; NaN where the first record has no rate yet."""
        del header
        rates = {name: parse_number(fields[name]).value or math.nan for name in ("wps", "ups", "wpb") if name in fields}
        return (rates["wpb"] / rates["wps"] if rates.keys() >= {"wpb", "wps"} else 1 / rates["ups"]), math.nan

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say how times were worked out."""
        del header
        if rows:
            coarse = sum("wpb" not in (row.extra or {}) for row in rows)
            remarks.note("derived", "times are 1 / ups, of two decimals" if coarse else "times are wpb / wps")


READER = FairseqReader(
    LineFormat(
        name="fairseq",
        doc=__doc__,
        hint="train_inner",
        begins=re.compile(r"train_inner \| (?=epoch \d|\{)"),
        record=re.compile(
            # Each looked for from the record's start: a chain of optional fields takes for ever on a long line.
            r"train_inner \| (?:epoch (?P<epoch>\d+):\s+\d+ / \d+ |\{\"epoch\": (?P<json_epoch>\d+), )"
            rf"(?=(?:.*?{_field('wps', 'wps')})?)(?=.*?{_field('ups', 'ups')})(?=(?:.*?{_field('wpb', 'wpb')})?)"
            rf".*?{_field('num_updates', 'step')}",
            re.IGNORECASE,
        ),
        pairs=re.compile(rf'(?<!\w)"?(?P<key>loss|gnorm|lr)"?(?:=|: )"?(?P<number>{NUM})"?(?=[,}}])', re.IGNORECASE),
        kind="mean",
        header={"world_size": re.compile(r"training on (\d+) devices")},
        rest=re.compile(r"\bups[\"=:]"),
    )
)
