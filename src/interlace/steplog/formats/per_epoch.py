"""The only step arithmetic of formats that count within epochs: epoch and place in it give the global step. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.steplog.lines import LineFormat, LineReader, whole

if TYPE_CHECKING:
    from collections.abc import Mapping


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
