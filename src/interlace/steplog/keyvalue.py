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
from interlace.steplog.numbers import MALFORMED, parse_duration
from interlace.steplog.shapes import WHY_ODD, Shapes
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
KEPT_CHARS = 4096
_CUT_IN_FRONT = re.compile(r"0\d")
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
                state.shapes.between(text)
                continue
            found = list(records_in(text, named=named))
            if not any("time" in one.tokens for one in found):
                state.shapes.between(text)
            if record.goes_on and found:
                carried = text[found[-1].start :][-KEPT_CHARS:]
                text, found = text[: found[-1].start], found[:-1]
            # What stands before the first record (a date, the epoch, the loss) belongs to it.
            starts = [0, *(f.start for f in found[1:]), len(text)]
            for n, this in enumerate(found):
                state.add(this, text[starts[n] : starts[n + 1]], record, starts[n])
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
        self.doubtful: dict[int, tuple[str, str]] = {}
        self.shapes = Shapes()
        self.last_step: dict[int, int] = {}
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

    def add(self, found: Found, text: str, record: Record, offset: int) -> None:
        """Take one record in; `text` begins at `offset` of the line."""
        time = found.tokens.get("time")
        if time is None:
            return
        if LOST in text and LOST in text[: max(token.end for token in found.tokens.values()) - offset + 2]:
            self.remarks.error("torn_record", record.line, text, "bytes of it are lost")
            return
        if NO_VALUE.fullmatch(time.text):
            self.without_value += 1
            return
        unit = (time.unit and time.unit.unit) or self.options.unit
        number = parse_duration(time.text, unit)
        if number.value is None or _CUT_IN_FRONT.match(time.text):
            why = f"`{time.text}` cannot be read as a time"
            self.remarks.error(number.warning or MALFORMED, record.line, text, why)
            return
        if time.unit and time.unit.unit is None and not has_unit(time.text):
            self.bare = time.key
        step_token = found.tokens.get("step")
        if step_token and is_odd_step(step_token.text):
            self.remarks.error("bad_step", record.line, text, f"`{step_token.text}` is no step number")
            return
        step = step_of(found.tokens)
        self.rounded += step_token is not None and step is None
        rank = rank_of(found.tokens)
        if not (record.ended or record.goes_on) and self._may_be_cut(found, len(record.text), rank, step):
            self.remarks.note("truncated_tail", f"the last line is cut and was dropped: `{shorten(text[-80:])}`")
            return
        self.last_step[rank] = -1 if step is None else step
        if found.mixed:
            self.doubtful[len(self.rows)] = text, "two records in one, whose time it is cannot be said"
        elif time.text.endswith(".") and not text[time.end - offset :].strip():
            self.doubtful[len(self.rows)] = text, f"`{time.text}` is cut"
        extra = extras_in(text, {t.key for t in found.tokens.values()})
        self.shapes.seen(text, len(self.rows), text, width_of(time.text))
        self.rows.append(Row(step, number.value, rank, extra=extra or None, line=record.line))
        self.first, self.last = self.first or record.text, record.text

    def parsed(self) -> Parsed:
        """Return the rows and what has to be said about them."""
        note = self.remarks.note
        self._refuse_doubtful()
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

    def _may_be_cut(self, found: Found, end: int, rank: int, step: int | None) -> bool:
        """Whether the last line ends in its step or rank, and not in one that goes on as before."""
        if not any(token.end == end for token in found.tokens.values() if token.kind != "time"):
            return False
        return step is None or rank not in self.last_step or step <= self.last_step[rank]

    def _refuse_doubtful(self) -> None:
        """Refuse doubtful records, unless most of this log's are like that; where writers mix, those like no other."""
        doubtful = self.doubtful if 2 * len(self.doubtful) < len(self.rows) else {}
        if self.remarks.tangled() or self.shapes.rests():
            doubtful = {row: (text, WHY_ODD) for row, text in self.shapes.odd()} | doubtful
        for n, (text, why) in doubtful.items():
            if n == len(self.rows) - 1 and why.endswith("is cut"):
                self.remarks.note("truncated_tail", f"the last time is cut and was dropped: `{shorten(text[-80:])}`")
            else:
                self.remarks.error("torn_record", self.rows[n].line, text, why)
        self.rows = [row for n, row in enumerate(self.rows) if n not in doubtful]


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
