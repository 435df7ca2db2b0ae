"""Intervals of log ratios from complete rounds: the only place that chooses a variance and its df.

Every function takes leading batch dimensions, so that simulations run the code that users run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import (
    special,
)  # scipy.stats costs a second of CPU to import; these two functions are all of it we use

from interlace.stats.alike import alike, by_own_rounds, squares

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

PAIRED = "paired t on log ratios"
TWO_SAMPLE = "pooled two-sample t"
WITH_AA = "paired t, variance pooled with A/A rounds"
RESIDUAL = "pooled residual of round + arm"
OWN_ROUNDS = "this pair's own rounds: they vary unlike those of the other arms"
NO_INTERVAL = "single round: no interval"
FEWEST_AA_ROUNDS = 4
MOST_ROUNDS = 1000
MOST_SIGN_FLIPS = 16


@dataclass(frozen=True)
class Estimate:
    """Effects of all candidates against the baseline, as logs of time ratios (below 0 is faster).

    All arrays have shape (..., candidates). `se` is None with a single round; `s_run` is the relative run-to-run
    standard deviation behind it. `own_rounds` marks pairs among three arms and more that are judged by their own
    rounds, since they do not vary as the others do; `shared_method` is that of the rest.
    """

    effect: Floats
    se: Floats | None
    df: Ints
    shared_method: str
    s_run: Floats | None
    own_rounds: Bools

    def method_of(self, candidate: int) -> str:
        """Name the method behind one candidate's interval (without batch dimensions)."""
        return OWN_ROUNDS if self.own_rounds[candidate] else self.shared_method

    def half_width(self, confidence: float = 0.95) -> Floats | None:
        """Half width of the interval on the log scale."""
        return None if self.se is None else np.asarray(special.stdtrit(self.df, 0.5 + confidence / 2.0) * self.se)

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
    given. Three arms and more: residual of the additive model round + arm over the arms that vary alike; a pair with
    another arm in it, or with rounds that spread more than the residual allows, is judged as two arms are. Source:
    methodology 4.3 (docs/statistics.md).
    """
    values = np.asarray(log_s, dtype=np.float64)
    rounds, arms = values.shape[-2:]
    differences = np.delete(values, base, axis=-1) - values[..., [base]]
    effect = np.asarray(differences.mean(axis=-2))
    nobody = np.zeros(effect.shape, dtype=np.bool_)
    if rounds == 1:
        return Estimate(effect, None, np.zeros(effect.shape, dtype=np.int64), NO_INTERVAL, None, nobody)
    aa = None if aa_log_s is None else np.asarray(aa_log_s, dtype=np.float64)
    if arms == 2 and aa is not None and len(aa) >= FEWEST_AA_ROUNDS:  # noqa: PLR2004 (two arms pair)
        return _estimate(effect, *_with_aa(differences, aa), rounds, WITH_AA, nobody)
    variance, df, method = _own_rounds(values, differences, base)
    if arms == 2:  # noqa: PLR2004
        return _estimate(effect, variance, df, rounds, method, nobody)
    shared, shared_df, together = shared_variance(values)
    own = by_own_rounds(values, base, together)
    variance, each = np.where(own, variance, shared[..., None]), np.where(own, df, shared_df[..., None])
    return _estimate(effect, variance, each, rounds, RESIDUAL, own)


def shared_variance(log_s: Floats) -> tuple[Floats, Ints, Bools]:
    """Run variance and df of the arms that vary alike, both of shape (...), and which arms these are, (..., arms)."""
    together = alike(log_s)
    return *residual_variance(log_s, together), together


def residual_variance(log_s: Floats, together: Bools | None = None) -> tuple[Floats, Ints]:
    """Variance of the residual of round + arm over the arms that are `together` (all), and its df, of shape (...)."""
    if together is None:
        together = np.ones((*log_s.shape[:-2], log_s.shape[-1]), dtype=np.bool_)
    df = np.asarray((log_s.shape[-2] - 1) * (together.sum(axis=-1) - 1))
    return np.asarray(squares(log_s, together).sum(axis=-1) / df), df


def _own_rounds(values: Floats, differences: Floats, base: int) -> tuple[Floats, int, str]:
    """Run variance of each pair from its own runs, shape (..., candidates), its df, and the method."""
    rounds = values.shape[-2]
    if rounds == 2:  # noqa: PLR2004 (a paired t of two rounds has one degree of freedom)
        of_arm = values.var(axis=-2, ddof=1)
        return (np.delete(of_arm, base, axis=-1) + of_arm[..., [base]]) / 2.0, 2, TWO_SAMPLE
    return differences.var(axis=-2, ddof=1) / 2.0, rounds - 1, PAIRED


def _with_aa(differences: Floats, aa: Floats) -> tuple[Floats, int]:
    rounds = differences.shape[-2]
    df0 = len(aa) - 1
    s0 = (aa[:, 1] - aa[:, 0]).var(ddof=1)
    df = df0 + rounds - 1
    return (df0 * s0 + (rounds - 1) * differences.var(axis=-2, ddof=1)) / df / 2.0, df


def _estimate(effect: Floats, variance: Floats, df: ArrayLike, rounds: int, method: str, own_rounds: Bools) -> Estimate:
    se, each = np.sqrt(variance * 2.0 / rounds), np.broadcast_to(np.asarray(df), effect.shape)
    return Estimate(effect, se, each, method, np.sqrt(variance), own_rounds)


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
        variance, df, whose = _own_variance(values, arms, rounds)
        source = f"own spread{whose}, df {df}"
    return math.expm1(t_quantile(confidence, df) * math.sqrt(variance * 2.0 / rounds)), source


def _own_variance(values: Floats, arms: int, rounds: int) -> tuple[float, int, str]:
    """Run variance, df, and of which arms where it is not that of all."""
    if arms <= 2:  # noqa: PLR2004 (two arms: spread within each)
        return float(values.var(axis=0, ddof=1).mean()), arms * (rounds - 1), ""
    variance, df, together = shared_variance(values)
    return float(variance), int(df), "" if together.all() else f" of {together.sum()} of {arms} arms"


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
