"""Reader `dllogger`: the JSON stream of NVIDIA's DLLogger (DeepLearningExamples, NeMo), `DLLL {"timestamp": ...}`.

Clock: a step's time that the trainer logs (`train_step_timing in s`, `step_time_ms` ...); without one, the differences
of `elapsedtime`, the wall clock of the process that logs, divided by the steps between two records.
Includes: by the clock, everything between two records: data loading, evaluation, checkpoints, logging.
Ranks: the logging process alone, mostly rank 0.
Resolution: of the clock 1 us.
Lost: by the clock the first record of the run, and of each epoch where steps are written as [epoch, step].
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.json_lines import JsonLinesReader, columns, count
from interlace.steplog.formats.per_epoch import EPOCH, counted_on
from interlace.steplog.keys import NOT_TRAINING, time_key
from interlace.steplog.model import PER_SECOND, Kind, Remarks, Row, Unit
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FACTS = facts_in(__doc__)
_LINE = re.compile(r"DLLL (?P<json>\{.*)")
_NEMO = "train_step_timing in s"
_PLACE = 2


class DlloggerReader(JsonLinesReader):
    """Takes the training records: the times in them, else the clock they all have."""

    name = "dllogger"
    anywhere = True
    facts = FACTS
    hint = "DLLL {"
    mark = "DLLogger's records"

    def json_of(self, text: str) -> str | None:
        """Return what stands behind `DLLL`."""
        match = _LINE.search(text)
        return match["json"] if match else None

    def row(self, fields: Mapping[str, Any], line: int, remarks: Remarks) -> Row | None:
        """Return a row of a training record: with its time, and with its clock."""
        del remarks
        data, place = fields.get("data"), _place(fields.get("step"))
        if fields.get("type") != "LOG" or place is None or not isinstance(data, dict) or _validates(data):
            return None
        clock = parse_number(str(fields.get("elapsedtime"))).value
        key, unit = _time_in(data)
        step_s = (columns(data, ()).get(key, math.nan) / PER_SECOND[unit]) if key else math.nan
        if clock is None and math.isnan(step_s):
            return None
        epoch = {} if place[0] is None else {EPOCH: float(place[0])}
        end_s = math.nan if clock is None else clock
        return Row(place[1], step_s, end_s=end_s, extra=epoch | columns(data, (key, EPOCH)), line=line)

    def settled(self, rows: list[Row], remarks: Remarks) -> tuple[list[Row], Kind]:
        """Return the records with a time where there are any; else those with the time that the clock gives."""
        if timed := [row._replace(end_s=math.nan) for row in rows if math.isfinite(row.step_s)]:
            if len(timed) < len(rows):
                remarks.note(
                    "rows_without_time", f"{len(rows) - len(timed)} records state no step time and were ignored"
                )
            return counted_on(timed, remarks), "not said"
        if not any(EPOCH in (row.extra or {}) for row in rows):
            return rows, "single"
        counted = counted_on(rows, remarks)
        remarks.note("from_clock", "step times are differences of elapsedtime; the first record of an epoch has none")
        return _within_epochs(counted)


def _place(step: object) -> tuple[int | None, int] | None:
    """Return (epoch, step) of a step record: `5`, `[epoch, step]`; None for records of an epoch or of the run."""
    if isinstance(step, list) and len(step) >= _PLACE:
        epoch, number = count(step[0]), count(step[1])
        return None if epoch is None or number is None else (epoch, number)
    number = count(step)
    return None if number is None else (None, number)


def _validates(data: Mapping[str, Any]) -> bool:
    """Whether a record has nothing but values of validation."""
    words = [re.split(r"[./_ ]", key)[0].lower() for key in data]
    return all(word in NOT_TRAINING for word in words)


def _time_in(data: Mapping[str, Any]) -> tuple[str, Unit]:
    """Return the key that states a step's time with its unit, and the unit; no key where there is none."""
    if _NEMO in data:
        return _NEMO, "s"
    found = ((key, known.unit) for key in data if (known := time_key(key)))
    return next(((key, unit) for key, unit in found if unit), ("", "s"))


def _within_epochs(rows: Sequence[Row]) -> tuple[list[Row], Kind]:
    """Return the rows whose step is so many after that of the row before, in the same epoch."""
    timed = []
    longest = 1
    for before, row in pairwise(rows):
        same = (before.extra or {}).get(EPOCH) == (row.extra or {}).get(EPOCH)
        steps = (row.step or 0) - (before.step or 0)
        if same and steps > 0:
            longest = max(longest, steps)
            timed.append(row._replace(step_s=round((row.end_s - before.end_s) / steps, 9), end_s=math.nan))
    return timed, "single" if longest == 1 else "mean"


READER = DlloggerReader()
