"""The only reader of protocol buffers: the wire format alone, for the few fields that logs need. Pure.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_LARGEST = 3e38


class WireError(ValueError):
    """Bytes that are no message."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message: an int for a varint, raw bytes for everything else.

    Raises WireError where the bytes are no message.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"wire type {kind} at byte {at}")
        if at + size > len(data):
            raise WireError(f"{size} bytes wanted at byte {at}, {len(data) - at} are there")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(_LONGEST_VARINT):
        if at + n >= len(data):
            break
        byte = data[at + n]
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:  # noqa: PLR2004 (the wire format's last-byte mark)
            return value, at + n + 1
    raise WireError(f"a number without end at byte {at}")


def double(raw: int | bytes) -> float:
    """Return a fixed64 field as a float."""
    return float(struct.unpack("<d", _exactly(raw, 8))[0])


def single(raw: int | bytes) -> float:
    """Return a fixed32 field as the shortest number that it stands for: 0.41, not 0.4099999964."""
    value = float(struct.unpack("<f", _exactly(raw, 4))[0])
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if math.isfinite(value) and abs(short) < _LARGEST and struct.pack("<f", short) == raw:
            return short
    return value


def text(raw: int | bytes) -> str:
    """Return a field as text."""
    return raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else ""


def message(raw: int | bytes) -> bytes:
    """Return a field as an embedded message. Raises WireError for a number."""
    if isinstance(raw, int):
        raise WireError("a number where a message should be")
    return raw


def signed(raw: int | bytes) -> int:
    """Return an int64 field with its sign. Raises WireError for anything else."""
    if not isinstance(raw, int):
        raise WireError("bytes where a number should be")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _exactly(raw: int | bytes, size: int) -> bytes:
    if not isinstance(raw, bytes) or len(raw) != size:
        raise WireError(f"{size} bytes expected")
    return raw
