"""The only judge of what records look like: one that reads like no other, where ranks write into each other. Pure.

A record whose middle another rank's rest has filled can still match: its begin is of one, its time of another.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

WHY_ODD = "it reads like no other record, another rank may have written into it"
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
        """Take in the text of a record, which row it becomes, what is shown of it, and its time's decimals."""
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
        """Yield row and text of each record that reads like no other, where some look is usual.

        A time with fewer decimals is another look only where all others have the same number of them: how many
        digits a whole number has says how slow a step was, and must not decide whether it counts.
        """
        decimals = {width: self._times(width) for width in {s.width for s in self._shapes.values() if s.width > 0}}
        usual = max(decimals, key=decimals.__getitem__, default=0)
        uniform = sum(times for width, times in decimals.items() if width != usual) <= 1
        looks = {s: (_bare(s.text), uniform and 0 < s.width < usual) for s in self._shapes.values()}
        counts = Counter[tuple[str, bool]]()
        for shape, look in looks.items():
            counts[look] += shape.times
        if max(counts.values(), default=0) >= _USUAL:
            yield from ((shape.row, shape.piece) for shape, look in looks.items() if counts[look] == 1)

    def _times(self, width: int) -> int:
        return sum(shape.times for shape in self._shapes.values() if shape.width == width)


def _bare(text: str) -> str:
    return _NUMBERS.sub("#", text)
