"""All that comparing given logs comes to, before it is printed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.compare.summary import per_second

if TYPE_CHECKING:
    from interlace.compare.compare import Comparisons
    from interlace.compare.given import Ordered
    from interlace.compare.ladder import Ladder
    from interlace.schema import StepSummary
    from interlace.stats.run import WindowStats


@dataclass(frozen=True)
class Outcome:
    """Everything there is to print, with the baseline first in `arms`; `measured` runs along `ordered.runs`.

    `samples` and `tokens` are what a step of all ranks holds.
    """

    arms: tuple[str, ...]
    ordered: Ordered
    measured: list[WindowStats]
    compared: Comparisons
    window: tuple[int, int]
    window_why: str
    notes: tuple[str, ...] = ()
    payback: tuple[str, ...] = ()
    ladder: Ladder | None = None
    samples: float | None = None
    tokens: float | None = None

    def summaries(self, arm: str) -> list[StepSummary]:
        """Return the step summaries of the runs of one arm, in the order in which they were made."""
        pairs = zip(self.ordered.runs, self.measured, strict=True)
        return [stats.summary for run, stats in pairs if run.arm == arm]

    def per_second(self, arm: str, per_step: float | None) -> float | None:
        """Return the throughput of an arm, stalls included: what a step holds, over the mean step of its runs."""
        means = [one.mean_s for one in self.summaries(arm)]
        return per_second(per_step, statistics.median(means) if means else None)
