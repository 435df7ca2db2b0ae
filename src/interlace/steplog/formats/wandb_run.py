"""Reader `wandb`: the history of an offline W&B run, `run-*.wandb`, or its folder `offline-run-*`.

(An exported history, JSON lines or CSV, is read by `jsonl` and `csv`, with the same keys.)

Clock: that of the trainer for a key that states a step's time (`train/step_time_s` ...); without one `_runtime`,
the wall clock since the run's start, whose differences are means over the steps between, everything included.
Includes: what the trainer's own clock includes, or everything between two calls of log().
Ranks: the process that logs, mostly rank 0; the file does not say.
Resolution: that of a float; of `_runtime` in old versions whole seconds.
Lost: nothing of what was logged; `_step` counts calls of log(), so a `global_step` is used where there is one.
A file cut by a kill is read up to its last whole record.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from interlace.steplog import protobuf
from interlace.steplog.facts import facts_in
from interlace.steplog.fields import Rows, flat
from interlace.steplog.model import FileReader, Options, Parsed, Remarks
from interlace.steplog.protobuf import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FACTS = facts_in(__doc__)

FILES = "run-*.wandb"
HEADER = b":W&B\xe1\xbe\x00"
BLOCK_BYTES = 1 << 15
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HEAD = struct.Struct("<IHB")


class Piece(NamedTuple):
    """One message of the file, or why nothing more can be read (`wrong`; `cut`: the file simply ends)."""

    data: bytes
    at: int
    wrong: str | None = None
    cut: bool = False


class WandbReader(FileReader):
    """The reader of a file, or of the folder of an offline run."""

    name = "wandb"
    facts = FACTS

    def recognise_path(self, path: Path, head: bytes) -> str | None:
        """Recognise the file's mark, or a folder with one such file."""
        if head.startswith(HEADER[:4]):
            return "the file of an offline W&B run"
        if not head and path.is_dir() and len(list(path.glob(FILES))) == 1:
            return f"the folder of an offline W&B run ({FILES})"
        return None

    def read_path(self, path: Path, options: Options) -> Parsed:
        """Read the history, row by row."""
        file = next(path.glob(FILES)) if path.is_dir() else path
        remarks = Remarks()
        rows = Rows(options, remarks)
        for n, piece in enumerate(_pieces(file.read_bytes()), 1):
            if piece.wrong and piece.cut:
                remarks.note("truncated_tail", f"{file.name}: {piece.wrong}; what stands before it was read")
            elif piece.wrong:
                remarks.error("corrupt_record", n, file.name, f"{piece.wrong}; nothing behind it was read")
            elif history := _history(piece, remarks):
                rows.add(flat(history), n, json.dumps(history))
        remarks.note("rank_unknown", "the file does not say which rank logged, nor whether it is the slowest")
        return rows.parsed()


def _pieces(data: bytes) -> Iterator[Piece]:
    """Yield the messages: LevelDB's log format in blocks of 32 KiB, with the plain CRC-32 (W&B's own choice).

    https://github.com/google/leveldb/blob/main/doc/log_format.md
    """
    at, message = len(HEADER), b""
    while at < len(data):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < _HEAD.size:
            at += left
            continue
        if at + _HEAD.size > len(data):
            yield Piece(b"", at, f"the record at byte {at} is cut", cut=True)
            return
        crc, size, kind = _HEAD.unpack_from(data, at)
        if (crc, size, kind) == (0, 0, 0):
            at += left  # the rest of a block that was never written
            continue
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if len(body) < size:
            yield Piece(b"", at, f"the record at byte {at} is cut", cut=True)
            return
        if crc != zlib.crc32(bytes([kind]) + body) or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            yield Piece(b"", at, f"the record at byte {at} has a wrong checksum")
            return
        message = body if kind in (_FULL, _FIRST) else message + body
        if kind in (_FULL, _LAST):
            yield Piece(message, at)
        at += _HEAD.size + size


def _history(piece: Piece, remarks: Remarks) -> dict[str, Any] | None:
    """Return the values of one call of log(), None for a message of another kind."""
    try:
        for number, raw in protobuf.fields(piece.data):
            if number == 2:  # noqa: PLR2004 (Record.history)
                return _items(protobuf.message(raw))
    except (WireError, ValueError) as error:
        remarks.error("corrupt_record", piece.at, f"byte {piece.at}", f"a record is not understood ({error})")
    return None


def _items(history: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, raw in protobuf.fields(history):
        if number == 1:
            keys, value = [], ""
            for inner, content in protobuf.fields(protobuf.message(raw)):
                if inner in (1, 2):  # key, nested_key
                    keys.append(protobuf.text(content))
                elif inner == 16:  # noqa: PLR2004 (value_json)
                    value = protobuf.text(content)
            found[".".join(keys)] = json.loads(value) if value else None
        elif number == 2:  # noqa: PLR2004 (HistoryRecord.step)
            for inner, content in protobuf.fields(protobuf.message(raw)):
                if inner == 1:
                    found.setdefault("_step", protobuf.signed(content))
    return found


READER = WandbReader()
