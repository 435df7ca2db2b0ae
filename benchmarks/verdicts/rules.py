"""The rules that decide whether a candidate differs, each written from what its project publishes.

A rule is a pure function of baseline and candidate, over many sweeps at once. All are given the same runs. Those
that judge whole runs get Interlace's run statistic, so that rules differ and not what is fed to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.verdicts import asv
from scipy import special, stats

from interlace.order import judge_order
from interlace.stats import estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.verdicts.arms import Floats, OrderName, Runs
    from numpy.typing import NDArray

FEW_ROUNDS = 4
"""Up to here all resamples of the rounds are enumerated."""
RESAMPLES = 999


@dataclass(frozen=True)
class Calls:
    """What a rule says of each sweep: -1 faster, 0 nothing, 1 slower, shape (sweeps,).

    `low` and `high` bound the log of the time ratio, where the rule has an interval.
    """

    sign: NDArray[np.int8]
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True)
class Rule:
    """A rule, the order in which its tool (or its user) makes the runs, and whether it refuses an order."""

    key: str
    name: str
    own_order: OrderName
    call: Callable[[Runs, Runs], Calls]
    refuses: Callable[[str], bool] = lambda _: False


def interlace(baseline: Runs, candidate: Runs) -> Calls:
    """Interlace: the interval of `interlace.stats.estimate` excludes a ratio of 1."""
    found = estimate(np.log(np.stack([baseline.run_s, candidate.run_s], axis=-1)))
    half = found.half_width(0.95)
    assert half is not None, "two rounds or more have an interval"
    return _by_interval((found.effect - half)[:, 0], (found.effect + half)[:, 0])


def pyperf(baseline: Runs, candidate: Runs, values: int) -> Calls:
    """Pyperf (`pyperf/_utils.py`): two-sided Student t at 95 % on the values of all processes, pooled.

    `values` are taken from each run: 3 is pyperf's default for a process.
    """
    a, b = pooled(baseline, values), pooled(candidate, values)
    variance = (a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / 2.0
    standard_error = np.sqrt(variance * 2.0 / a.shape[1])
    critical = special.stdtrit(2 * a.shape[1] - 2, 0.975)
    difference = b.mean(axis=1) - a.mean(axis=1)
    return _sign(difference, np.abs(difference) >= critical * standard_error)


def asv_different(baseline: Runs, candidate: Runs, values: int, factor: float) -> Calls:
    """Airspeed velocity (`asv/_stats.py`, `asv/commands/compare.py`): different, and medians apart by `factor`.

    `values` are taken from each run and pooled: one where a run is timed as a whole, up to ten otherwise.
    """
    a, b = (np.asarray(pooled(arm, values), dtype=np.float64) for arm in (baseline, candidate))
    first, second = np.median(a, axis=1), np.median(b, axis=1)
    apart = (second < first / factor) | (first < second / factor)
    return _sign(second - first, apart & asv.is_different(a, b))


def welch(baseline: Runs, candidate: Runs) -> Calls:
    """Hyperfine (`scripts/welch_ttest.py`): Welch's t test on the times of the runs, p below 0.05."""
    a, b = baseline.run_s, candidate.run_s
    parts = np.stack([a.var(axis=1, ddof=1), b.var(axis=1, ddof=1)]) / a.shape[1]
    total = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(total > 0, total**2 / (parts**2).sum(axis=0) * (a.shape[1] - 1), 1.0)
    difference = b.mean(axis=1) - a.mean(axis=1)
    return _sign(difference, np.abs(difference) > special.stdtrit(df, 0.975) * np.sqrt(total))


def u_test(baseline: Runs, candidate: Runs) -> Calls:
    """Google Benchmark (`tools/gbench/report.py`): scipy's two-sided Mann-Whitney U test, p below 0.05."""
    a, b = baseline.run_s, candidate.run_s
    ordered = np.sort(np.concatenate([a, b], axis=1), axis=1)
    # scipy chooses exact or normal for all rows together, by whether any row has ties: one kind at a time.
    tied = (np.diff(ordered, axis=1) == 0).any(axis=1)
    p = np.ones(len(a))
    for rows in (tied, ~tied):
        if rows.any():
            p[rows] = np.nan_to_num(stats.mannwhitneyu(a[rows], b[rows], axis=1).pvalue, nan=1.0)
    return _sign(np.median(b, axis=1) - np.median(a, axis=1), p < 0.05)


