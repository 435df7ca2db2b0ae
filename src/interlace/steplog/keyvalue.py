"""Reader `keyvalue`: `step=1 step_s=0.5`, `step: 3 ... step_time: 0.31 s`, with ranks, several on a line.

Clock: the log does not say.
Includes: the log does not say.
Ranks: as `rank=` or a prefix such as `[rank0]:` says, else not known.
Resolution: what is printed.
Lost: what is not printed.

Only keys that can mean nothing but a step's time are read: they carry their unit in the name (`step_ms`, `time
per step (ms)`) or behind the value (`step_time: 310 ms`). A key without any unit is read only when the user
asks for this reader by name, or states the unit. Rates, learning rates, times of parts and of validation
are never step times.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.dates import unix_s_in
from interlace.steplog.facts import facts_in
from interlace.steplog.interleaved import Ending, untangle, width_of
from interlace.steplog.keyvalue_tokens import (
    ANY_TIME,
    NO_VALUE,
    VALUE,
    Found,
    extras_in,
    has_unit,
    is_odd_step,
    is_validation,
    rank_of,
    records_in,
    step_of,
    times_in,
)
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
KEPT_CHARS = 4096
_DOCUMENT = re.compile(r"\s*[\[{]\s*\n")
_WORLD = re.compile(r"(?<![\w.])(?:world_size|WORLD_SIZE|num_processes)[\"']?\s*[=:]\s*(\d+)")


class KeyValueReader:
    """The reader; may begin anywhere in a log."""

    name = "keyvalue"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a key that states a step's time with its unit, next to a number; not in a JSON document."""
        if _DOCUMENT.match(head):
            return None
        for line in head.split("\n"):
            for token in times_in(line, named=False):
                if not VALUE.fullmatch(token.text):
                    continue
                return f"`{token.key}` with its unit, in records like `{shorten(line[token.start :], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every record of every line; ranks glued into one line are taken apart first."""
        named = options.named or options.unit != "s"
        state = _State(options, Remarks())
        carried = ""
        for record in untangle(records, lambda text: _ending(text, named=named), state.remarks):
            text = carried + record.text
            carried = ""
            if state.is_other(text):
                continue
            found = list(records_in(text, named=named))
            if record.goes_on and found:
                carried = text[found[-1].start :][-KEPT_CHARS:]
                text, found = text[: found[-1].start], found[:-1]
            # What stands before the first record (a date, the epoch, the loss) belongs to it.
            starts = [0, *(f.start for f in found[1:]), len(text)]
            for n, this in enumerate(found):
                state.add(this, text[starts[n] : starts[n + 1]], record)
        return state.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps of a record."""
        named = options.named or options.unit != "s"

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            if is_validation(text):
                return []
            found = records_in(text, named=named)
            return [(rank_of(f.tokens), step_of(f.tokens)) for f in found if "time" in f.tokens]

        return steps_in


def without_unit(head: str) -> str | None:
    """Return the first step time that was seen but not taken, because nothing states its unit."""
    for line in head.split("\n"):
        for token in (one for one in times_in(line, named=True) if VALUE.fullmatch(one.text)):
            return shorten(line[token.start : token.end], 40)
    return None


class _State:
    """What is gathered while the records go by."""

    def __init__(self, options: Options, remarks: Remarks) -> None:
        self.options = options
        self.remarks = remarks
        self.rows: list[Row] = []
        self.mixed: dict[int, str] = {}
        self.first = self.last = ""
        self.world_size: int | None = None
        self.bare: str | None = None
        self.not_training = self.without_value = self.rounded = 0

    def is_other(self, text: str) -> bool:
        """Whether a line is of no interest: no time in it, or one of validation."""
        if self.world_size is None and (match := _WORLD.search(text)):
            self.world_size = int(match[1])
        if not ANY_TIME.search(text):
            return True
        if is_validation(text):
            self.not_training += 1
            return True
        return False

    def add(self, found: Found, text: str, record: Record) -> None:
        """Take one record in."""
        time = found.tokens.get("time")
        if time is None:
            return
        if NO_VALUE.fullmatch(time.text):
            self.without_value += 1
            return
        unit = (time.unit and time.unit.unit) or self.options.unit
        number = parse_duration(time.text, unit)
        if number.value is None:
            self.remarks.error(str(number.warning), record.line, text, f"`{time.text}` cannot be read as a time")
            return
        if time.unit and time.unit.unit is None and not has_unit(time.text):
            self.bare = time.key
        step_token = found.tokens.get("step")
        if step_token and is_odd_step(step_token.text):
            self.remarks.error("bad_step", record.line, text, f"`{step_token.text}` is no step number")
            return
        step = step_of(found.tokens)
        self.rounded += step_token is not None and step is None
        if found.mixed:
            self.mixed[len(self.rows)] = text
        extra = extras_in(text, {t.key for t in found.tokens.values()})
        self.rows.append(Row(step, number.value, rank_of(found.tokens), extra=extra or None, line=record.line))
        self.first, self.last = self.first or record.text, record.text

    def parsed(self) -> Parsed:
        """Return the rows and what has to be said about them."""
        note = self.remarks.note
        self._refuse_mixed()
        if self.bare:
            note("unit_assumed", f"`{self.bare}` has no unit: taken as {self.options.unit}, as asked")
        if self.not_training:
            note("validation_rows", f"{self.not_training} lines of validation or test were left out")
        if self.without_value:
            note("no_value", f"{self.without_value} records have no value for the step time and were ignored")
        if self.rounded and all(row.step is None for row in self.rows):
            note("rounded_steps", "step numbers are abbreviated (as in 1K) and were not used")
        if self.rows and max(row.rank for row in self.rows) < 0:
            note(
                "rank_unknown",
                "the log does not say which rank a time is from, nor whether it is the slowest",
            )
        started, finished = unix_s_in(self.first), unix_s_in(self.last)
        return Parsed(self.rows, self.remarks, self.world_size, started_at=started, finished_at=finished)

    def _refuse_mixed(self) -> None:
        """Refuse records with two steps or ranks in front of their time, unless this log's records are like that."""
        if 2 * len(self.mixed) >= len(self.rows):
            return
        for n, text in self.mixed.items():
            why = "two records in one, whose time it is cannot be said"
            self.remarks.error("torn_record", self.rows[n].line, text, why)
        self.rows = [row for n, row in enumerate(self.rows) if n not in self.mixed]


def _ending(text: str, *, named: bool) -> Ending | None:
    """Say how the last readable time in a text is printed."""
    last = None
    for token in times_in(text, named=named):
        last = token if VALUE.fullmatch(token.text) else last
    if last is None:
        return None
    match = VALUE.fullmatch(last.text)
    number = match["number"] if match else last.text
    return Ending(width_of(number), last.end == len(text) and not has_unit(last.text))


READER = KeyValueReader()
