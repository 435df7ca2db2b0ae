"""Wording that messages of every layer share. Pure, imports nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def printable(text: str, most: int = 200) -> str:
    """Make foreign text safe to print in one line: control characters and what no terminal shows become `?`."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:most]


def variable(name: str, value: str | None) -> str:
    """Word what is done to an environment variable: `NAME=value`, or that it is removed."""
    return f"{name} removed" if value is None else f"{name}={value}"


def sharing(told: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Turn (who, text) pairs into text -> all who share it, both in the order of their coming."""
    shared: dict[str, list[str]] = {}
    for who, text in told:
        shared.setdefault(text, []).append(who)
    return shared


_COUNTED = re.compile(r"(?P<kind>.*?)(?: \(lines? [^)]*\))?: (?P<count>\d+) in all")


def sharing_kind(told: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Turn (who, text) pairs into text -> all who share it, as `sharing` does; counts that differ become a range.

    Such a text ends in `: 13 in all`; the lines that it names before that are left out where it stands for several.
    """
    pairs = [(who, text, _COUNTED.fullmatch(text)) for who, text in told]
    counts: dict[str, list[int]] = {}
    for _, _, found in pairs:
        if found:
            counts.setdefault(found["kind"], []).append(int(found["count"]))
    return sharing(
        (who, (_ranged(found["kind"], counts[found["kind"]]) if found else None) or text) for who, text, found in pairs
    )


def _ranged(kind: str, counts: Sequence[int]) -> str | None:
    """Word a count of several texts; None where there is one text, which says more by itself."""
    least, most = min(counts), max(counts)
    if len(counts) == 1:
        return None
    return f"{kind}: {least}{f' to {most}' if most > least else ''} each"


def first_of(names: Sequence[str], shown: int) -> str:
    """Name the first few of many, as in `a, b, c and 4 more`."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
