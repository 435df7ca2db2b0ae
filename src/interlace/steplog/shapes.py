"""The only judge of what records look like: one that reads like no other, where ranks write into each other. Pure.

A record whose middle another rank's rest has filled can still match: its begin is of one, its time of another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL = 3
_FEW = 0.2
_SHORT = 120
_MOST_BETWEEN = 2000
_NUMBERS = re.compile(r"(?:[\d\s.,:+%()-]|(?<=\d)e(?=[-+\d])|nan|inf)+", re.IGNORECASE)


class _Shape(NamedTuple):
    """One look of records: how often, and the first of them with its row."""

    times: int
    row: int
    piece: str


class Shapes:
    """Counts what records look like without their numbers; one of each look is kept."""

    def __init__(self) -> None:
        self._shapes: dict[int, _Shape] = {}
        self._between: list[str] = []

    def seen(self, text: str, row: int, piece: str, width: int = 0) -> None:
        """Take in the text of a record, which row it becomes, what is shown of it, and how wide its time is printed."""
        shape = hash((_bare(text), width))
        before = self._shapes.get(shape)
        self._shapes[shape] = before._replace(times=before.times + 1) if before else _Shape(1, row, piece)

    def between(self, text: str) -> None:
        """Take in a line that is no record; only some short ones are kept."""
        if len(text) < _SHORT and len(self._between) < _MOST_BETWEEN and text.strip():
            self._between.append(text)

    def rests(self) -> bool:
        """Whether single lines between the records are what a usual record ends with: it was cut in two."""
        usual = [_bare(shape.piece) for shape in self._shapes.values() if shape.times >= _USUAL]
        rests = sum(any(one.endswith(rest) for one in usual) for rest in map(_bare, self._between)) if usual else 0
        return 0 < rests <= _FEW * sum(shape.times for shape in self._shapes.values())

    def odd(self) -> Iterator[tuple[int, str]]:
        """Yield row and text of each record that reads like no other, where some look is usual."""
        shapes = self._shapes.values()
        if max((shape.times for shape in shapes), default=0) >= _USUAL:
            yield from ((shape.row, shape.piece) for shape in shapes if shape.times == 1)


def _bare(text: str) -> str:
    return _NUMBERS.sub("#", text)
