"""One row of every table: what the finished runs of one arm come to. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.compare.comparison import Comparison
    from interlace.schema import StepSummary


@dataclass(frozen=True)
class ArmSummary:
    """One row of the table. Times in seconds: medians over runs, `low_s` and `high_s` their range.

    `stat_s` is the number that is compared and `cv` its coefficient of variation over the runs. `runs` finished of
    `planned`; `comparison` is None for the baseline. `max_s` is the slowest step of any run. `peak_mib` is the highest
    peak of any GPU, as nvidia-smi shows it, and holds `idle_mib`, which was in use on that GPU before the run;
    `allocated_mib` is the highest that a rank logged of its own allocator. Throughput comes from the plain mean,
    stalls included, where the workload says what a step holds. `phases_s` are mean seconds a step of each phase that
    the trainer records, on the host, medians over the runs. `change` is what the arm has that the row above (in a
    ladder) or the baseline has not. `measured` is False for a row that is kept without being run.
    """

    name: str
    runs: int
    planned: int
    baseline: bool = False
    commit: str | None = None
    subject: str | None = None
    change: str = ""
    median_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    stat_s: float | None = None
    cv: float | None = None
    mean_s: float | None = None
    p90_s: float | None = None
    max_s: float | None = None
    step1_s: float | None = None
    wall_s: float | None = None
    peak_mib: float | None = None
    idle_mib: float | None = None
    allocated_mib: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    measured: bool = True
    comparison: Comparison | None = None


def summarise_arm(row: ArmSummary, steps: Sequence[StepSummary]) -> ArmSummary:
    """Fill a row with the step times of its runs; without a run they stay None."""
    if not steps:
        return row
    medians = [one.median_s for one in steps]
    first = [one.step1_s for one in steps if one.step1_s is not None]
    return replace(
        row,
        median_s=statistics.median(medians),
        low_s=min(medians),
        high_s=max(medians),
        stat_s=statistics.median(one.stat_s for one in steps),
        cv=_cv([one.stat_s for one in steps]),
        mean_s=statistics.median(one.mean_s for one in steps),
        p90_s=statistics.median(one.p90_s for one in steps),
        max_s=max(one.max_s for one in steps),
        step1_s=statistics.median(first) if first else None,
    )


def per_second(per_step: float | None, step_s: float | None) -> float | None:
    """Return how much of what a step holds passes in a second; None where either is not known."""
    return per_step / step_s if per_step and step_s else None


def _cv(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation, None for one value alone."""
    return statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else None
