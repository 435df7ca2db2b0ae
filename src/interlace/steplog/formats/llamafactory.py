"""Reader `llamafactory`: trainer_log.jsonl of LLaMA-Factory (`current_steps`, `elapsed_time` as `0:01:23`).

Clock: time.time() of the main process since the training began, cut to whole seconds: too coarse for single records,
so a value is the mean over at least 60 s of them (over all there is where a run was shorter).
Includes: everything: data loading, evaluation, checkpoints. The time up to the first record is not used.
Ranks: the main process alone.
Resolution: 1 s, of at least 60 s.
Lost: single steps. The Trainer's console log beside it (`hf_trainer`) has a finer bar.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.json_lines import JsonLinesReader, columns, count
from interlace.steplog.model import Kind, Remarks, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FACTS = facts_in(__doc__)
STRETCH_S = 60.0
_ELAPSED = re.compile(r"(?:(?P<days>\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)")
_TAKEN = ("current_steps", "total_steps", "percentage")


class LlamaFactoryReader(JsonLinesReader):
    """Takes the clock of the records, and makes means of long stretches of it."""

    name = "llamafactory"
    facts = FACTS
    hint = '"current_steps"'
    mark = "LLaMA-Factory's records with `current_steps` and `elapsed_time`"

    def row(self, fields: Mapping[str, Any], line: int, remarks: Remarks) -> Row | None:
        """Return a row with the clock of a record, of training or evaluation: the clock is the same."""
        step, elapsed = count(fields.get("current_steps")), fields.get("elapsed_time")
        if step is None or not isinstance(elapsed, str):
            return None
        if not (match := _ELAPSED.fullmatch(elapsed)):
            remarks.error("not_a_time", line, elapsed, "elapsed_time is no H:MM:SS")
            return None
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        end_s = ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds
        return Row(step, math.nan, end_s=end_s, extra=columns(fields, _TAKEN), line=line)

    def settled(self, rows: list[Row], remarks: Remarks) -> tuple[list[Row], Kind]:
        """Return one row for each stretch of an attempt that is long enough for a clock of whole seconds."""
        found = [mean for attempt in _attempts(rows) for mean in _means(attempt)]
        if found:
            shortest_s = min(seconds for _, seconds in found)
            text = f"elapsed_time has whole seconds: each value is a mean over {shortest_s:g} s or more, to within"
            remarks.note("coarse_clock", f"{text} {1 / shortest_s:.1%}")
        return [row for row, _ in found], "mean"


def _attempts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each start of the training: a resumed one begins its clock anew."""
    attempt: list[Row] = []
    for row in rows:
        if attempt and (row.end_s < attempt[-1].end_s or (row.step or 0) < (attempt[-1].step or 0)):
            yield attempt
            attempt = []
        attempt.append(row)
    if attempt:
        yield attempt


def _means(attempt: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    """Yield the mean over each stretch of 60 s or more, else the one over all, and how long it is."""
    first, start, made = attempt[0], attempt[0], 0
    for row in attempt:
        if row.end_s - start.end_s >= STRETCH_S and (mean := _mean(start, row)):
            yield mean
            start, made = row, made + 1
    if not made and (mean := _mean(first, attempt[-1])):
        yield mean


def _mean(start: Row, end: Row) -> tuple[Row, float] | None:
    steps, seconds = (end.step or 0) - (start.step or 0), end.end_s - start.end_s
    if steps <= 0 or seconds <= 0:
        return None
    return end._replace(step_s=round(seconds / steps, 9), end_s=math.nan), seconds


READER = LlamaFactoryReader()
