"""Rows of validation that nothing marks but their keys: `val_loss` stands there, and `loss` does not. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from interlace.steplog.keys import NOT_TRAINING, normal

if TYPE_CHECKING:
    from interlace.steplog.model import Remarks, Row


def without_validation(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Leave out rows with a value of validation that lack one which every other row has.

    A training row that a value of validation was added to lacks none, and stays.
    """
    validation = {key for row in rows for key in row.extra or () if _is_of_validation(key)}
    plain = [set(row.extra or ()) for row in rows if validation.isdisjoint(row.extra or ())] if validation else []
    always = set.intersection(*plain) if plain else set()
    if not always:
        return rows
    kept = [row for row in rows if validation.isdisjoint(row.extra or ()) or always <= set(row.extra or ())]
    if len(kept) < len(rows):
        lacks = ", ".join(f"`{key}`" for key in sorted(always)[:3])
        left = f"{len(rows) - len(kept)} rows with values of validation and without {lacks} were left out"
        remarks.note("validation_rows", left)
    return kept


@lru_cache(maxsize=4096)
def _is_of_validation(key: str) -> bool:
    return not NOT_TRAINING.isdisjoint(re.split(r"[/._]", normal(key)))
