"""The only mend for formats whose time may end the line, where nothing behind it shows that a kill has cut it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.steplog.lines import LineReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlace.steplog.model import Options, Parsed
    from interlace.steplog.text import Record

CUT = "\u2026"
"""Put behind a text that no terminator ends, so that its last number is not followed by the end of a line."""


class LineEndReader(LineReader):
    """Reads a format whose records may end with the time and the line; an unfinished last line gives no record."""

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every record of every line that has an end."""
        return super().parse(
            (record if record.ended or record.goes_on else _cut(record) for record in records), options
        )


def _cut(record: Record) -> Record:
    return record._replace(text=record.text + CUT)
