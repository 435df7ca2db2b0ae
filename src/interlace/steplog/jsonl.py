"""Reader `jsonl`: one JSON object a line, as metrics loggers write it.

Clock: the log does not say; a cumulative one (`end_s`, W&B's `_runtime`) gives differences where no time is there.
Includes: the log does not say.
Ranks: as `rank` says, else not known.
Resolution: what is written.
Lost: nothing that is written.

Keys: a step counter (`global_step`, `step`, `iter` ...), a time (`step_s`, `iter_time_ms`, `step_time`, `time`
...), optionally `rank`, a cumulative `end_s`, and `mode`/`split`/`eval`, which tell validation rows apart.
NaN and Infinity, which JSON does not have, are read; a torn last line is dropped with a note; any other
broken line is an error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.fields import Rows, counted, flat, layout_of
from interlace.steplog.model import Options, Parsed, Remarks, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
_LOOKED_AT = 50
_decoder = json.JSONDecoder()


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
        broken: Record | None = None
        glued = 0
        for record in records:
            if not record.text.strip():
                continue
            if broken:  # something follows, so it was not the torn end
                remarks.error("corrupt_line", broken.line, broken.text)
                broken = None
            try:
                values = values_of(record.text)
            except NotJsonError:
                broken = record
                continue
            glued += len(values) > 1
            for value in values:
                if isinstance(value, dict):
                    rows.add(flat(value), record.line, record.text)
                else:
                    remarks.error("not_an_object", record.line, record.text)
        if broken:
            note_tail(broken, remarks)
        if glued:
            remarks.note("interleaved_lines", f"{glued} lines hold several objects; all of them were read")
        return rows.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps of a line."""
        del options
        return lambda text: [pair for fields in _objects(text) for pair in counted(fields)]


def values_of(text: str) -> list[Any]:
    """Return the JSON values of a line: several where two writers shared it. Raises NotJsonError."""
    values = []
    at = 0
    text = text.strip()
    try:
        while at < len(text):
            value, at = _decoder.raw_decode(text, at)
            values.append(value)
            while at < len(text) and text[at].isspace():
                at += 1
    except (ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from error
    return values


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
