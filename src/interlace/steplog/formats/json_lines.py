"""The only machine behind readers of one tool's JSON lines: a subclass says which objects are records of what.

Other rows are left out with their number, a torn last line with a note; any other broken line is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlace.steplog.jsonl import NotJsonError, note_tail, values_of
from interlace.steplog.model import Kind, Options, Parsed, Remarks, Row, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from interlace.steplog.text import Record

LOOKED_AT = 50
OTHER = "rows of validation or without a step's time were left out"


class JsonLinesReader:
    """Reads the objects of a file's lines. Subclasses define `row`, perhaps `json_of` and `settled`."""

    name = ""
    anywhere = False
    facts: Mapping[str, str] = {}
    kind: Kind = "single"
    hint = ""
    """A plain text in every record, so that other logs cost nothing."""

    mark = ""
    """What its records are called in the explanation of why a file was recognised."""

    def row(self, fields: Mapping[str, Any], line: int, remarks: Remarks) -> Row | None:
        """Return the row of an object; None where it is no training record of this format."""
        raise NotImplementedError

    def json_of(self, text: str) -> str | None:
        """Return the JSON in a line; None where there is none."""
        return text

    def settled(self, rows: list[Row], remarks: Remarks) -> tuple[list[Row], Kind]:
        """Return what becomes of the rows when all are there, and what one value is."""
        del remarks
        return rows, self.kind

    def recognise(self, head: str) -> str | None:
        """Recognise a record among the first objects; the file begins with one, unless it may stand anywhere."""
        if self.hint not in head:
            return None
        lines = [line for line in head.split("\n") if line.strip() and self.json_of(line) is not None][:LOOKED_AT]
        if not self.anywhere and not (lines and lines[0].lstrip().startswith("{")):
            return None
        for line in lines:
            if any(self.row(fields, 0, Remarks()) for fields in self._objects(line)):
                return f"{self.mark}, like `{shorten(line, 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all objects of all lines."""
        del options
        remarks = Remarks()
        rows: list[Row] = []
        broken: Record | None = None
        other = 0
        for record in records:
            text = self.json_of(record.text)
            if text is None or not text.strip():
                continue
            if broken:  # something follows, so it was not the torn end
                remarks.error("corrupt_line", broken.line, broken.text)
            broken = None
            try:
                values = values_of(text)
            except NotJsonError:
                broken = record._replace(text=text)
                continue
            for fields in values:
                row = self.row(fields, record.line, remarks) if isinstance(fields, dict) else None
                rows += [row] if row else []
                other += row is None
        if broken:
            note_tail(broken, remarks)
        if other:
            remarks.note("validation_rows", f"{other} {OTHER}")
        rows, kind = self.settled(rows, remarks)
        return Parsed(rows, remarks, kind=kind)

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the steps of the records in a line."""
        del options

        def steps_in(text: str) -> Iterator[tuple[int, int | None]]:
            for fields in self._objects(text):
                if row := self.row(fields, 0, Remarks()):
                    yield row.rank, row.step

        return steps_in

    def _objects(self, line: str) -> list[dict[str, Any]]:
        try:
            return [value for value in values_of(self.json_of(line) or "") if isinstance(value, dict)]
        except NotJsonError:
            return []


def number(value: object) -> float | None:
    """Return a JSON number; None for anything else, `true` and `false` among it."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(value: object) -> int | None:
    """Return a whole number that is not negative, else None."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found.is_integer() else None


def columns(fields: Mapping[str, Any], taken: Iterable[str]) -> dict[str, float]:
    """Return the further numbers of an object."""
    left_out = set(taken)
    return {key: found for key, value in fields.items() if key not in left_out and (found := number(value)) is not None}
