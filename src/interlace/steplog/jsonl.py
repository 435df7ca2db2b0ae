"""Reader `jsonl`: one JSON object a line, as metrics loggers write it.

Clock: the log does not say; a cumulative one (`end_s`, W&B's `_runtime`) gives differences where no time is there.
Includes: the log does not say.
Ranks: as `rank` says, else not known.
Resolution: what is written.
Lost: nothing that is written.

Keys: a step counter (`global_step`, `step`, `iter` ...), a time (`step_s`, `iter_time_ms`, `step_time`, `time`
...), optionally `rank`, a cumulative `end_s`, and `mode`/`split`/`eval`, which tell validation rows apart.
NaN and Infinity, which JSON does not have, are read, also as other languages write them (`nan`, `-inf`), and so
is a comma behind an object; a torn last line is dropped with a note; any other broken line is an error.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.fields import Rows, counted, flat, layout_of
from interlace.steplog.interleaved import WAIT_RECORDS
from interlace.steplog.model import Options, Parsed, Remarks, in_lines, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
_LOOKED_AT = 50
_MOST_LOST = 1000
_MOST_TRIES = 32
_decoder = json.JSONDecoder()
_NOT_FINITE = re.compile(r"(?<=[:\[,\s])([+-]?)(nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)


class NotJsonError(ValueError):
    """A line that is not a sequence of JSON values."""


class JsonlReader:
    """The reader; the file begins with an object."""

    name = "jsonl"
    anywhere = False
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a file whose first line is an object and where some object states a step time."""
        lines = [line for line in head.split("\n") if line.strip()][:_LOOKED_AT]
        if not lines or not lines[0].lstrip().startswith("{"):
            return None
        for line in lines:
            for fields in _objects(line):
                if layout_of(tuple(fields)).timed:
                    return f"JSON objects with a step time, like `{shorten(line, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all objects of all lines."""
        remarks = Remarks()
        rows = Rows(options, remarks)
        broken = _Broken(remarks)
        glued = 0
        for record in records:
            if not record.text.strip():
                continue
            try:
                values = values_of(record.text)
            except NotJsonError:
                broken.take(record)
                continue
            broken.last = None
            if len(values) > 1:
                glued += 1
            elif not broken.usual and isinstance(values[0], dict):
                broken.usual = set(values[0])
            _add(values, record, rows, remarks)
        for record, values in broken.joined:
            _add(values, record, rows, remarks)
        broken.say()
        if glued:
            remarks.note("interleaved_lines", f"lines that held several objects, all of them read: {glued} in all")
        return rows.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps of a line."""
        del options
        return lambda text: [pair for fields in _objects(text) for pair in counted(fields)]


def _add(values: list[Any], record: Record, rows: Rows, remarks: Remarks) -> None:
    for value in values:
        if not isinstance(value, dict):
            remarks.error("not_an_object", record.line, record.text)
        elif len(values) == 1 and record.text.count('":') > len(value) and (key := _doubled(record.text, value)):
            remarks.error("doubled_key", record.line, record.text, f"`{key}` stands twice in one object")
        else:
            rows.add(flat(value), record.line, record.text)


def _doubled(text: str, fields: dict[str, Any]) -> str | None:
    """Return the step or time that stands twice in an object: its begin is of one record, its end of another."""
    layout = layout_of(tuple(fields))
    names = [name for name in (layout.step, layout.time) if name and text.count(f'"{name}"') > 1]
    if not names:
        return None
    pairs = json.loads(_as_python_writes(text), object_pairs_hook=list)
    found = [key for key, _ in pairs]
    return next((name for name in names if found.count(name) > 1), None)


class _Broken:
    """The lines that are no JSON: torn ends, corrupt lines, and two writers' objects that stand in one another.

    An object that another one has parted is joined only where its rest follows, nothing else fits, and the
    result has the keys of the other objects.
    """

    def __init__(self, remarks: Remarks) -> None:
        self.remarks = remarks
        self.joined: list[tuple[Record, list[Any]]] = []
        self.usual: set[str] = set()
        self.last: Record | None = None
        self._lost: list[Record] = []
        self._open: list[tuple[Record, str, list[Any]]] = []
        self._together = 0

    def take(self, record: Record) -> None:
        """Take in a line that is no JSON: the begin of an object, or the rest of one."""
        self.last = record
        far = [one for one in self._open if record.line - one[0].line > WAIT_RECORDS]
        self._lost += [one[0] for one in far]
        self._open = [one for one in self._open if one not in far]
        fitting = [one for one in self._open if self._ends(one[1], record.text)]
        if len(fitting) == 1:
            first, head, inside = fitting[0]
            self._open.remove(fitting[0])
            self.joined.append((first._replace(text=head + record.text), values_of(head + record.text)))
            self.joined += [(first._replace(text=first.text[len(head) :]), inside)] if inside else []
            self._together += 1
        elif record.text.lstrip().startswith("{"):
            head, inside = _parted(record.text)
            self._open.append((record, head, inside))
        elif len(self._lost) < _MOST_LOST:
            self._lost.append(record)
        else:
            self.remarks.error("corrupt_line", record.line, record.text)

    def _ends(self, head: str, rest: str) -> bool:
        values = _objects(head + rest)
        return len(values) == 1 and set(values[0]) == self.usual

    def say(self) -> None:
        """Say what was joined, what was cut by a kill and what is corrupt."""
        remarks = self.remarks
        for record in sorted([*self._lost, *(one[0] for one in self._open)], key=lambda record: record.line):
            if record is self.last:
                note_tail(record, remarks)
            else:
                remarks.error("corrupt_line", record.line, record.text)
        remarks.sort_errors()
        if self._together:
            where = in_lines(record.line for record, _ in self.joined)
            text = f"objects put together from two pieces that stood apart ({where}): {self._together} in all"
            remarks.note("joined_records", text)


def _parted(text: str) -> tuple[str, list[Any]]:
    """Return a line's begin and the whole objects behind it, none where there are none."""
    at = 0
    for _ in range(_MOST_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            break
        try:
            return text[:at], values_of(text[at:])
        except NotJsonError:
            continue
    return text, []


def values_of(text: str) -> list[Any]:
    """Return the JSON values of a line: several where two writers shared it. Raises NotJsonError."""
    values = []
    at = 0
    text = text.strip()
    try:
        while at < len(text):
            value, at = _decoder.raw_decode(text, at)
            values.append(value)
            while at < len(text) and (text[at].isspace() or (text[at] == "," and isinstance(value, dict))):
                at += 1
    except (ValueError, RecursionError) as error:
        if (finite := _as_python_writes(text)) != text:
            return values_of(finite)
        raise NotJsonError(str(error)) from error
    return values


def _as_python_writes(text: str) -> str:
    """Spell numbers that are not finite, which each language prints in its own way, as Python's json reads them."""
    return _NOT_FINITE.sub(lambda m: "NaN" if m[2][0] in "nN" else f"{m[1].strip('+')}Infinity", text)


def note_tail(record: Record, remarks: Remarks) -> None:
    """Say that the last line is broken: cut when it began as an object, corrupt otherwise."""
    if record.text.lstrip().startswith("{"):
        remarks.note("truncated_tail", f"the last line is cut and was dropped: `{shorten(record.text, 60)}`")
    else:
        remarks.error("corrupt_line", record.line, record.text)


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        return [flat(value) for value in values_of(text) if isinstance(value, dict)]
    except NotJsonError:
        return []


READER = JsonlReader()
