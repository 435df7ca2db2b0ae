"""One run's steps as arrays: the only place that decides whether a clock can stand for step times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlace.errors import ReadError
from interlace.stats.resolution import quantum

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Arrays = tuple[ArrayLike, ArrayLike, ArrayLike | None]

CLOCK_ERROR = 0.005
"""A clock may stand for the blocks if its tick is at most this share of a block (methodology 4.2)."""


@dataclass(frozen=True)
class Series:
    """Steps in order. `step_s` is the slowest rank's, shape (steps,); `end_s` has a column a rank.

    `rank_step_s` are the single ranks' times, NaN where a rank did not log a step.
    """

    step: Floats
    step_s: Floats
    rank_step_s: Floats
    end_s: Floats | None

    @property
    def stride(self) -> float:
        """Steps from one row to the next, 10 where every tenth was logged."""
        return float(np.median(np.diff(self.step))) if self.step.size > 1 else 1.0


@dataclass(frozen=True)
class Clock:
    """Readings at the end of steps, the first of them just before the window; shape (readings, ranks)."""

    step: Floats
    end_s: Floats
    quantum_s: float | None

    def per_step(self, edges: NDArray[np.int64]) -> Floats:
        """Mean step time between readings, of the slowest rank; the sum of a block telescopes."""
        spans = np.diff(self.end_s[edges], axis=0) / np.diff(self.step[edges])[:, None]
        return np.asarray(spans.max(axis=1))


def series_of(steps: pd.DataFrame | Arrays) -> tuple[Series, list[str]]:
    """Put steps in order, and note values that are no durations (not finite, negative) and are left out.

    A frame may hold one row a step or one row a step and rank. Raises ReadError when a rank has a step twice,
    or nothing is left.
    """
    if isinstance(steps, tuple):
        step, step_s, end_s = steps
        rank: ArrayLike = np.zeros(np.size(np.asarray(step)))
    else:
        step, step_s, end_s = steps["step"], steps["step_s"], steps.get("end_s")
        # Reduced by `slowest_rank` (it counts the ranks), the clock is the last rank's: one column.
        reduced = "rank" not in steps or "ranks" in steps
        rank = np.zeros(len(steps)) if reduced else steps["rank"]
    clock = None if end_s is None else np.asarray(end_s, dtype=np.float64)
    number, seconds = np.asarray(step, dtype=np.float64), np.asarray(step_s, dtype=np.float64)
    usable = np.isfinite(seconds) & (seconds >= 0) & np.isfinite(number)
    if not usable.any():
        raise ReadError("no step has a finite time: nothing to measure")
    dropped = int((~usable).sum())
    notes = [f"{dropped} step times are not finite or negative and were left out"] if dropped else []
    kept = None if clock is None else clock[usable]
    return _by_step_and_rank(number[usable], np.asarray(rank)[usable], seconds[usable], kept), notes


def _by_step_and_rank(number: Floats, rank: NDArray[np.generic], seconds: Floats, clock: Floats | None) -> Series:
    step, row = np.unique(number, return_inverse=True)
    ranks, column = np.unique(rank, return_inverse=True)
    times = np.full((step.size, ranks.size), np.nan)
    times[row, column] = seconds
    if np.isfinite(times).sum() < seconds.size:
        seen, counts = np.unique(row * ranks.size + column, return_counts=True)
        twice = step[seen[counts > 1][0] // ranks.size]
        raise ReadError(f"step {int(twice)} has two times: one run has one time a step and rank")
    slowest = np.asarray(np.nanmax(times, axis=1))
    # One row a step from changing ranks: each rank's clock started by itself, so none can be used.
    if clock is None or (ranks.size > 1 and seconds.size == step.size):
        return Series(step, slowest, times, None)
    readings = np.full_like(times, np.nan)
    readings[row, column] = clock
    return Series(step, slowest, times, readings)


def usable_clock(series: Series, inside: NDArray[np.bool_], block: int) -> tuple[Clock | None, list[str]]:
    """Take the clock of the rows `inside` where it is finer than 0.5 % of a block; else None, and why."""
    if series.end_s is None or not np.isfinite(series.end_s[inside]).all():
        return None, []
    rows = np.flatnonzero(inside)
    before = rows[0] - 1
    if before >= 0 and np.isfinite(series.end_s[before]).all():
        rows = np.concatenate(([before], rows))
        step, end_s = series.step[rows], series.end_s[rows]
    else:
        start = series.end_s[rows[0]] - series.rank_step_s[rows[0]]
        step = np.concatenate(([series.step[rows[0]] - 1.0], series.step[rows]))
        end_s = np.vstack((start, series.end_s[rows]))
    if not (np.diff(end_s, axis=0) > 0).all():
        return None, ["the cumulative clock stands still or runs backwards in the window: durations are used"]
    tick = _tick(step, end_s)
    mean_s = float((end_s[-1] - end_s[0]).max() / (step[-1] - step[0]))
    if tick is not None and tick > CLOCK_ERROR * block * mean_s:
        # Too coarse for one block, but sums telescope: still better than durations that are no finer.
        durations = quantum(series.step_s[inside])
        if durations is None or durations < 0.99 * tick:
            return None, []
    return Clock(step, end_s, tick), []


def _tick(step: Floats, end_s: Floats) -> float | None:
    """Find a clock's tick from its differences, multiples of it; the readings themselves lie a step apart."""
    gaps = np.diff(step)
    spans = np.diff(end_s, axis=0)[gaps == gaps.min()]
    largest = float(np.abs(end_s).max())
    ticks = [tick for of_rank in spans.T if (tick := quantum(of_rank, magnitude=largest)) is not None]
    return min(ticks) if ticks else None
