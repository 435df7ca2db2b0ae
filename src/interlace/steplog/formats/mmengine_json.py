"""Reader `mmengine_json`: vis_data/scalars.json of mmengine's local backend, one JSON object a line.

Clock: as `mmengine`: time.time() of rank 0 between the hooks of two iterations.
Includes: data loading (`data_time`), forward, backward, optimizer and the hooks.
Ranks: rank 0 alone.
Resolution: that of a float, of a mean over the last 10 iterations.
Lost: single iterations. Rows of validation carry `time` and `step` (the epoch!) too; they are told by what they
lack, the learning rate and the iteration, and are left out.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.mmengine import WINDOW
from interlace.steplog.jsonl import NotJsonError, note_tail, values_of
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)


class MmengineJsonReader:
    """The reader; the file begins with an object."""

    name = "mmengine_json"
    anywhere = False
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a training row: learning rate, data_time, time, iter and step together."""
        for line in head.lstrip().split("\n")[:1]:
            fields = _object(line)
            if fields and _is_training(fields) and "step" in fields and "data_time" in fields:
                return f"mmengine's scalars, like `{shorten(line, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the training rows."""
        del options
        remarks = Remarks()
        rows: list[Row] = []
        broken: Record | None = None
        other = 0
        for record in records:
            if not record.text.strip():
                continue
            if broken:
                remarks.error("corrupt_line", broken.line, broken.text)
            fields = _object(record.text)
            broken = record if fields is None else None
            if fields is not None and _is_training(fields):
                rows.append(Row(int(fields["iter"]), float(fields["time"]), extra=_columns(fields), line=record.line))
            else:
                other += fields is not None
        if broken:
            note_tail(broken, remarks)
        if other:
            remarks.note("validation_rows", f"{other} rows of validation or without a time were left out")
        gaps = Counter(b.step - a.step for a, b in pairwise(rows) if a.step is not None and b.step is not None)
        usual = gaps.most_common(1)[0][0] if gaps else WINDOW
        return Parsed(rows, remarks, kind="smoothed" if 0 < usual < WINDOW else "mean")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the iteration of a training row."""
        del options

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            fields = _object(text)
            return [(-1, int(fields["iter"]))] if fields and _is_training(fields) else []

        return steps_in


def _object(text: str) -> dict[str, Any] | None:
    try:
        values = values_of(text)
    except NotJsonError:
        return None
    return values[0] if len(values) == 1 and isinstance(values[0], dict) else None


def _is_training(fields: dict[str, Any]) -> bool:
    numbers = all(isinstance(fields.get(key), int | float) for key in ("iter", "time"))
    return numbers and ("lr" in fields or "base_lr" in fields)


def _columns(fields: dict[str, Any]) -> dict[str, float]:
    taken = {"iter", "time", "step"}
    return {k: float(v) for k, v in fields.items() if k not in taken and isinstance(v, int | float)}


READER = MmengineJsonReader()
