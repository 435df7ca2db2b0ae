"""The only place that turns named fields (a JSON object, a CSV row) into a row of the step series. Pure.

Shared by the readers `jsonl` and `csv`, so that a key means the same in both.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from interlace.steplog.dates import unix_s_of
from interlace.steplog.keys import (
    CLOCK_KEYS,
    COUNTED_WITH_CLOCK,
    END_KEYS,
    FLAG_KEYS,
    NOT_TRAINING,
    RANK_KEYS,
    RUN_CLOCK_KEYS,
    SPLIT_KEYS,
    STEP_KEYS,
    TRAIN_FLAG_KEYS,
    TimeKey,
    is_count,
    is_training,
    normal,
    time_key,
)
from interlace.steplog.model import Options, Parsed, Remarks, Row
from interlace.steplog.numbers import parse_duration, parse_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FEWEST_ROWS = 3
_GROWING_ROWS = 8
_GROWN = 1.5


class Layout(NamedTuple):
    """Which key of a row means what."""

    step: str | None
    time: str | None
    unit: TimeKey | None
    rank: str | None
    end: str | None
    split: tuple[str, ...]
    clock: str | None

    @property
    def timed(self) -> bool:
        """Whether rows of this layout state a step time or a cumulative clock."""
        return self.time is not None or (self.end is not None and self.step is not None)


@lru_cache(maxsize=1024)
def layout_of(keys: tuple[str, ...]) -> Layout:
    """Say which of these keys are the step, its time, the rank ...; a key that names its unit goes first."""
    plain = [(normal(key), key) for key in reversed(keys)]
    parts = [(re.sub(r"^(train\w*)\.", r"\1/", name).split("/"), key) for name, key in plain]
    known = {name[-1]: key for name, key in parts if not NOT_TRAINING & set(name)}
    known |= dict(plain)
    times = [(key, found) for key in keys if (found := time_key(key))]
    times.sort(key=lambda pair: pair[1].unit is None)
    end = next((known[key] for key in END_KEYS if key in known), None)
    if not times and "time" in known and any(key in known for key in COUNTED_WITH_CLOCK):
        end = known["time"]
    elif not times and "time" in known and any(key in known for key in STEP_KEYS):
        # Without a counter of steps it may be an epoch's time.
        times = [(known["time"], TimeKey(None))]
    if not times and end is None:
        end = next((known[key] for key in RUN_CLOCK_KEYS if key in known), None)
    time, unit = times[0] if times else (None, None)
    clock = next((known[key] for key in CLOCK_KEYS if key in known and known[key] not in {time, end}), None)
    return Layout(
        step=next((known[key] for key in STEP_KEYS if key in known), None),
        time=time,
        unit=unit,
        rank=next((known[key] for key in RANK_KEYS if key in known), None),
        end=end,
        split=tuple(known[key] for key in (*SPLIT_KEYS, *FLAG_KEYS, *TRAIN_FLAG_KEYS) if key in known),
        clock=clock,
    )


class Rows:
    """Gathers rows from mappings, and says at the end what was left out."""

    def __init__(self, options: Options, remarks: Remarks) -> None:
        self.remarks = remarks
        self._options = options
        self._rows: list[Row] = []
        self._dates: list[float] = []
        self._bare: set[str] = set()
        self._counters: list[str | None] = []
        self._world_size: int | None = None
        self._without_time = self._validation = 0

    def add(self, fields: Mapping[str, Any], line: int, shown: str) -> None:
        """Take one row in; a row that is not understood becomes an error with its line."""
        layout = layout_of(tuple(fields))
        if "world_size" in fields and str(fields["world_size"]).isdigit():
            self._world_size = int(fields["world_size"])
        if any(_marks_validation(key, fields[key]) for key in layout.split):
            self._validation += 1
        elif not layout.timed or _empty(fields.get(layout.time or layout.end or "")):
            self._without_time += 1
        else:
            self._add_timed(fields, layout, line, shown)

    def _add_timed(self, fields: Mapping[str, Any], layout: Layout, line: int, shown: str) -> None:
        step, trouble = _whole(fields.get(layout.step)) if layout.step else (None, None)
        step_s, warning = self._duration(fields, layout)
        if trouble or warning:
            self.remarks.error(trouble or warning or "", line, shown)
            return
        rank = _whole(fields.get(layout.rank))[0] if layout.rank else None
        end = parse_duration(str(fields[layout.end])).value if layout.end and not _empty(fields[layout.end]) else None
        row = Row(
            step=step,
            step_s=step_s,
            rank=-1 if rank is None else rank,
            end_s=math.nan if end is None else end,
            extra=_extras(fields, layout) or None,
            line=line,
        )
        if layout.clock and (at := unix_s_of(fields[layout.clock])) is not None:
            self._dates.append(at)
        self._rows.append(row)
        self._counters.append(layout.step)

    def _duration(self, fields: Mapping[str, Any], layout: Layout) -> tuple[float, str | None]:
        if layout.time is None:
            return math.nan, None
        value = fields[layout.time]
        unit = (layout.unit and layout.unit.unit) or self._options.unit
        if layout.unit and layout.unit.unit is None:
            if unix_s_of(value) is not None:
                return math.nan, "clock_not_duration"
            self._bare.add(layout.time)
        number = parse_duration(repr(value) if isinstance(value, float) else str(value), unit)
        return (math.nan if number.value is None else number.value), number.warning

    def _with_one_counter(self) -> list[Row]:
        """Keep rows of one counter of steps where times come from a clock: two would give wrong differences."""
        rows = self._rows
        if not rows or not all(math.isnan(row.step_s) for row in rows) or len(set(self._counters)) == 1:
            return rows
        usual = Counter(self._counters).most_common(1)[0][0]
        kept = [row for row, counter in zip(rows, self._counters, strict=True) if counter == usual]
        text = f"{len(rows) - len(kept)} rows count steps by another key than `{usual}` and were left out"
        self.remarks.note("other_counter", text)
        return kept

    def parsed(self, *, ended: bool = False) -> Parsed:
        """Return the rows and the notes about them."""
        rows, note = self._with_one_counter(), self.remarks.note
        if {re.split(r"[/.]", key)[-1] for key in self._bare} == {"time"} and _only_grows(rows):
            shown = f"time={rows[0].step_s:g} ... time={rows[-1].step_s:g}"
            why = "`time` grows from row to row: a running clock, not a step's time"
            self.remarks.error("running_clock", rows[0].line, shown, why)
            rows = []
        for key in sorted(self._bare if rows else ()):
            note(
                "unit_assumed",
                f"`{key}` names no unit: taken as {self._options.unit} (unit= changes that)",
            )
        if self._validation:
            note("validation_rows", f"{self._validation} rows of validation or test were left out")
        if self._without_time:
            note("rows_without_time", f"{self._without_time} rows state no step time and were ignored")
        return Parsed(
            rows,
            self.remarks,
            self._world_size,
            ended,
            started_at=self._dates[0] if self._dates else None,
            finished_at=self._dates[-1] if self._dates else None,
            kind="single" if rows and all(math.isnan(row.step_s) for row in rows) else "not said",
        )


def flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with one level of nested objects as `outer.inner`."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": deep for inner, deep in value.items()}
        else:
            found[key] = value
    return found


def counted(fields: Mapping[str, Any]) -> list[tuple[int, int | None]]:
    """Return the (rank, step) of a row for live progress: one pair, or none for rows of other kinds."""
    layout = layout_of(tuple(fields))
    if not layout.timed or any(_marks_validation(key, fields[key]) for key in layout.split):
        return []
    if _empty(fields.get(layout.time or layout.end or "")):
        return []
    rank = _whole(fields.get(layout.rank))[0] if layout.rank else None
    step = _whole(fields.get(layout.step))[0] if layout.step else None
    return [(-1 if rank is None else rank, step)]


def _marks_validation(key: str, value: object) -> bool:
    name = normal(key).rsplit("/", 1)[-1]
    if name in TRAIN_FLAG_KEYS:
        return value is False or str(value).lower() == "false" or (name.startswith("is_") and value == 0)
    if name in FLAG_KEYS:
        return (
            value is True or str(value).lower() == "true" or (name not in ("val", "validation") and value in (1, "1"))
        )
    if normal(key) == "job":  # more often the name of a run, such as test-3
        return str(value).strip().lower() in NOT_TRAINING
    return not is_training(value)


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in {"", "none", "null", "n/a"})


def _whole(value: object) -> tuple[int | None, str | None]:
    """Read a step or rank: the number, or None and what is wrong with it."""
    if _empty(value):
        return None, None
    number = _number(value, count=True)
    if number is None or not math.isfinite(number) or number != int(number):
        return None, "bad_step"
    return int(number), None


def _number(value: object, *, count: bool = False) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return parse_number(value, count=count).value if isinstance(value, str) and value.strip() else None


def _extras(fields: Mapping[str, Any], layout: Layout) -> dict[str, float]:
    taken = {layout.step, layout.time, layout.rank, layout.end, layout.clock, *layout.split}
    found: dict[str, float] = {}
    for key, value in fields.items():
        if key not in taken and (number := _number(value, count=is_count(key))) is not None:
            found[key] = number
    return found


def _only_grows(rows: Iterable[Row]) -> bool:
    """Whether `time` is a clock: it grows all along, over many rows or to much more than it was."""
    values = [row.step_s for row in rows]
    if len(values) < _FEWEST_ROWS or not all(a < b for a, b in pairwise(values)):
        return False
    return len(values) >= _GROWING_ROWS or values[-1] >= _GROWN * values[0]
