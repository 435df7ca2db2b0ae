"""Runs that count, described anew from their step series: the only place of the analysis that reads files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlace.errors import ReadError
from interlace.records import read_steps
from interlace.stats import WindowStats, describe
from interlace.stats.phases import PREFIX, mean_phases
from interlace.stats.run import block_steps
from interlace.steplog.events import EVENTS, event_notes
from interlace.wording import first_of, sharing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.loaded import LoadedSweep
    from interlace.records import Attempt
    from interlace.schema import RunRecord

SHOWN_RUNS = 3
ALLOCATED = "peak_allocated_mib"
"""What trainers call the peak of a rank's allocator when they hand it to the recorder."""
NEEDED = ("step", "rank", "step_s", "end_s", ALLOCATED, f"{PREFIX}*", *EVENTS)


@dataclass(frozen=True)
class Counted:
    """A run that counts: its attempt, its record, what its step series says, and what else went on in its window.

    `phases_s` are mean seconds a step of each phase that the trainer recorded; `ranks` is how many the log holds.
    """

    attempt: Attempt
    record: RunRecord
    seen: WindowStats
    events: tuple[str, ...] = ()
    allocated_mib: float | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    ranks: int = 1


def all_counted(loaded: LoadedSweep) -> tuple[list[Counted], list[str]]:
    """Describe every run that counts; one whose steps do not reach another window is left out, and said."""
    counted: list[Counted] = []
    left_out: list[tuple[str, str]] = []
    for attempt in loaded.used:
        if attempt.record is None:
            continue
        try:
            counted.append(describe_attempt(loaded, attempt, attempt.record))
        except ReadError as error:
            if loaded.other_window is None:
                raise
            left_out.append((attempt.run.id, str(error)))
    return counted, [_left_out(runs, why) for why, runs in sharing(left_out).items()]


def _left_out(runs: Sequence[str], why: str) -> str:
    return f"{first_of(runs, SHOWN_RUNS)} {'is' if len(runs) == 1 else 'are'} left out: {why}"


def describe_attempt(loaded: LoadedSweep, attempt: Attempt, record: RunRecord) -> Counted:
    """Compute a run's statistics anew from its step series, so that a report can be improved afterwards."""
    steps = read_steps(attempt.path, NEEDED)
    config = loaded.sweep.config
    seen = describe(steps, loaded.window, block_steps(config.stats.block, config.measure.period))
    allocated_mib = steps[ALLOCATED].max() if ALLOCATED in steps else math.nan
    return Counted(
        attempt, record, seen, tuple(event_notes(steps, loaded.window)),
        None if math.isnan(allocated_mib) else float(allocated_mib), mean_phases(steps, loaded.window),
        int(steps["rank"].nunique()),
    )  # fmt: skip


def aa_rounds(aa: LoadedSweep) -> list[tuple[float, float]]:
    """Return the run statistics (s) of every complete round of a sweep of two identical arms, baseline first."""
    counted = [describe_attempt(aa, attempt, attempt.record) for attempt in aa.used if attempt.record is not None]
    by_run = {(one.attempt.run.round, one.attempt.run.arm): one.seen.summary.stat_s for one in counted}
    first, second = (arm.slug for arm in aa.sweep.arms)
    rounds = sorted({number for number, _ in by_run if number > 0})
    return [
        (by_run[number, first], by_run[number, second])
        for number in rounds
        if (number, first) in by_run and (number, second) in by_run
    ]
