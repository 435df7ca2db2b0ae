"""All that comparing given logs comes to, before it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlace.compare.compare import Comparisons
    from interlace.compare.given import Ordered
    from interlace.compare.ladder import Ladder
    from interlace.schema import StepSummary
    from interlace.stats.run import WindowStats


@dataclass(frozen=True)
class Outcome:
    """Everything there is to print, with the baseline first in `arms`; `measured` runs along `ordered.runs`."""

    arms: tuple[str, ...]
    ordered: Ordered
    measured: list[WindowStats]
    compared: Comparisons
    window: tuple[int, int]
    window_why: str
    notes: tuple[str, ...] = ()
    payback: tuple[str, ...] = ()
    ladder: Ladder | None = None

    def summaries(self, arm: str) -> list[StepSummary]:
        """Return the step summaries of the runs of one arm, in the order in which they were made."""
        pairs = zip(self.ordered.runs, self.measured, strict=True)
        return [stats.summary for run, stats in pairs if run.arm == arm]
