r"""The only place that turns bytes of a log into records: streamed, bounded, stripped of terminal control.

A record ends at \n, \r\n or a lone \r (progress bars). Undecodable bytes are replaced, never fatal. A record
longer than `LONG_CHARS` is handed on in pieces, cut at a space, so memory stays bounded for any file.
"""

from __future__ import annotations

import codecs
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from interlace.errors import NoStepsError, ReadError
from interlace.steplog.model import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_BYTES = 1 << 18
LONG_CHARS = 1 << 16
LOST = "\x00"
"""What stands where bytes of a record were lost: a file system that lost power fills them with NULs."""

_END = re.compile(r"\r*\n|\r")
_MAGIC = {
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"\x28\xb5\x2f\xfd": "zstandard data",
    b"\x80\x04\x95": "a pickle",
    b"\x80\x02": "a pickle",
    b"PK\x03\x04": "a zip file",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NULS = re.compile(r"^\x00+|(?<=\x00)\x00+", re.MULTILINE)
_NUL_BYTES = re.compile(rb"\x00{4,}")
_SAMPLE_BYTES = 8192

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS and kin
    r"|\x1b[()*+][A-Za-z0-9]"  # character sets
    r"|\x1b\[[0-?]*[ -/]*$"  # a sequence cut by the end of the record
    r"|\x1b[@-Z\\-_=>78c]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)


class Record(NamedTuple):
    r"""A piece of a log between two terminators.

    `line` counts physical lines (\n) from 1. `ended`: a terminator followed (False: end of file, or the piece
    goes on). `goes_on`: the next record is the rest of this one.
    """

    text: str
    line: int
    ended: bool = True
    goes_on: bool = False


def strip_control(text: str) -> str:
    """Remove ANSI CSI and OSC sequences, a byte-order mark and NULs in front; of NULs within, one stays (`LOST`)."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if LOST in text:
        text = _NULS.sub("", text)
    return text.replace("\ufeff", "")


class Splitter:
    """Turns chunks of bytes into records, keeping only the unfinished one between calls."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._line = 1

    def feed(self, data: bytes) -> Iterator[Record]:
        """Yield the records that `data` completes."""
        yield from self._split(self._decoder.decode(data), last=False)

    def finish(self) -> Iterator[Record]:
        """Yield what stands behind the last terminator, if anything does."""
        yield from self._split(self._decoder.decode(b"", final=True), last=True)
        if self._rest:
            rest, self._rest = self._rest, ""
            yield Record(strip_control(rest), self._line, ended=False)

    def _split(self, text: str, *, last: bool) -> Iterator[Record]:
        text = self._rest + text
        start = 0
        for match in _END.finditer(text):
            if match.end() == len(text) and not last and text[-1] == "\r":
                break  # its \n may be in the next chunk
            yield Record(strip_control(text[start : match.start()]), self._line)
            self._line += match.group().endswith("\n")
            start = match.end()
        self._rest = text[start:]
        while len(self._rest) > LONG_CHARS and self._rest[-1] != "\r":
            cut = self._rest.rfind(" ", 0, LONG_CHARS) + 1 or LONG_CHARS
            yield Record(strip_control(self._rest[:cut]), self._line, ended=False, goes_on=True)
            self._rest = self._rest[cut:]


def records_of(path: Path) -> Iterator[Record]:
    """Yield all records of a file, reading it in chunks."""
    splitter = Splitter()
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            yield from splitter.feed(data)
    yield from splitter.finish()


def head_of(path: Path) -> bytes:
    """Return the first `CHUNK_BYTES` of a file.

    Raises ReadError where there is no such file, where it is a folder, a pipe or a device, or is empty.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ReadError(f"{path} is a pipe or a device, which cannot be read twice; write the log to a file first")
        with path.open("rb") as file:
            head = file.read(CHUNK_BYTES)
    except FileNotFoundError:
        raise ReadError(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise ReadError(f"{path} is a folder; name the log file in it") from None
    except PermissionError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ReadError(f"{shorten(str(path))}: cannot be read ({why}); check the path") from error
    if not head.strip():
        raise NoStepsError(f"{path} is empty: the trainer wrote nothing, or wrote to another file", "empty")
    return head


def text_of(data: bytes) -> str:
    """Decode and clean one block, its records joined by newlines (for recognition, not for reading)."""
    return strip_control(data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n"))


def no_text(head: bytes) -> str | None:
    """Say what a file is by its first bytes, and what to do, where it is no text."""
    if head.startswith(_UTF16):
        return "UTF-16 text; convert it (`iconv -f UTF-16 -t UTF-8`)"
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            return f"{what}, not a text log; unpack it or name the log itself"
    # A log whose file was emptied while it was written begins with NULs, one of a machine that lost power has some.
    plain = _NUL_BYTES.sub(b"\x00", head)
    sample = plain.lstrip(b"\x00")[:_SAMPLE_BYTES]
    if not sample:
        return "nothing but NUL bytes, as after a full disk or lost power"
    odd = sum(sample.count(bytes([c])) for c in (*range(7), *range(14, 27), 28, 29, 30, 31))
    if odd <= max(2, len(sample) // 20):
        return None
    return "binary data, not a text log; unpack it or name the log itself"
