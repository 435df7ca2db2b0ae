"""The only summary of one step series for people: a window, its medians, and what looks odd in it. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from interlace.errors import UsageError
from interlace.wording import first_of

DEFAULT_WINDOW = (51, 300)
OUTLIER_TIMES_MEDIAN = 5.0
MEAN_TO_MEDIAN = 1.1
SHOWN_OUTLIERS = 8


@dataclass(frozen=True)
class Summary:
    """What the window says. Times in seconds; `why` tells how the window was chosen."""

    first: int
    last: int
    n: int
    why: str
    median_s: float
    mean_s: float
    p90_s: float
    max_s: float
    outliers: tuple[tuple[int, float], ...]
    notes: tuple[str, ...]


def summarise(steps: list[int], step_s: list[float], asked: tuple[int, int] | None) -> Summary:
    """Sum up a step series (one value a step, seconds, in order) over a window."""
    first, last, why = _chosen_window(steps, asked)
    taken = [(step, time) for step, time in zip(steps, step_s, strict=True) if first <= step <= last]
    if not taken:
        raise UsageError(f"window={first}:{last} holds no step; the log has {steps[0]} to {steps[-1]}")
    times = [time for _, time in taken]
    median, mean = statistics.median(times), statistics.fmean(times)
    outliers = tuple((step, time) for step, time in taken if time > OUTLIER_TIMES_MEDIAN * median)
    return Summary(
        first=taken[0][0],
        last=taken[-1][0],
        n=len(taken),
        why=why,
        median_s=median,
        mean_s=mean,
        p90_s=statistics.quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0],
        max_s=max(times),
        outliers=outliers,
        notes=tuple(_warnings(median, mean, outliers)),
    )


def _warnings(median_s: float, mean_s: float, outliers: tuple[tuple[int, float], ...]) -> list[str]:
    notes = []
    if mean_s > MEAN_TO_MEDIAN * median_s:
        notes.append(
            f"mean_median_gap: the mean is {mean_s / median_s:.2f} times the median: some steps are much"
            " slower than most (data loading, recompiling?), and the median alone hides them"
        )
    if outliers:
        shown = first_of([f"{step} ({shown_time(time)})" for step, time in outliers], SHOWN_OUTLIERS)
        notes.append(f"outliers: steps over 5 x the median, kept (recompiling?): {shown}")
    return notes


def _chosen_window(steps: list[int], asked: tuple[int, int] | None) -> tuple[int, int, str]:
    if asked:
        return *asked, "as asked"
    inside = sum(DEFAULT_WINDOW[0] <= step <= DEFAULT_WINDOW[1] for step in steps)
    if steps[0] <= DEFAULT_WINDOW[0] and steps[-1] >= DEFAULT_WINDOW[1] and inside:
        return *DEFAULT_WINDOW, "the default window"
    if len(steps) == 1:
        return steps[0], steps[0], "the only step there is"
    return steps[1], steps[-1], "the log has not all of 51:300, so: all but the first"


def shown_time(seconds: float) -> str:
    """Return a time with four significant digits, in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds} s"
