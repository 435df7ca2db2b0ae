"""The only machine behind readers of one trainer's lines: a format is declared as patterns, this reads it.

A record begins where `begins` matches and ends where the next one begins, so two ranks on one line are two
records. A record that begins and does not read as one is an error that shows it, never a number.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from interlace.steplog.dates import unix_s_in
from interlace.steplog.facts import facts_in
from interlace.steplog.keys import RANK_WORDS, is_count
from interlace.steplog.model import Kind, Options, Parsed, Remarks, Row, Unit, shorten
from interlace.steplog.numbers import NUMBER, UNITS, parse_count, parse_duration, parse_number
from interlace.steplog.shapes import WHY_ODD, Shapes
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from interlace.steplog.text import Record

NUM = NUMBER
"""Any number that a log may print, for the patterns of a format."""
UNIT = UNITS
"""Any unit of time."""

TIMES: dict[str, Unit] = {"step_s": "s", "step_ms": "ms"}
CLOCKS: dict[str, Unit] = {"end_s": "s", "end_ms": "ms"}
KEPT_CHARS = 1 << 16
AT = "at"
"""Among a record's groups: the date in front of it, in unix seconds."""
_TAKEN = {*TIMES, *CLOCKS, "step", "rank", "unit", AT}
_RANK = re.compile(rf"\[(?:{RANK_WORDS})\s?_?(\d+)\]", re.IGNORECASE)


@dataclass(frozen=True)
class LineFormat:
    """One trainer's records.

    `hint`: a plain text that every record holds (a search for it is cheap). `begins`: the start of a record;
    `record`, matched there, has the groups step, one of step_s, step_ms, end_s, end_ms (with `unit` where the log
    prints one), perhaps rank; every other group becomes a column. The time must be followed by something, so
    that a cut one does not match. `pairs`: further `key` and `number` in the same record. `other`: records of
    validation that begin alike. `header`: facts that the log states once, a name and a pattern with one number.
    Nothing is demanded in front of `begins`: another rank's unfinished line may end there.
    `rest`: what can only be the rest of a record; alone on a line it is an error.
    """

    name: str
    doc: str | None
    hint: str
    begins: re.Pattern[str]
    record: re.Pattern[str]
    kind: Kind
    pairs: re.Pattern[str] | None = None
    other: re.Pattern[str] | None = None
    header: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    end: str | None = None
    reduced: str | None = None
    rest: re.Pattern[str] | None = None


