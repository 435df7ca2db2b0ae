"""Rows of validation that nothing marks but their keys: behind a step's own row, `val_loss` and no `loss`. Pure."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from interlace.steplog.keys import NOT_TRAINING, normal

if TYPE_CHECKING:
    from interlace.steplog.model import Remarks, Row

_TRAINING = ("", "train_", "train/", "train.", "training_", "training/")


def without_validation(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Leave out rows that say again a step of the row before, with `val_loss` where training rows have `loss`.

    A step that stands once is a step, whatever its row holds; so is every row of a log whose times are a clock's.
    """
    logged = {key for row in rows for key in row.extra or ()}
    trained = {key: [f"{word}{name}" for word in _TRAINING if f"{word}{name}" in logged]
               for key in logged if (name := _validated(key))}  # fmt: skip
    trained = {key: names for key, names in trained.items() if names}
    if not trained:
        return rows
    kept: list[Row] = []
    last: dict[int, int | None] = {}
    for row in rows:
        again = row.step is not None and last.get(row.rank) == row.step
        if again and math.isnan(row.end_s) and _validates(row, trained):
            continue
        kept.append(row)
        last[row.rank] = row.step
    if len(kept) < len(rows):
        shown = ", ".join(f"`{key}` without `{trained[key][0]}`" for key in sorted(trained)[:2])
        remarks.note("validation_rows", f"{len(rows) - len(kept)} rows of validation ({shown}) were left out")
    return kept


def _validates(row: Row, trained: dict[str, list[str]]) -> bool:
    extra = row.extra or {}
    return any(key in extra and not any(name in extra for name in names) for key, names in trained.items())


@lru_cache(maxsize=4096)
def _validated(key: str) -> str:
    """Return `loss` of `val_loss`, `eval/loss`, `validation.loss`, nothing of a key that does not begin so."""
    word, _, name = re.sub(r"[/.]", "_", normal(key)).partition("_")
    return name if word in NOT_TRAINING else ""
