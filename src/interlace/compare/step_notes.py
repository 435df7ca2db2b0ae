"""What has to be said about single given logs, and about the steps of each arm. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.stats.run import slow_steps
from interlace.stats.warmup import check_warm_up
from interlace.steplog.events import event_notes
from interlace.wording import first_of, sharing_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from interlace.compare.given import GivenRun
    from interlace.stats.run import WindowStats

    Floats = NDArray[np.float64]

SHOWN = 5
MUCH_SHORTER = 0.5


def log_notes(runs: Sequence[GivenRun], measured: Sequence[WindowStats]) -> list[str]:
    """Write notes on single logs (one line for all that share it), and on arms whose steps still settle."""
    series = [stats.inside for stats in measured]
    said = sharing_kind(
        (run.name, note)
        for run, stats, (step, step_s) in zip(runs, measured, series, strict=True)
        for note in [*stats.notes, *run.log.notes, *run.log.errors, *_own_notes(run, stats, step, step_s)]
    )
    notes = [f"{_names(names, len(runs))}: {note}" for note, names in said.items()]
    return [
        *_short(runs),
        *_copies(runs, [times for _, times in series]),
        *settling_notes(_by_arm(runs, series)),
        *notes,
    ]


def _own_notes(run: GivenRun, stats: WindowStats, step: Floats, step_s: Floats) -> list[str]:
    window = (stats.summary.first, stats.summary.last)
    return [*slow_notes(step, step_s), *event_notes(run.log.frame, window)]


def slow_notes(step: Floats, step_s: Floats) -> list[str]:
    """Say which steps of one run stand out, as a recompilation does."""
    slow = [str(number) for number in slow_steps(step, step_s)]
    if not slow:
        return []
    return [f"steps over 5 times the median, kept (recompiled?): {first_of(slow, SHOWN)}"]


def _names(names: list[str], of: int) -> str:
    if len(names) == of > 1:
        return "all logs"
    return first_of(names, SHOWN)


def _short(runs: Sequence[GivenRun]) -> list[str]:
    """Say which logs end long before the longest: a run that was cut is no run."""
    longest = max(run.last for run in runs)
    return [
        f"{run.name} ends at step {run.last}, the longest at {longest}: was the run cut? then leave it out"
        for run in runs
        if run.last < MUCH_SHORTER * longest
    ]


def _copies(runs: Sequence[GivenRun], times: Sequence[Floats]) -> list[str]:
    """Say which logs hold the very same times, which two runs never do."""
    seen: dict[bytes, str] = {}
    notes = []
    for run, step_s in zip(runs, times, strict=True):
        if step_s.min() == step_s.max():
            continue
        first = seen.setdefault(step_s.tobytes(), run.name)
        if first != run.name:
            notes.append(f"{first} and {run.name} hold the same step times: copies of one run?")
    return notes


def _by_arm(runs: Sequence[GivenRun], series: Sequence[tuple[Floats, Floats]]) -> dict[str, list[Floats]]:
    by_arm: dict[str, list[Floats]] = {}
    for run, (_, step_s) in zip(runs, series, strict=True):
        by_arm.setdefault(run.arm, []).append(step_s)
    return by_arm


def settling_notes(by_arm: Mapping[str, Sequence[Floats]]) -> list[str]:
    """Say which arms' step times still move inside the window, over all their runs (methodology 4.9)."""
    found = {arm: check_warm_up(times) for arm, times in by_arm.items()}
    moving = [(arm, one.change) for arm, one in found.items() if one is not None and one.moving]
    only = " (this arm alone: the ratio is biased)" if 0 < len(moving) < len(found) else ""
    return [
        f"step time still moving inside the window ({100.0 * change:+.1f} % from first to last blocks, "
        f"arm {arm}){only}: leave out more steps (a later window)"
        for arm, change in moving
    ]
