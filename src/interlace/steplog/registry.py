"""The only list of readers, from the most to the least specific. A new format is one line here."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.steplog import csv_log, interlace_log, jsonl, keyvalue, lerobot, pattern

if TYPE_CHECKING:
    from interlace.steplog.model import Options, Reader

READERS: tuple[Reader, ...] = (
    interlace_log.READER,
    lerobot.READER,
    jsonl.READER,
    csv_log.READER,
    keyvalue.READER,
    pattern.READER,
)


def names() -> tuple[str, ...]:
    """Return what `reader=` may say."""
    return ("auto", *(reader.name for reader in READERS))


def reader_named(name: str) -> Reader:
    """Return the reader of this name. Raises UsageError listing the names."""
    for reader in READERS:
        if reader.name == name:
            return reader
    close = difflib.get_close_matches(name, names(), 1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise UsageError(f"reader={name} is not known{meant}; choose one of {', '.join(names())}")


def recognised(head: str, options: Options, *, top: bool = True) -> tuple[Reader, str] | None:
    """Return the first reader that recognises a stretch of a log, and why; `top`: the log begins with it.

    Where the user states a unit, a step time that has none in the log is good enough.
    """
    for reader in READERS:
        if (top or reader.anywhere) and (why := reader.recognise(head)):
            return reader, f"{reader.name}: {why}"
    if options.unit != "s" and (shown := keyvalue.without_unit(head)):
        return keyvalue.READER, f"keyvalue: `{shown}`, in {options.unit} as asked"
    return None
