"""Slurm's compressed node lists (`n[01-03,07],login1`) as names, one a node. Pure."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from interlace.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOBODY = frozenset({"", "none assigned", "none", "(null)", "null", "n/a", "unknown"})
"""What stands in place of a list while a job has no nodes."""

MOST_NODES = 65_536
"""More than any machine has: a list that is longer is a typing error, and would fill the memory."""

_TOKEN = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<name>[A-Za-z0-9._-]+)|(?P<comma>,)")


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node list in its order, leading zeros kept; none where Slurm has assigned none.

    Raises ReadError for a list that Slurm would not write.
    """
    text = text.strip()
    if text.lower() in NOBODY:
        return ()
    names: list[str] = []
    for pieces in _groups(text):
        choices = [_numbers(piece[1:-1], text) if piece.startswith("[") else [piece] for piece in pieces]
        if len(names) + math.prod(len(choice) for choice in choices) > MOST_NODES:
            raise _malformed(text, f"it has more than {MOST_NODES} nodes")
        names.extend("".join(parts) for parts in itertools.product(*choices))
    return tuple(names)


def compact(names: Iterable[str]) -> str:
    """Return the names as one list in Slurm's short form, the same for every order of the same names.

    Names that differ in more than the number at their end stand beside each other: `login1,n[1-3]`.
    """
    numbers: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in set(names):
        parts = re.fullmatch(r"(.*?)(\d{1,9})", name)
        if parts is None:
            plain.append(name)
        else:
            numbers.setdefault((parts[1], _width(parts[2])), []).append(int(parts[2]))
    groups = [_group(prefix, width, sorted(found)) for (prefix, width), found in numbers.items()]
    return ",".join(sorted([*plain, *groups]))


def _width(digits: str) -> int:
    """Return how wide numbers are that keep leading zeros; 0 for those that have none."""
    return len(digits) if digits.startswith("0") and len(digits) > 1 else 0


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    """Write `n7`, or `n[1-3,7]`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1 and (not width or len(f"{number}") <= width):
            runs[-1][1] = number
        else:
            runs.append([number, number])
    ends = [(f"{first:0{width}d}", f"{last:0{width}d}") for first, last in runs]
    if len(numbers) == 1:
        return f"{prefix}{ends[0][0]}"
    return f"{prefix}[{','.join(first if first == last else f'{first}-{last}' for first, last in ends)}]"


def _groups(text: str) -> Iterator[list[str]]:
    """Split at the commas outside of brackets; each group is a list of names and `[...]`."""
    group: list[str] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise _malformed(text, f"{text[position:]!r} cannot be read")
        position = token.end()
        if token["comma"] is None:
            group.append(token[0])
            continue
        yield _checked(group, text)
        group = []
    yield _checked(group, text)


def _checked(group: list[str], text: str) -> list[str]:
    if not group:
        raise _malformed(text, "there is nothing beside a comma")
    if group[0].startswith("["):
        raise _malformed(text, f"no name stands before {group[0]!r}")
    return group


def _numbers(ranges: str, text: str) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if ends is None:
            raise _malformed(text, f"{part!r} in brackets is no number and no range")
        first, last = ends[1], ends[2] or ends[1]
        if int(last) < int(first):
            raise _malformed(text, f"the range {part!r} runs backwards")
        if int(last) - int(first) >= MOST_NODES:
            raise _malformed(text, f"it has more than {MOST_NODES} nodes")
        found.extend(f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return found


def _malformed(text: str, why: str) -> ReadError:
    shown = text if len(text) <= 100 else f"{text[:100]}..."  # noqa: PLR2004 (a line of a terminal)
    return ReadError(f"{shown!r} is not a node list of Slurm: {why}; it has the form n1,n2 or n[01-03,07]")
