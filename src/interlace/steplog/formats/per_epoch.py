"""The only step arithmetic of formats that count within epochs: epoch and place in it give the global step. Pure.

Where the log does not say how long an epoch is, its last record stands for its end.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from interlace.steplog.lines import LineFormat, LineReader, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.steplog.model import Remarks, Row

EPOCH = "epoch"


class PerEpochReader(LineReader):
    """A format with the groups `epoch` (the first is `first_epoch`), `n` and `of`, or with a global `step`."""

    def __init__(self, form: LineFormat, first_epoch: int) -> None:
        super().__init__(form)
        self._first = first_epoch

    def step_of(self, fields: Mapping[str, str]) -> int | None:
        """Return the global step as the log counts it: from 0 where `n` does."""
        if "step" in fields:
            return whole(fields["step"])
        epoch, n, of = (whole(fields.get(name)) for name in ("epoch", "n", "of"))
        if epoch is None or n is None or of is None:
            return None
        return (epoch - self._first) * of + n


def counted_on(rows: Sequence[Row], remarks: Remarks) -> list[Row]:
    """Count steps on from epoch to epoch (the column `epoch`) where their counter starts again with each."""
    places: dict[float, list[int]] = {}
    for row in rows:
        if row.extra and EPOCH in row.extra and row.step is not None:
            places.setdefault(row.extra[EPOCH], []).append(row.step)
    epochs = sorted(places)
    if all(min(places[b]) > max(places[a]) for a, b in pairwise(epochs)):
        return list(rows)
    remarks.note(
        "counted_on", "steps are counted on from the last record of the epoch before: the log counts anew in each"
    )
    done = dict(zip(epochs, accumulate([0, *(max(places[epoch]) for epoch in epochs)]), strict=False))
    return [_after(row, done) for row in rows]


def _after(row: Row, done: Mapping[float, int]) -> Row:
    before = done.get((row.extra or {}).get(EPOCH, math.nan), 0)
    return row if row.step is None else row._replace(step=row.step + before)
