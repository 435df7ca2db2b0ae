"""The only list of readers, from the most to the least specific. A new format is one line here.

Other packages add theirs by the entry point group `interlace.readers`; they are asked before the general ones.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NamedTuple

from interlace.errors import UsageError
from interlace.steplog import csv_log, interlace_log, jsonl, keyvalue, lerobot, pattern
from interlace.steplog.formats import SPECIFIC, deepspeed_breakdown, hf_trainer, keras_bar, lightning, tqdm_bar
from interlace.steplog.model import FileReader

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.steplog.model import Options, Reader

GROUP = "interlace.readers"
"""The entry point group under which other packages offer readers: a `Reader` object each."""

NEEDED = ("name", "anywhere", "recognise", "parse", "counter")

FIRST: tuple[Reader, ...] = (interlace_log.READER, lerobot.READER, *SPECIFIC)
BARS: tuple[Reader, ...] = (lightning.READER, hf_trainer.READER, keras_bar.READER, tqdm_bar.READER)
"""Readers of progress bars: the least of all sources, asked only where nothing prints a step time."""

PARTS: tuple[Reader, ...] = (deepspeed_breakdown.READER,)
"""Readers that add up the parts of a step: asked only where nothing prints the whole."""

GENERAL: tuple[Reader, ...] = (jsonl.READER, csv_log.READER, keyvalue.READER, *PARTS, *BARS, pattern.READER)
OWN = {reader.name for reader in (*FIRST, *GENERAL)}


class Others(NamedTuple):
    """The readers of other packages, and a sentence for each that cannot be used."""

    readers: tuple[Reader, ...]
    broken: dict[str, str]


@lru_cache(maxsize=1)
def others() -> Others:
    """Load the readers that other installed packages offer; a broken one never stops the others."""
    found: list[Reader] = []
    broken: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            reader = point.load()
        except Exception as error:  # noqa: BLE001 (a stranger's module may fail in any way)
            broken[point.name] = f"{point.value} cannot be loaded ({type(error).__name__}: {error})"
            continue
        lacking = [name for name in NEEDED if not hasattr(reader, name)]
        if lacking:
            broken[point.name] = f"{point.value} is no reader: it has no {', '.join(lacking)}"
        elif reader.name in OWN | {one.name for one in found}:
            broken[point.name] = f"{point.value} calls itself {reader.name}, a name that is taken"
        else:
            found.append(reader)
    return Others(tuple(found), broken)


def readers() -> tuple[Reader, ...]:
    """Return all readers in the order in which they are asked."""
    return (*FIRST, *others().readers, *GENERAL)


def names() -> tuple[str, ...]:
    """Return what `reader=` may say."""
    return ("auto", *(reader.name for reader in readers()))


def reader_named(name: str) -> Reader:
    """Return the reader of this name. Raises UsageError listing the names."""
    for reader in readers():
        if reader.name == name:
            return reader
    if name in others().broken:
        raise UsageError(f"reader={name}: {others().broken[name]}; mend or remove that package")
    close = difflib.get_close_matches(name, names(), 1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise UsageError(f"reader={name} is not known{meant}; choose one of {', '.join(names())}")


def recognised(head: str, options: Options, *, top: bool = True, bars: bool = True) -> tuple[Reader, str] | None:
    """Return the first reader that recognises a stretch of a log, and why; `top`: the log begins with it.

    Where the user states a unit, a step time that has none in the log is good enough. `bars`: whether progress
    bars count.
    """
    for reader in readers():
        if not bars and reader in BARS:
            continue
        if (top or reader.anywhere) and (why := reader.recognise(head)):
            return reader, f"{reader.name}: {why}"
    if options.unit != "s" and (shown := keyvalue.without_unit(head)):
        return keyvalue.READER, f"keyvalue: `{shown}`, in {options.unit} as asked"
    return None


def recognised_file(path: Path, head: bytes, reader: str) -> tuple[FileReader, str] | None:
    """Return the reader of whole files (or of a folder: head is b"") that recognises this one, and why."""
    for one in readers():
        if isinstance(one, FileReader) and reader in {"auto", one.name} and (why := one.recognise_path(path, head)):
            return one, f"{one.name}: {why}"
    return None
