"""The only way from a path to a step log: recognise, read, put in order; or say clearly why not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import NoStepsError, ReadError, UsageError
from interlace.steplog import interlace_log, keyvalue, known, registry
from interlace.steplog.assemble import assemble
from interlace.steplog.events import Watched
from interlace.steplog.labelled import Labelled
from interlace.steplog.model import PER_SECOND, FileReader, Options, Parsed, StepLog, Unit, shorten
from interlace.steplog.pattern import compiled
from interlace.steplog.text import CHUNK_BYTES, head_of, no_text, records_of, text_of

if TYPE_CHECKING:
    from interlace.steplog.model import Reader

SEARCHED_BYTES = 64 << 20
"""How far into a log its first record is looked for (a verbose library may print megabytes before it)."""

SHOWN_LINES = 5
OWN = "interlace rank:"
"""What our own wrapper says on a rank's error stream is not the trainer's log."""


def read(path: str | Path, reader: str = "auto", pattern: str | None = None, unit: Unit = "s") -> StepLog:
    """Read the step series out of a log, or out of a folder of per-rank recorder logs or event files.

    `reader` is `auto` or a name of `registry.names()`; a `pattern` (regular expression with named groups, see
    `steplog.pattern`) is its own reader; `unit` is what times without a stated unit are in.
    Raises ReadError when the path cannot be read or holds no step times, UsageError for a wrong argument.
    """
    path = Path(path)
    if unit not in PER_SECOND:
        raise UsageError(f"unit={unit} is not known; choose one of {', '.join(PER_SECOND)}")
    if pattern is not None and reader not in {"auto", "pattern"}:
        raise UsageError(f"pattern= and reader={reader} exclude each other; leave one out")
    options = Options(pattern, unit, named=reader != "auto")
    if os.path.isdir(path):  # noqa: PTH112 (pathlib's raises for a name that is too long)
        return _read_folder(path, reader, options)
    data = head_of(path)
    if pattern is None and (found := registry.recognised_file(path, data, reader)):
        return _assembled(path, "", *found, found[0].read_path(path, options))
    if what := no_text(data):
        raise ReadError(f"{path} is {what}")
    head = text_of(data)
    chosen, why = _chosen(path, head, reader, options)
    labelled = Labelled(records_of(path), head)
    watched = Watched(labelled)
    parsed = chosen.parse(watched, options)
    rows = watched.marked(parsed.rows)
    if chosen not in registry.BARS:  # these have put the drawings of all ranks together
        rows = labelled.ranked(rows)
    if any(row.rank >= 0 for row in rows):
        parsed.remarks.withdraw("rank_unknown")
    return _assembled(path, head, chosen, why, replace(parsed, rows=rows))


def _chosen(path: Path, head: str, reader: str, options: Options) -> tuple[Reader, str]:
    if options.pattern is not None or reader == "pattern":
        compiled(options.pattern)
        return registry.reader_named("pattern"), f"pattern: {options.pattern}, as asked"
    if reader != "auto":
        if isinstance(chosen := registry.reader_named(reader), FileReader) and not chosen.text:
            raise ReadError(f"{path} is not of the format {reader}; leave reader= out to see what it is")
        return chosen, f"{reader}: as asked"
    found = registry.recognised(head, options, bars=False) or _recognised_below(path, options)
    found = found or registry.recognised(head, options)
    if found is None:
        seen = keyvalue.without_unit(head)
        hint = f"`{seen}` states no unit: say reader=keyvalue unit=s (or ms)" if seen else None
        raise _nothing(path, head, "no reader recognises it", hint)
    return found


def _recognised_below(path: Path, options: Options) -> tuple[Reader, str] | None:
    """Look for the first record below a long preamble."""
    with path.open("rb") as file:
        file.seek(CHUNK_BYTES)
        before = b""
        while (at := file.tell()) < SEARCHED_BYTES and (data := file.read(CHUNK_BYTES)):
            # The end of the last block again, so that no record is cut in two.
            found = registry.recognised(text_of(before + data), options, top=False, bars=False)
            if found:
                return found[0], f"{found[1]} (below {at // 1024} KiB of other output)"
            before = data[-4096:]
    return None


def _read_folder(path: Path, reader: str, options: Options) -> StepLog:
    if options.pattern is None and (found := registry.recognised_file(path, b"", reader)):
        return _assembled(path, "", *found, found[0].read_path(path, options))
    if options.pattern is not None or reader not in {"auto", "interlace"}:
        raise ReadError(f"{path} is a folder: only recorder logs and event files are read as one; name the log in it")
    files = sorted(path.glob(interlace_log.FILES))
    if not files and (sentence := known.folder(path)):
        raise ReadError(f"{path}: {sentence}")
    if not files:
        raise ReadError(f"{path} is a folder without recorder logs ({interlace_log.FILES}); name the log file in it")
    logs = []
    for file in files:
        if interlace_log.READER.recognise(text_of(head_of(file))) is None:
            raise ReadError(f"{file} does not begin with the recorder's header; is it a recorder log?")
        logs.append((file.name, interlace_log.READER.parse(records_of(file), options)))
    why = f"interlace: {len(files)} recorder logs ({interlace_log.FILES})"
    return _assembled(path, "", interlace_log.READER, why, interlace_log.merged(logs))


def _assembled(path: Path, head: str, reader: Reader, why: str, parsed: Parsed) -> StepLog:
    for name, sentence in registry.others().broken.items():
        parsed.remarks.note("reader_not_loaded", f"{name}: {sentence}")
    log = assemble(parsed, reader.name, why, getattr(reader, "facts", None))
    if log is not None:
        return log
    said = [*parsed.remarks.all_errors(), *parsed.remarks.notes]
    raise _nothing(path, head, f"no step with a usable time ({why})", *said[:3])


def _nothing(path: Path, head: str, what: str, *more: str | None) -> NoStepsError:
    said = [line for line in head.replace("\r", "\n").split("\n") if line.strip() and not line.startswith(OWN)]
    if not said:
        return NoStepsError(f"{path}: {what}: the trainer wrote nothing there", what)
    shown = tuple(shorten(line, 100) for line in said[:SHOWN_LINES])
    hints = tuple(text for text in (known.text(head), *more) if text)
    lines = [f"{path}: {what}.", *hints, "The log begins:", *(f"  | {line}" for line in shown)]
    lines.append(
        f"Say which reader= it is ({', '.join(registry.names()[1:])}), or give a pattern='...(?P<step_s>[0-9.]+)'."
    )
    return NoStepsError("\n  ".join(lines), what, hints, shown)
