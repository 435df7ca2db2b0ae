"""A screen: one round that ranks many candidates and judges none (methodology 4.11). Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from interlace.compare.compare import Comparisons
from interlace.compare.comparison import Comparison
from interlace.compare.rounds import finite_runs
from interlace.compare.verdict import Evidence, judge
from interlace.stats.multiple import expected_best

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def screen(runs: pd.DataFrame, baseline: str, arms: Sequence[str]) -> Comparisons:
    """Rank `arms` (without the baseline) by their one run, against a line through the baseline's runs.

    `runs` has the columns arm, round, stat_s and t_start_s (s). The baseline runs at the start, in the middle
    and at the end: its line takes a steady drift out of the ranks, its range says how much of a rank is noise.
    """
    usable, notes = finite_runs(runs)
    base = usable[usable["arm"] == baseline]
    ratios = {arm: _ratio(base, usable[usable["arm"] == arm]) for arm in arms}
    known = sorted((ratio, arm) for arm, ratio in ratios.items() if ratio is not None)
    ranked = [
        _comparison(arm, baseline, ratio, f"rank {place} of {len(known)} in a screen of one round")
        for place, (ratio, arm) in enumerate(known, start=1)
    ]
    unranked = [
        _comparison(arm, baseline, None, f"{baseline if base.empty else arm} has no finished run")
        for arm, ratio in ratios.items()
        if ratio is None
    ]
    rounds = (1,) if known else ()
    told = (*notes, *_yardstick(base, len(known)))
    return Comparisons(baseline, (*ranked, *unranked), rounds, None, (), told)


def _comparison(arm: str, baseline: str, ratio: float | None, reason: str) -> Comparison:
    verdict, sentence = judge(Evidence(ratio=ratio, reason=reason))
    return Comparison(arm, baseline, verdict, sentence, ratio, rounds=0 if ratio is None else 1)


def _ratio(base: pd.DataFrame, own: pd.DataFrame) -> float | None:
    if base.empty or own.empty:
        return None
    row = own.iloc[-1]
    return float(row["stat_s"]) / math.exp(_expected_log_s(base, float(row["t_start_s"])))


def _expected_log_s(base: pd.DataFrame, t_s: float) -> float:
    """Log of what the baseline would have taken at `t_s`: a line through its runs, their mean with fewer than three."""
    log_s = np.log(base["stat_s"].to_numpy(dtype=np.float64))
    times = base["t_start_s"].to_numpy(dtype=np.float64)
    if len(base) < 3 or np.ptp(times) == 0:  # noqa: PLR2004 (two noisy runs make no line)
        return float(log_s.mean())
    slope, level = np.polyfit(times - times.mean(), log_s, 1)
    return float(level + slope * (t_s - times.mean()))


def _yardstick(base: pd.DataFrame, count: int) -> list[str]:
    """Say how far the baseline differs from itself, and how good the luckiest of equals would look."""
    times = base["stat_s"].to_numpy(dtype=np.float64)
    if not count:
        return []
    if len(times) < 2:  # noqa: PLR2004 (one run does not differ from itself)
        return ["the baseline has one finished run only: nothing shows how much of a rank is noise"]
    apart = 100.0 * (times.max() / times.min() - 1.0)
    runs = ", ".join(f"{1000.0 * value:.4g}" for value in times)
    lines = [f"the baseline's own runs took {runs} ms, {apart:.2g} % apart: candidates closer than that have no rank"]
    if count > 1:
        best = 100.0 * expected_best(count, float(np.log(times).std(ddof=1)), 1)
        lines.append(f"with no real effect the best of {count} is expected to look about {best:.2g} % faster")
    return [*lines, "quote no number of a screen: measure those worth it against the baseline in four fresh rounds"]
