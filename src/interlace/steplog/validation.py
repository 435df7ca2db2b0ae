"""Rows of validation that nothing marks but their keys: a step once more, with a `val_loss` that no step has. Pure."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from interlace.steplog.keys import NOT_TRAINING, normal

if TYPE_CHECKING:
    from interlace.steplog.model import Remarks, Row

_WORDS = NOT_TRAINING - {"dev"}  # a device, more often


def without_validation(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Leave out rows that say the step of the row before again, with a key of validation that no other row has.

    A step that stands once is a step, whatever its row holds; so is every row of a log whose times are a clock's, and
    every row where others say a step again, too, or half of all do: these are ranks.
    """
    again = _again(rows)
    repeats = [row for row, is_repeat in zip(rows, again, strict=True) if is_repeat]
    steps = [row for row, is_repeat in zip(rows, again, strict=True) if not is_repeat]
    if not repeats or 2 * len(repeats) > len(steps):
        return rows
    validation = {key for row in repeats for key in row.extra or () if _is_of_validation(key)}
    validation -= {key for row in steps for key in row.extra or ()}
    if any(validation.isdisjoint(row.extra or ()) for row in repeats):
        return rows
    shown = ", ".join(f"`{key}`" for key in sorted(validation)[:2])
    remarks.note("validation_rows", f"{len(repeats)} rows that say a step again, with {shown}, were left out")
    return steps


def _again(rows: list[Row]) -> list[bool]:
    """Say of each row whether it has the step of its rank's row before, and a time that is no clock's."""
    last: dict[int, int | None] = {}
    found = []
    for row in rows:
        found.append(row.step is not None and last.get(row.rank) == row.step and math.isnan(row.end_s))
        last[row.rank] = row.step
    return found


@lru_cache(maxsize=4096)
def _is_of_validation(key: str) -> bool:
    """Whether a key begins as `val_loss`, `eval/accuracy`, `validation.f1` do."""
    word, _, name = re.sub(r"[/.]", "_", normal(key)).partition("_")
    return word in _WORDS and name != ""
