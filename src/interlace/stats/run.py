"""The run statistic: the only place where the step series of one run becomes the number that is compared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from interlace.errors import ConfigError, ReadError
from interlace.schema import StepSummary
from interlace.stats.resolution import quantum, resolution_bound
from interlace.stats.series import Series, series_of, usable_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from interlace.stats.series import Arrays, Clock

    Floats = NDArray[np.float64]

TRIM = 0.2
FEW_STEPS = 20
STALL_GAP = 1.1
SLOW_STEP = 5.0
_NONE: Floats = np.empty(0)
BIMODAL = 0.01
GAP = 0.5
"""Of the middle half, the middle tenth takes up a fifth where times have one peak, nearly all where they have two."""


@dataclass(frozen=True)
class WindowStats:
    """A run's summary and what must be known to judge it.

    `inside` are the step numbers and step times (s, of the slowest rank) of the window.
    """

    summary: StepSummary
    notes: tuple[str, ...] = ()
    inside: tuple[Floats, Floats] = field(default=(_NONE, _NONE), compare=False, repr=False)


def summarise(steps: pd.DataFrame | Arrays, window: Sequence[int], block: int = 10) -> StepSummary:
    """Summary of one run over `window` (first and last step, both included). See `describe` for the rest."""
    return describe(steps, window, block).summary


def describe(steps: pd.DataFrame | Arrays, window: Sequence[int], block: int = 10) -> WindowStats:
    """Describe one run over `window` (first and last step, both included).

    `steps` has the columns (or is the arrays) step, step_s in seconds and, where the log has a cumulative
    clock, end_s in seconds; with a column rank, one row a step and rank. The slowest rank counts: of each
    step for the median and its kin, of each block for the statistic where the ranks have clocks. Raises
    ConfigError for a window that is none, ReadError for one that the run's steps do not fill. Values that are
    not finite, or negative, are left out and noted.
    """
    first, last = check_window(window)
    if block < 1:
        raise ConfigError(f"block={block}: a block holds at least one step")
    series, notes = series_of(steps)
    _check_reach(series, first, last)
    inside = (series.step >= first) & (series.step <= last)
    if not inside.any():
        raise ReadError(f"no step between {first} and {last} was recorded: choose another window")
    clock, clock_notes = usable_clock(series, inside, block)
    part = Series(series.step[inside], series.step_s[inside], series.rank_step_s[inside], None)
    summary = _measured(part, clock, (first, last), block)
    # Step 1 (step 0 where counting starts there) carries compilation and is shown apart, never compared.
    step1_s = float(series.step_s[0]) if series.step[0] <= 1 else None
    sd_s = float(part.step_s.std())
    before = series.step < first
    whole = series.step[0] <= 1 and int(before.sum()) == first - int(series.step[0])
    summary = replace(
        summary,
        step1_s=step1_s,
        before_s=float(series.step_s[before].sum()) if whole else None,
        before_n=int(before.sum()),
        sd_s=sd_s,
        stall_share=max(0.0, 1.0 - summary.stat_s / summary.mean_s) if summary.mean_s > 0 else 0.0,
        resolution=resolution_bound(summary.mean_s, sd_s, summary.n, summary.quantum_s, cumulative=summary.cumulative),
    )
    return WindowStats(
        summary=summary,
        notes=(*notes, *clock_notes, *_window_notes(summary, part, block)),
        inside=(part.step, part.step_s),
    )


def check_window(window: Sequence[int]) -> tuple[int, int]:
    """First and last step of a window; ConfigError when it is not two whole numbers in order."""
    if len(window) != 2:  # noqa: PLR2004 (first and last)
        raise ConfigError(f"window {list(window)}: give the first and the last step, as in 51:300")
    first, last = int(window[0]), int(window[1])
    if first < 0 or last < first:
        raise ConfigError(f"window {first}:{last}: the first step must not be negative nor after the last")
    return first, last


def block_steps(block: int, period: int) -> int:
    """Return the length of a block: `block` steps, raised to a multiple of the period after which steps repeat."""
    return -(-block // period) * period


def slow_steps(step: ArrayLike, step_s: ArrayLike, times: float = SLOW_STEP) -> list[int]:
    """List steps that took more than `times` the median, as a recompilation does; they stay in."""
    values = np.asarray(step_s, dtype=np.float64)
    finite = np.isfinite(values)
    if not finite.any():
        return []
    slow = finite & (np.where(finite, values, 0.0) > times * np.median(values[finite]))
    return [int(number) for number in np.asarray(step)[slow]]


def _check_reach(series: Series, first: int, last: int) -> None:
    """Refuse a window that reaches beyond the steps; a log of every n-th step may end n - 1 short of it."""
    begin, end = int(series.step[0]), int(series.step[-1])
    if last > end + series.stride - 1:
        counted = ", counted from 0" if begin == 0 else ""
        raise ReadError(f"window {first}:{last} reaches beyond the last step, {end}{counted}: choose one up to {end}")
    if first < begin - series.stride + 1:
        raise ReadError(f"window {first}:{last} begins before the first step, {begin}: choose one from {begin}")


def _blocks(step_s: Floats, clock: Clock | None, block: int) -> Floats:
    """Mean step time of each full block of `block` rows."""
    count = step_s.size // block
    if clock is None:
        return np.asarray(step_s[: count * block].reshape(count, block).mean(axis=1))
    return clock.per_step(np.arange(count + 1) * block)


def trimmed_mean(values: Floats, trim: float = TRIM) -> float:
    """Mean without the `trim` share of values at each end."""
    cut = int(trim * values.size)
    return float(np.sort(values)[cut : values.size - cut].mean())


def _measured(part: Series, clock: Clock | None, window: tuple[int, int], block: int) -> StepSummary:
    """Reduce the steps of a window to a summary, from the clock where there is one."""
    times = part.step_s
    mean_s, tick = float(times.mean()), quantum(times)
    if clock is not None:
        mean_s = float(clock.per_step(np.array([0, clock.step.size - 1]))[0])
        tick = clock.quantum_s
    blocks = _blocks(times, clock, block)
    return StepSummary(
        first=window[0],
        last=window[1],
        n=int(times.size),
        stat_s=trimmed_mean(blocks) if blocks.size > 1 else mean_s,
        median_s=float(np.median(times)),
        mean_s=mean_s,
        p90_s=float(np.quantile(times, 0.9)),
        max_s=float(times.max()),
        step1_s=None,
        quantum_s=tick,
        cumulative=clock is not None,
    )


def _is_bimodal(times: Floats) -> bool:
    """Tell whether the median falls into a gap: the middle tenth is wide, also beside the middle half."""
    low, middle, high = np.quantile(times, [0.45, 0.5, 0.55])
    first, third = np.quantile(times, [0.25, 0.75])
    wide = middle > 0 and (high - low) / middle > BIMODAL
    return bool(wide and high - low > GAP * (third - first))


_OF_WINDOW = re.compile(
    r"one value in the window|only \d+ steps in the window|fewer than two blocks|\d+ steps are missing inside"
    r"|the steps alternate between|the mean step is \d+ % above"
)


def is_of_window(note: str) -> bool:
    """Whether a note was said of the steps of one window, so that it says nothing of another one."""
    return _OF_WINDOW.match(note) is not None


def _window_notes(summary: StepSummary, part: Series, block: int) -> list[str]:
    notes = []
    if summary.n == 1:  # as where a trainer keeps one mean a run
        notes.append("one value in the window: a run has no spread of its own, only rounds have")
    elif summary.n < FEW_STEPS:
        notes.append(f"only {summary.n} steps in the window: {FEW_STEPS} or more are needed for a steady number")
    if 1 < summary.n < 2 * block:
        notes.append("fewer than two blocks of steps: the plain mean is compared")
    missing = round((part.step[-1] - part.step[0]) / part.stride) + 1 - summary.n
    if missing > 0:
        notes.append(f"{missing} steps are missing inside the window")
    if summary.n >= FEW_STEPS and _is_bimodal(part.step_s):
        notes.append("the steps alternate between two times: their median jumps, it is shown and not compared")
    if summary.median_s > 0 and summary.mean_s / summary.median_s > STALL_GAP:
        excess = 100.0 * (summary.mean_s / summary.median_s - 1.0)
        notes.append(f"the mean step is {excess:.0f} % above the median: some steps stall")
    return notes