def ranges_apart(baseline: Runs, candidate: Runs) -> Calls:
    """Habit: the slowest run of one arm is faster than the fastest of the other."""
    a, b = baseline.run_s, candidate.run_s
    apart = (b.max(axis=1) < a.min(axis=1)) | (a.max(axis=1) < b.min(axis=1))
    return _sign(b.mean(axis=1) - a.mean(axis=1), apart)


def two_sd(baseline: Runs, candidate: Runs) -> Calls:
    """Habit: the candidate's mean is more than two standard deviations of the baseline's runs away."""
    difference = candidate.run_s.mean(axis=1) - baseline.run_s.mean(axis=1)
    return _sign(difference, np.abs(difference) > 2.0 * baseline.run_s.std(axis=1, ddof=1))


def fixed_threshold(baseline: Runs, candidate: Runs, share: float) -> Calls:
    """TorchBench (`userbenchmark/torch-nightly/regression_detector.py`): more than 7 % apart."""
    base = baseline.run_s.mean(axis=1)
    change = (candidate.run_s.mean(axis=1) - base) / base
    return _sign(change, np.abs(change) > share)


def bootstrap(baseline: Runs, candidate: Runs) -> Calls:
    """Percentile bootstrap (Efron 1979): rounds drawn anew with replacement, 2.5 and 97.5 % of their means."""
    differences = np.log(candidate.run_s / baseline.run_s)
    means = differences @ _resamples(differences.shape[1]).T
    low, high = np.quantile(means, [0.025, 0.975], axis=1, method="inverted_cdf")
    return _by_interval(low, high)


def pooled(runs: Runs, values: int) -> NDArray[np.floating[Any]]:
    """Values of all runs of a sweep in one row: the run statistic (1), every step, or means of equal parts."""
    sweeps, count, steps = runs.step_s.shape
    if values == 1:
        return runs.run_s
    if values == steps:
        return np.asarray(runs.step_s.reshape(sweeps, -1))
    part = steps // values
    parts = runs.step_s[..., : part * values].reshape(sweeps, count, values, part)
    return np.asarray(parts.mean(axis=-1, dtype=np.float64).reshape(sweeps, -1))


@cache
def _resamples(rounds: int) -> Floats:
    """Weights of the rounds in every resample, shape (resamples, rounds)."""
    if rounds <= FEW_ROUNDS:
        drawn = np.array(list(product(range(rounds), repeat=rounds)))
    else:
        drawn = np.random.default_rng(rounds).integers(0, rounds, (RESAMPLES, rounds))
    return np.asarray((drawn[..., None] == np.arange(rounds)).mean(axis=1))


def _sign(difference: Floats, called: NDArray[np.bool_]) -> Calls:
    return Calls(np.where(called, np.sign(difference), 0).astype(np.int8))


def _by_interval(low: Floats, high: Floats) -> Calls:
    return Calls((low > 0).astype(np.int8) - (high < 0).astype(np.int8), low, high)


def _not_judged(order: str) -> bool:
    return judge_order(order).reason is not None


RULES = (
    Rule("interlace", "Interlace", "mirrored", interlace, _not_judged),
    Rule("pyperf-3", "pyperf, 3 values a run", "sequential", partial(pyperf, values=3)),
    Rule("pyperf-steps", "pyperf's t test, all steps", "sequential", partial(pyperf, values=250)),
    Rule("asv-1.1", "asv, factor 1.1 (default)", "ABBA", partial(asv_different, values=1, factor=1.1)),
    Rule("asv-1.01", "asv, factor 1.01", "ABBA", partial(asv_different, values=1, factor=1.01)),
    Rule("asv-10", "asv, factor 1.01, 10 values a run", "ABBA", partial(asv_different, values=10, factor=1.01)),
    Rule("u-test", "Google Benchmark, U test", "sequential", u_test),
    Rule("welch", "hyperfine, Welch's t test", "sequential", welch),
    Rule("ranges", "ranges do not overlap", "ABAB", ranges_apart),
    Rule("two-sd", "outside two sd of the baseline", "ABAB", two_sd),
    Rule("bootstrap", "percentile bootstrap of rounds", "ABAB", bootstrap),
    Rule("7-percent", "TorchBench, fixed 7 %", "sequential", partial(fixed_threshold, share=0.07)),
)
