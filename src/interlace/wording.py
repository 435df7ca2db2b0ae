"""Wording that messages of every layer share. Pure, imports nothing."""

from __future__ import annotations

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


def first_of(names: Sequence[str], shown: int) -> str:
    """Name the first few of many, as in `a, b, c and 4 more`."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
