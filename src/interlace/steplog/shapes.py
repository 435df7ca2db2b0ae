"""The only judge of what records look like: one that reads like no other, where ranks write into each other. Pure.

A record whose middle another rank's rest has filled can still match: its begin is of one, its time of another.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL = 3
_FEW = 0.2
_SHORT = 120
_MOST_BETWEEN = 2000
_NUMBERS = re.compile(r"(?:[\d\s.,:+%()-]|(?<=\d)e(?=[-+\d])|nan|inf)+", re.IGNORECASE)


_NO_DIGITS = str.maketrans("", "", "0123456789.,+-")
"""A first, cheap look; only at the end, and only where it matters, looks are compared number by number."""


class _Shape(NamedTuple):
    """One look of records: how often, and the first of them with its row."""

    times: int
    row: int
    text: str
    piece: str
    width: int


class Shapes:
    """Counts what records look like without their numbers; one of each look is kept."""

    def __init__(self) -> None:
        self._shapes: dict[int, _Shape] = {}
        self._between: list[str] = []

    def seen(self, text: str, row: int, piece: str, width: int = 0) -> None:
        """Take in the text of a record, which row it becomes, what is shown of it, and how wide its time is printed."""
        shape = hash((text.translate(_NO_DIGITS), width))
        before = self._shapes.get(shape)
        if before:
            self._shapes[shape] = before._replace(times=before.times + 1)
        else:
            self._shapes[shape] = _Shape(1, row, text, piece, width)

    def between(self, text: str) -> None:
        """Take in a line that is no record; only some short ones are kept."""
        if len(text) < _SHORT and len(self._between) < _MOST_BETWEEN and text.strip():
            self._between.append(text)

    def rests(self) -> bool:
        """Whether single lines between the records are what a usual record ends with: it was cut in two."""
        counts = Counter[str]()
        for shape in self._shapes.values():
            counts[_bare(shape.text)] += shape.times
        usual = [bare for bare, times in counts.items() if times >= _USUAL]
        rests = sum(any(one.endswith(rest) for one in usual) for rest in map(_bare, self._between)) if usual else 0
        return 0 < rests <= _FEW * counts.total()

    def odd(self) -> Iterator[tuple[int, str]]:
        """Yield row and text of each record that reads like no other, where some look is usual."""
        looks = {shape: (_bare(shape.text), shape.width) for shape in self._shapes.values()}
        counts = Counter[tuple[str, int]]()
        for shape, look in looks.items():
            counts[look] += shape.times
        if max(counts.values(), default=0) >= _USUAL:
            yield from ((shape.row, shape.piece) for shape, look in looks.items() if counts[look] == 1)


def _bare(text: str) -> str:
    return _NUMBERS.sub("#", text)