class LineReader:
    """Reads one `LineFormat`. A format whose step or time has to be worked out overrides `step_of`, `seconds_of`."""

    anywhere = True

    def __init__(self, form: LineFormat) -> None:
        self.form = form
        self.name = form.name
        self.facts = facts_in(form.doc)

    def recognise(self, head: str) -> str | None:
        """Recognise one whole record."""
        for line in head.split("\n") if self.form.hint in head else ():
            for piece in self._pieces(line):
                if self.form.record.match(piece) and not self._is_other(piece):
                    return f"records like `{shorten(piece, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every record of every line."""
        del options
        gathered = _Gathered()
        for record, piece, before in self._records(records, gathered):
            self._take(record, piece, before, gathered)
        gathered.drop_odd()
        rows, remarks = gathered.rows, gathered.remarks
        if gathered.other:
            remarks.note("validation_rows", f"{gathered.other} records of validation or test were left out")
        self.said(rows, gathered.header, remarks)
        world = gathered.header.get("world_size")
        dates = gathered.dates
        return Parsed(
            rows,
            remarks,
            None if world is None else int(world),
            gathered.ended,
            started_at=dates[0] if dates else None,
            finished_at=dates[-1] if dates else None,
            reduced=self.form.reduced,
            kind=self.kind_of(rows, gathered.header),
        )

    def listen(self, text: str, header: dict[str, float]) -> None:
        """Take in what the log states once, for the records below."""
        for name, pattern in self.form.header.items():
            if name not in header and (match := pattern.search(text)):
                value = parse_count(match[1]).value
                header |= {} if value is None else {name: value}

    def kind_of(self, rows: list[Row], header: Mapping[str, float]) -> Kind:
        """Return what one value is, for a format where that depends on the log."""
        del rows, header
        return self.form.kind

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps of the records of a text."""
        del options

        def steps_in(text: str) -> Iterator[tuple[int, int | None]]:
            for piece in self._pieces(text) if self.form.hint in text else ():
                match = self.form.record.match(piece)
                if match and not self._is_other(piece):
                    fields = fields_of(match)
                    yield _rank_in(fields, text), self.step_of(fields)

        return steps_in

    def step_of(self, fields: Mapping[str, str]) -> int | None:
        """Return the step number of a record's groups, None where there is none in full."""
        return whole(fields.get("step"))

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return a record's step time and cumulative clock in seconds (NaN for none), or why it cannot be read."""
        del header
        found = {}
        for name, unit in (*TIMES.items(), *CLOCKS.items()):
            if name in fields:
                number = parse_duration(f"{fields[name]} {fields.get('unit', '')}", unit)
                if number.value is None:
                    return f"{number.warning}"
                found["end" if name in CLOCKS else "step"] = number.value
        return found.get("step", math.nan), found.get("end", math.nan)

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say what else has to be said about the rows (nothing, for most formats)."""

    def _records(self, records: Iterable[Record], gathered: _Gathered) -> Iterator[tuple[Record, str, str]]:
        """Yield each record's place, its own text, and what stands before it on the line."""
        hint, carried = self.form.hint, ""
        for record in records:
            self.listen(record.text, gathered.header)
            gathered.ended = gathered.ended or bool(self.form.end and self.form.end in record.text)
            text, carried = carried + record.text, ""
            if hint not in text:
                continue
            cuts = [match.start() for match in self.form.begins.finditer(text)]
            if record.goes_on and cuts:
                carried = text[cuts.pop() :][-KEPT_CHARS:]
            if not cuts:
                if not carried and self.form.rest and self.form.rest.search(text):
                    gathered.unread(record, text)
                continue
            gathered.tangled = gathered.tangled or len(cuts) > 1 or text.count(hint) > len(cuts)
            ends = [*cuts[1:], len(text) - len(carried)]
            for before, start, end in zip([0, *cuts[:-1]], cuts, ends, strict=True):
                own_line = record if end == len(text) else record._replace(ended=True)
                yield own_line, text[start:end], text[before:start]

    def _pieces(self, text: str) -> list[str]:
        cuts = [*(match.start() for match in self.form.begins.finditer(text)), len(text)]
        return [text[a:b] for a, b in pairwise(cuts)]

    def _is_other(self, piece: str) -> bool:
        return bool(self.form.other and self.form.other.search(piece))

    def _take(self, record: Record, piece: str, before: str, gathered: _Gathered) -> None:
        if self._is_other(piece):
            gathered.other += 1
            return
        match = self.form.record.match(piece)
        if match is None or LOST in match[0]:
            gathered.torn(record, piece)
            return
        at = unix_s_in(before)
        fields = fields_of(match) | ({} if at is None else {AT: repr(at)})
        times = self.seconds_of(fields, gathered.header)
        if isinstance(times, str):
            gathered.remarks.error(times.split(":")[0], record.line, piece, times.partition(": ")[2])
            return
        columns = {name: value for name, value in _columns(fields, piece, self.form.pairs) if value is not None}
        row = Row(self.step_of(fields), times[0], _rank_in(fields, before), times[1], columns or None, record.line)
        gathered.shapes.seen(match[0], len(gathered.rows), piece)
        gathered.rows.append(row)
        if at is not None:
            gathered.dates.append(at)


class _Gathered:
    """What is gathered while the records go by."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.remarks = Remarks()
        self.header: dict[str, float] = {}
        self.dates: list[float] = []
        self.shapes = Shapes()
        self.other = 0
        self.ended = False
        self.tangled = False

    def drop_odd(self) -> None:
        """Drop records that read like no other, where ranks write into each other's lines."""
        odd = dict(self.shapes.odd()) if self.tangled else {}
        for n, piece in odd.items():
            self.remarks.error("torn_record", self.rows[n].line, piece, WHY_ODD)
        self.rows = [row for n, row in enumerate(self.rows) if n not in odd]

    def torn(self, record: Record, piece: str) -> None:
        """Say that a record begins here and is not whole."""
        self.tangled = self.tangled or record.ended
        if record.ended:
            self.remarks.error("torn_record", record.line, piece, "a record begins here and is not whole")
        else:
            self.remarks.note("truncated_tail", f"the last record is cut and was dropped: `{shorten(piece, 60)}`")

    def unread(self, record: Record, text: str) -> None:
        """Say that a line speaks of a step time where no record begins."""
        self.tangled = True
        self.remarks.error("torn_record", record.line, text, "its beginning is not there")


def fields_of(match: re.Match[str]) -> dict[str, str]:
    """Return the groups that took part."""
    return {name: text for name, text in match.groupdict().items() if text is not None}


def whole(text: str | None) -> int | None:
    """Return a whole number that is printed in full, else None."""
    number = parse_count(text or "")
    if number.value is None or number.rounded or not number.value.is_integer():
        return None
    return int(number.value)


def _rank_in(fields: Mapping[str, str], before: str) -> int:
    if "rank" in fields:
        return int(fields["rank"])
    found = _RANK.findall(before)
    return int(found[-1]) if found else -1


def _columns(
    fields: Mapping[str, str], piece: str, pairs: re.Pattern[str] | None
) -> Iterator[tuple[str, float | None]]:
    for match in pairs.finditer(piece) if pairs else ():
        yield match["key"], parse_number(match["number"], count=is_count(match["key"])).value
    for name, text in fields.items():
        if name not in _TAKEN:
            yield name, parse_number(text, count=is_count(name)).value
