"""The only reader of TensorBoard event files as records: TFRecord framing, its checksums, scalar summaries. Pure.

https://www.tensorflow.org/tutorials/load_data/tfrecord, `event.proto` and `summary.proto` of TensorBoard.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog import protobuf
from interlace.steplog.protobuf import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

CHECKED_BYTES = 4096
"""Larger records hold images, graphs, histograms; no scalar is looked for in them."""

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_DT_FLOAT, _DT_DOUBLE = 1, 2


class Scalar(NamedTuple):
    """One value of one tag: its step, and the wall clock (unix seconds) when it was written."""

    tag: str
    step: int
    wall_s: float
    value: float


class BadRecordError(ValueError):
    """A record that is cut (`cut`) or does not match its checksum."""

    def __init__(self, message: str, *, cut: bool) -> None:
        super().__init__(message)
        self.cut = cut


def _table() -> tuple[int, ...]:
    table = []
    for n in range(256):
        crc = n
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE = _table()


def masked_crc32c(data: bytes) -> int:
    """Return the checksum of TFRecord: CRC-32C, rotated and shifted by a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def begins_like_events(head: bytes) -> bool:
    """Whether a file's first record is whole and says which version of event files this is."""
    if len(head) < 12 or struct.unpack("<I", head[8:12])[0] != masked_crc32c(head[:8]):  # noqa: PLR2004 (a record's header)
        return False
    return b"brain.Event:" in head[:256]


def scalars_in(file: BinaryIO) -> Iterator[Scalar]:
    """Yield the scalars of a file in its order. Raises BadRecordError at the first record that cannot be trusted."""
    while True:
        at = file.tell()
        header = file.read(12)
        if not header:
            return
        if len(header) < 12:  # noqa: PLR2004
            raise BadRecordError(f"the record at byte {at} is cut", cut=True)
        size, crc = struct.unpack("<QI", header)
        if crc != masked_crc32c(header[:8]):
            raise BadRecordError(f"the record at byte {at} has a wrong checksum", cut=False)
        data = file.read(size) if size <= CHECKED_BYTES else b""
        if size > CHECKED_BYTES:
            file.seek(size, 1)
        tail = file.read(4)
        if len(tail) < 4 or (data and len(data) < size):  # noqa: PLR2004
            raise BadRecordError(f"the record at byte {at} is cut", cut=True)
        if not data:
            continue
        if struct.unpack("<I", tail)[0] != masked_crc32c(data):
            raise BadRecordError(f"the record at byte {at} has a wrong checksum", cut=False)
        try:
            yield from _scalars(data)
        except WireError as error:
            raise BadRecordError(f"the record at byte {at} is no event ({error})", cut=False) from error


def _scalars(event: bytes) -> Iterator[Scalar]:
    wall_s, step, summaries = 0.0, 0, []
    for number, raw in protobuf.fields(event):
        if number == 1:
            wall_s = protobuf.double(raw)
        elif number == 2:  # noqa: PLR2004 (field numbers of event.proto)
            step = protobuf.signed(raw)
        elif number == 5:  # noqa: PLR2004
            summaries.append(protobuf.message(raw))
    for summary in summaries:
        for number, raw in protobuf.fields(summary):
            if number == 1 and (found := _value(protobuf.message(raw))):
                yield Scalar(found[0], step, wall_s, found[1])


def _value(message: bytes) -> tuple[str, float] | None:
    tag, value = "", None
    for number, raw in protobuf.fields(message):
        if number == 1:
            tag = protobuf.text(raw)
        elif number == 2:  # noqa: PLR2004 (simple_value)
            value = protobuf.single(raw)
        elif number == 8:  # noqa: PLR2004 (tensor, in which newer writers put scalars)
            value = _tensor(protobuf.message(raw))
    return (tag, value) if tag and value is not None else None


def _tensor(message: bytes) -> float | None:
    kind, content = 0, b""
    for number, raw in protobuf.fields(message):
        if number == 1 and isinstance(raw, int):
            kind = raw
        elif number in (4, 5, 6) and isinstance(raw, bytes):  # tensor_content, float_val, double_val
            content = raw
    if kind == _DT_FLOAT and len(content) == 4:  # noqa: PLR2004
        return protobuf.single(content)
    if kind == _DT_DOUBLE and len(content) == 8:  # noqa: PLR2004
        return protobuf.double(content)
    return None
