"""The only reader of pickles: plain lists, dicts, tuples, numbers, strings and None; anything else is refused unopened.

A pickle is a program (https://docs.python.org/3/library/pickle.html): it can call any function, and a few bytes of it
can ask for all memory. So it is first read as a list of instructions, of which only those that build plain data may
be there; only then is it loaded, by an unpickler that would still refuse every global name.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import TYPE_CHECKING, Any

from interlace.errors import ReadError

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_BYTES = 256 << 20
PLAIN = frozenset(
    (
        *("PROTO", "FRAME", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE"),
        *("INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
        *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"),
    )
)
"""The instructions that build plain data (names as in `pickletools`)."""


class ForbiddenError(Exception):
    """A pickle asks for something that is no plain data."""


class PlainUnpickler(pickle.Unpickler):
    """The second wall: any global name is refused before it is imported."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse. Raises ForbiddenError."""
        raise ForbiddenError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        """Refuse. Raises ForbiddenError."""
        raise ForbiddenError(f"persistent id {pid!r}")


def load_plain(path: Path) -> Any:
    """Return what a pickle of plain data holds. Raises ReadError where it holds anything else, or is broken."""
    if path.stat().st_size > LARGEST_BYTES:
        raise ReadError(f"{path} has {path.stat().st_size >> 20} MiB, too much for a list of step times")
    data = path.read_bytes()
    try:
        _check(data)
        return PlainUnpickler(io.BytesIO(data)).load()
    except ForbiddenError as error:
        tensor = "torch" in str(error)
        hint = (
            "it holds tensors: with print_every above 1 the losses are never read back; run with print_every=1"
            if tensor
            else "only plain lists, dicts, numbers and strings are read"
        )
        raise ReadError(f"{path}: refused, the pickle would load {error}; {hint}") from error
    except Exception as error:  # a broken pickle may fail in any way
        raise ReadError(f"{path}: the pickle is broken or cut ({type(error).__name__}: {error})") from error


def _check(data: bytes) -> None:
    """Raise ForbiddenError at the first instruction that is not of plain data, ValueError for a number out of place."""
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
        if opcode.name == "GLOBAL":
            raise ForbiddenError(str(argument).replace(" ", ".", 1))
        if opcode.name == "STACK_GLOBAL":
            raise ForbiddenError(".".join(strings[-2:]))
        if opcode.name not in PLAIN:
            raise ForbiddenError(f"something by the instruction {opcode.name}")
        if opcode.name.endswith("PUT") and isinstance(argument, int) and argument > len(data):
            raise ValueError(f"memo {argument} in {len(data)} bytes")
        if isinstance(argument, str):
            strings.append(argument)
            del strings[:-2]
