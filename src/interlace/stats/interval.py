"""Intervals of log ratios from complete rounds: the only place that chooses a variance and its df.

Every function takes leading batch dimensions, so that simulations run the code that users run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import (
    special,
)  # scipy.stats costs a second of CPU to import; these two functions are all of it we use

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PAIRED = "paired t on log ratios"
TWO_SAMPLE = "pooled two-sample t"
WITH_AA = "paired t, variance pooled with A/A rounds"
RESIDUAL = "pooled residual of round + arm"
NO_INTERVAL = "single round: no interval"
FEWEST_AA_ROUNDS = 4
MOST_ROUNDS = 1000
MOST_SIGN_FLIPS = 16


@dataclass(frozen=True)
class Estimate:
    """Effects of all candidates against the baseline, as logs of time ratios (below 0 is faster).

    `effect` has shape (..., candidates); `se` the same or one that broadcasts to it, None with a single
    round; `s_run` is the relative run-to-run standard deviation behind it.
    """

    effect: Floats
    se: Floats | None
    df: int
    method: str
    s_run: Floats | None

    def half_width(self, confidence: float = 0.95) -> Floats | None:
        """Half width of the interval on the log scale."""
        return None if self.se is None else t_quantile(confidence, self.df) * self.se

    def p_value(self) -> Floats | None:
        """Two-sided p of each effect; 1 where effect and spread are both exactly 0."""
        if self.se is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(self.effect) / self.se
        return np.asarray(2.0 * special.stdtr(self.df, -np.nan_to_num(t, nan=0.0, posinf=1e300)))


def t_quantile(confidence: float, df: int) -> float:
    """Two-sided Student t quantile."""
    return float(special.stdtrit(df, 0.5 + confidence / 2.0))


def estimate(log_s: ArrayLike, base: int = 0, aa_log_s: ArrayLike | None = None) -> Estimate:
    """Effect of every arm but `base` from the logs of run statistics, shape (..., rounds, arms).

    Two arms: paired t from three rounds on, pooled two-sample t (df 2) for two rounds, either replaced by a
    variance pooled with at least four A/A rounds (shape (rounds, 2), same session, node and workload) where
    given. Three arms and more: residual of the additive model round + arm. Source: methodology 4.3
    (docs/statistics.md).
    """
    values = np.asarray(log_s, dtype=np.float64)
    rounds, arms = values.shape[-2:]
    others = [arm for arm in range(arms) if arm != base]
    differences = values[..., others] - values[..., [base]]
    effect = np.asarray(differences.mean(axis=-2))
    if rounds == 1:
        return Estimate(effect, None, 0, NO_INTERVAL, None)
    if arms > 2:  # noqa: PLR2004 (two arms pair)
        variance, df = residual_variance(values)
        return _from_run_variance(effect, variance[..., None], df, rounds, RESIDUAL)
    aa = None if aa_log_s is None else np.asarray(aa_log_s, dtype=np.float64)
    if aa is not None and len(aa) >= FEWEST_AA_ROUNDS:
        return _with_aa(effect, differences, aa)
    if rounds == 2:  # noqa: PLR2004 (a paired t of two rounds has one degree of freedom)
        variance = values.var(axis=-2, ddof=1).mean(axis=-1)
        return _from_run_variance(effect, variance[..., None], 2, rounds, TWO_SAMPLE)
    return _from_run_variance(effect, differences.var(axis=-2, ddof=1) / 2.0, rounds - 1, rounds, PAIRED)


def residual_variance(log_s: Floats) -> tuple[Floats, int]:
    """Variance of the residual of round + arm, shape (...), and its degrees of freedom."""
    rounds, arms = log_s.shape[-2:]
    residual = log_s - log_s.mean(axis=-2, keepdims=True) - log_s.mean(axis=-1, keepdims=True)
    residual = residual + log_s.mean(axis=(-2, -1), keepdims=True)
    df = (rounds - 1) * (arms - 1)
    return np.asarray((residual**2).sum(axis=(-2, -1)) / df), df


def _with_aa(effect: Floats, differences: Floats, aa: Floats) -> Estimate:
    rounds = differences.shape[-2]
    df0 = len(aa) - 1
    s0 = (aa[:, 1] - aa[:, 0]).var(ddof=1)
    df = df0 + rounds - 1
    pooled = (df0 * s0 + (rounds - 1) * differences.var(axis=-2, ddof=1)) / df
    return _from_run_variance(effect, pooled / 2.0, df, rounds, WITH_AA)


def _from_run_variance(effect: Floats, variance: Any, df: int, rounds: int, method: str) -> Estimate:
    run_variance = np.asarray(variance, dtype=np.float64)
    return Estimate(effect, np.sqrt(run_variance * 2.0 / rounds), df, method, np.sqrt(run_variance))


def noise_floor(
    log_s: ArrayLike, confidence: float = 0.95, aa_log_s: ArrayLike | None = None
) -> tuple[float, str] | None:
    """Half width (relative) that this design gives when nothing differs, and where the spread was taken from.

    From A/A rounds where given, else from the runs themselves; None with one round. Methodology 4.4.
    """
    values = np.asarray(log_s, dtype=np.float64)
    rounds, arms = values.shape
    if rounds < 2:  # noqa: PLR2004 (one round has no spread)
        return None
    aa = None if aa_log_s is None else np.asarray(aa_log_s, dtype=np.float64)
    if aa is not None and len(aa) >= FEWEST_AA_ROUNDS:
        variance, df = float((aa[:, 1] - aa[:, 0]).var(ddof=1)) / 2.0, len(aa) - 1
        source = f"A/A, {len(aa)} rounds"
    else:
        variance, df = _own_variance(values, arms, rounds)
        source = f"own spread, df {df}"
    return math.expm1(t_quantile(confidence, df) * math.sqrt(variance * 2.0 / rounds)), source


def _own_variance(values: Floats, arms: int, rounds: int) -> tuple[float, int]:
    if arms > 2:  # noqa: PLR2004 (two arms: spread within each)
        variance, df = residual_variance(values)
        return float(variance), df
    return float(values.var(axis=0, ddof=1).mean()), arms * (rounds - 1)


def rounds_needed(s_run: float, margin: float, arms: int, confidence: float = 0.95) -> int | None:
    """Smallest number of rounds whose half width is under `margin`; None beyond 1000.

    `s_run` is the relative run-to-run standard deviation. Methodology 4.5.
    """
    for rounds in range(2 if arms > 2 else 3, MOST_ROUNDS + 1):  # noqa: PLR2004 (as in `estimate`)
        df = (rounds - 1) * (arms - 1)
        if t_quantile(confidence, df) * s_run * math.sqrt(2.0 / rounds) < margin:
            return rounds
    return None


def sign_flip_p(differences: ArrayLike) -> float | None:
    """Exact two-sided p of the mean under all changes of sign, shape (rounds,); None beyond 16 rounds."""
    values = np.asarray(differences, dtype=np.float64)
    if values.size > MOST_SIGN_FLIPS:
        return None
    bits = np.arange(2**values.size)[:, None] >> np.arange(values.size)
    sums = np.abs((1 - 2 * (bits & 1)) @ values)
    return float((sums >= abs(values.sum()) * (1.0 - 1e-12)).mean())


def signed_rank_interval(differences: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float] | None:
    """Hodges-Lehmann estimate and exact signed-rank interval of log ratios, shape (rounds,); None if too few.

    The interval is read from the ordered averages of all pairs (Tukey's construction).
    """
    values = np.asarray(differences, dtype=np.float64)
    n = values.size
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    tail = np.cumsum(ways) / 2.0**n
    cut = int((tail <= (1.0 - confidence) / 2.0 + 1e-12).sum())
    if cut == 0:
        return None
    first, second = np.triu_indices(n)
    averages = np.sort((values[first] + values[second]) / 2.0)
    return float(np.median(averages)), float(averages[cut - 1]), float(averages[-cut])
