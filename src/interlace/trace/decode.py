"""A profiler's trace (Chrome format, as torch.profiler writes it) as typed events, in pieces that fit in memory."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from interlace.errors import ReadError
from interlace.trace.repair import closed, repaired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIECE_BYTES = 8 << 20
HEAD = b'{"traceEvents": ['
EVENTS = b'"traceEvents": ['
BETWEEN = b"\n  },"
"""What torch's exporter writes between two events: a line that no event has inside."""


class Args(msgspec.Struct, gc=False):
    """What an event says beside its times; names changed over the years, so nothing here is typed."""

    correlation: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    elements: Any = msgspec.field(default=None, name="In msg nelems")
    dtype: Any = None
    group_size: Any = msgspec.field(default=None, name="Group size")


class Event(msgspec.Struct, gc=False):
    """One event; times in microseconds, on the file's own clock."""

    ph: str = ""
    cat: str | None = None
    name: Any = ""
    ts: float | None = None
    dur: float | None = None
    pid: Any = None
    tid: Any = None
    args: Args | None = None


class Distributed(msgspec.Struct):
    """Which rank of how many the file is from, where it says so."""

    rank: int | None = None
    world_size: int | None = None


class File(msgspec.Struct):
    """A whole file, or a piece of one."""

    events: list[Event] = msgspec.field(name="traceEvents", default_factory=list)
    distributed: Distributed | None = msgspec.field(default=None, name="distributedInfo")


_FILE = msgspec.json.Decoder(File, strict=False)
_LIST = msgspec.json.Decoder(list[Event], strict=False)


def text_of(path: Path) -> bytes:
    """Return a trace's text, unpacked. Raises ReadError naming what is wrong with the file."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return _as_far_as_it_goes(raw)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from error


def _as_far_as_it_goes(raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        return unpacker.decompress(raw)
    except zlib.error:
        return b""


def pieces(text: bytes) -> Iterator[File]:
    """Decode a trace piece by piece. Raises msgspec.DecodeError where one is not JSON."""
    start = text.find(EVENTS)
    if start < 0 or BETWEEN not in text[start : start + PIECE_BYTES]:
        yield File(_LIST.decode(text)) if text.lstrip()[:1] == b"[" else _FILE.decode(text)
        return
    yield _FILE.decode(text[: start + len(EVENTS)] + b"]}")
    begin = start + len(EVENTS)
    while (cut := text.find(BETWEEN, begin + PIECE_BYTES)) >= 0:
        yield _FILE.decode(HEAD + text[begin : cut + len(BETWEEN) - 1] + b"]}")
        begin = cut + len(BETWEEN)
    yield _FILE.decode(HEAD + text[begin:])  # its own end closes the list, and the file


def mended(path: Path, text: bytes) -> tuple[File, str]:
    """Decode a trace that is not JSON as it stands, and say what was done. Raises ReadError where nothing helps."""
    whole = repaired(text)
    cut = closed(whole)
    for mending, remark in ((whole, "repaired"), (cut, "cut off: read up to its last whole event")):
        if mending is None:
            continue
        try:
            return (File(_LIST.decode(mending)) if mending.lstrip()[:1] == b"[" else _FILE.decode(mending)), remark
        except msgspec.DecodeError:
            continue
    raise ReadError(f"{path}: not a profiler trace: no JSON with traceEvents; give what torch.profiler exported")
