"""Reader `csv`: a table with a header line, separated by comma, semicolon, tab or bar.

Clock: the table does not say; a cumulative one (Lightning's `train/time`) gives differences.
Includes: the table does not say.
Ranks: as `rank` says, else not known.
Resolution: what is written.
Lost: nothing that is written.

Header names are the keys of the reader `jsonl`. With semicolons a comma is the decimal mark, once one cell of the
table shows it beyond doubt. Rows without a time are ignored with their number, a torn last row is dropped
with a note, a row with the wrong number of cells elsewhere is an error, a repeated header is skipped.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import TYPE_CHECKING

from interlace.steplog.facts import facts_in
from interlace.steplog.fields import Rows, counted, layout_of
from interlace.steplog.model import Options, Parsed, Remarks, shorten
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
LONGEST_ROW_CHARS = 100_000  # below the limit of the csv module
_LOOKED_AT = 20
_FEW, _FEW_SHARE = 2, 0.05
_NO_NUMBER = (False, False, -1)
_DECIMALS = re.compile(r"[+-]?\d*(?:[.,](\d*))?(?:[eE][+-]?\d+)?")
_DELIMITERS = ",;\t|"
_NAME = re.compile(r"[A-Za-z_][\w ./()\[\]%-]*")
_DECIMAL_COMMA = re.compile(r"[+-]?(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_ANY_COMMA = re.compile(r"([+-]?\d+),(\d+)")


class CsvReader:
    """The reader; the file begins with the header, after comment lines perhaps."""

    name = "csv"
    anywhere = False
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a header line that names a step time."""
        for line in head.split("\n"):
            if line.strip() and not line.startswith("#"):
                found = _header(line)
                if found and layout_of(tuple(found[1])).timed:
                    return f"a table headed `{shorten(line, 60)}`"
                return None
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all rows below the header."""
        remarks = Remarks()
        rows = Rows(options, remarks)
        table = _Table(remarks)
        for names, cells, record in table.rows(records):
            rows.add(dict(zip(names, cells, strict=True)), record.line, record.text)
        return rows.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that remembers the header and lists the rank and step of each row."""
        del options
        header: list[tuple[str, list[str]]] = []

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            if not text.strip() or text.startswith("#"):
                return []
            if not header:
                found = _header(text)
                header.extend([found] if found else [])
                return []
            delimiter, names = header[0]
            cells = _cells(text, delimiter)
            return counted(dict(zip(names, cells, strict=False))) if len(cells) == len(names) else []

        return steps_in


class _Table:
    """Gathers the rows of a table, to be read in the decimal convention that all of them show."""

    def __init__(self, remarks: Remarks) -> None:
        self._remarks = remarks
        self._delimiter = ""
        self._names: list[str] = []
        self._kept: list[tuple[list[str], Record]] = []
        self._odd: Record | None = None
        self._broken = False

    def rows(self, records: Iterable[Record]) -> Iterator[tuple[list[str], list[str], Record]]:
        """Yield names, cells and record of each row."""
        for record in records:
            if record.text.strip() and not record.text.startswith("#"):
                self._take(record)
        self._judge_last()
        if self._broken:
            self._refuse_unlike()
        decimal_comma = self._delimiter == ";" and _uses_decimal_comma(cells for cells, _ in self._kept)
        if decimal_comma:
            text = "the table is separated by ; and its commas are decimal marks"
            self._remarks.note("decimal_comma", text)
        for cells, record in self._kept:
            plain = [_ANY_COMMA.sub(r"\1.\2", cell) for cell in cells] if decimal_comma else cells
            yield self._names, plain, record

    def _take(self, record: Record) -> None:
        if not self._delimiter:
            self._delimiter, self._names = _header(record.text) or (",", [])
            return
        if self._odd:
            self._remarks.error("corrupt_line", self._odd.line, self._odd.text, f"not {len(self._names)} cells")
            self._odd, self._broken = None, True
        if LOST in record.text:
            self._remarks.error("corrupt_line", record.line, record.text, "bytes of it are lost")
            self._broken = True
            return
        cells = _cells(record.text, self._delimiter)
        if cells == self._names:
            self._remarks.note("repeated_header", f"the header stands again in line {record.line}: appended log")
        elif len(cells) != len(self._names) or (not record.ended and self._may_be_cut(cells)):
            self._odd = record
        else:
            self._kept.append((cells, record))

    def _may_be_cut(self, cells: list[str]) -> bool:
        """Whether the last cell of a row without line end is shorter than those above it."""
        lengths = [len(row[-1]) for row, _ in self._kept[-_LOOKED_AT:]]
        if not lengths:
            return False
        return len(cells[-1]) < (
            max(lengths) if layout_of(tuple(self._names)).time == self._names[-1] else min(lengths)
        )

    def _judge_last(self) -> None:
        """Drop a last row that is cut: it has no end, or its time stands last and is shorter than all before."""
        lengths = {len(row[-1]) for row, _ in self._kept[-_LOOKED_AT - 1 : -1]}
        if not self._odd and len(self._kept) > _LOOKED_AT and len(lengths) == 1:
            cells, record = self._kept[-1]
            if len(cells[-1]) < lengths.pop() and layout_of(tuple(self._names)).time == self._names[-1]:
                self._odd = record
                self._kept.pop()
        if self._odd:
            text = f"the last row is cut and was dropped: `{shorten(self._odd.text, 60)}`"
            self._remarks.note("truncated_tail", text)

    def _refuse_unlike(self) -> None:
        """In a table with broken rows, refuse those with a cell unlike nearly all of its column: two rows in one."""
        columns = list(zip(*([_form(cell) for cell in cells] for cells, _ in self._kept), strict=True))
        odd: set[int] = set()
        for forms in columns:
            usual = Counter(forms).most_common(1)[0][0]
            unlike = {n for n, form in enumerate(forms) if form not in {usual, _NO_NUMBER}}
            odd |= unlike if len(unlike) <= max(_FEW, _FEW_SHARE * len(forms)) else set()
        for n in sorted(odd):
            record = self._kept[n][1]
            self._remarks.error("corrupt_line", record.line, record.text, "unlike the other rows, and rows are broken")
        self._kept = [kept for n, kept in enumerate(self._kept) if n not in odd]


def _form(cell: str) -> tuple[bool, bool, int]:
    """Return whether a cell is empty, has a zero in front, and how many decimals it has."""
    number = _DECIMALS.fullmatch(cell)
    return (not cell, cell[:1] == "0" and cell[1:2].isdigit(), len(number[1] or "")) if number else _NO_NUMBER


def _uses_decimal_comma(rows: Iterable[list[str]]) -> bool:
    commas = points = False
    for row in rows:
        commas = commas or any(_DECIMAL_COMMA.fullmatch(cell.strip()) for cell in row)
        points = points or any(_DECIMAL_POINT.fullmatch(cell.strip()) for cell in row)
    return commas and not points


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of a header line; None when it is none."""
    for delimiter in sorted(_DELIMITERS, key=line.count, reverse=True):
        names = _cells(line, delimiter)
        named = all(_NAME.fullmatch(name) or not name for name in names) and len(set(names)) == len(names)
        if delimiter in line and named and sum(bool(name) for name in names) > 1:
            return delimiter, names
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    if len(line) > LONGEST_ROW_CHARS:
        return []
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


READER = CsvReader()
