"""Which arms vary alike from run to run, and which pairs fit their spread: only those may share one variance.

Source: docs/statistics.md, with what it does to false calls and coverage. In the additive model round + arm, sums of
squares of orthogonal contrasts are independent, so both questions are F tests. Two rounds cannot answer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

LEVEL = 0.05
"""How often arms that do vary alike are parted, over all arms of a sweep (Bonferroni)."""

FEWEST_ROUNDS = 3
"""With one degree of freedom an arm, parting makes as many false calls as it saves."""

NO_SPREAD = 1e-24
"""Sums of squares up to here are float noise of logarithms: against no spread at all nothing can be unlike."""


def alike(log_s: Floats) -> Bools:
    """Tell which arms share a spread, shape (..., arms), from logs of run statistics (..., rounds, arms).

    One arm after another is parted from the rest, as long as three are left: the one that varies most, if by more than
    the others do (F test of its deviations from their mean). One that varies less only makes intervals wider.
    """
    rounds, arms = log_s.shape[-2:]
    together = np.ones((*log_s.shape[:-2], arms), dtype=np.bool_)
    if rounds < FEWEST_ROUNDS:
        return together
    for _ in range(arms - 2):
        p = _p_of_each(log_s, together)
        worst = p.argmin(axis=-1, keepdims=True)
        parted = np.take_along_axis(p, worst, axis=-1) < LEVEL / together.sum(axis=-1, keepdims=True)
        if not parted.any():
            break
        together &= ~(parted & (np.arange(arms) == worst))
    return together


def fits(differences: Floats, log_s: Floats, together: Bools) -> Bools:
    """Tell for each pair whether its rounds spread no more than the rest does (F test, 5 %), shape (..., pairs).

    `differences` (..., rounds, pairs) are those of the pairs' logs; the rest is what the residual of round + arm over
    the arms `together` holds besides a pair of them. Two arms alone fit by themselves.
    """
    df = log_s.shape[-2] - 1
    if df + 1 < FEWEST_ROUNDS:
        return np.ones((*differences.shape[:-2], differences.shape[-1]), dtype=np.bool_)
    n = together.sum(axis=-1)[..., None]
    of_pair = differences.var(axis=-2) * (df + 1) / 2.0
    rest = np.maximum(squares(log_s, together).sum(axis=-1)[..., None] - of_pair, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = special.fdtrc(df, df * (n - 2), of_pair * (n - 2) / rest)
    return np.asarray(~((p < LEVEL) & (rest > NO_SPREAD)))


def squares(log_s: Floats, together: Bools) -> Floats:
    """Sum the squared residuals of round + arm over the rounds, for each arm that is `together`; 0 for the others."""
    own = log_s - log_s.mean(axis=-2, keepdims=True)
    weight = together[..., None, :]
    common = (own * weight).sum(axis=-1, keepdims=True) / weight.sum(axis=-1, keepdims=True)
    return np.asarray((((own - common) * weight) ** 2).sum(axis=-2))


def _p_of_each(log_s: Floats, together: Bools) -> Floats:
    """P that an arm of the others' spread varies as much; 1 for arms that are parted, or are two alone."""
    of_arm = squares(log_s, together)
    n = together.sum(axis=-1, keepdims=True)
    df = log_s.shape[-2] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        by_itself = of_arm * n / (n - 1)  # of the arm against the mean of the others
        rest = np.maximum(of_arm.sum(axis=-1, keepdims=True) - by_itself, 0.0)
        p = special.fdtrc(df, df * (n - 2), by_itself * (n - 2) / rest)
    return np.where(together & (n > 2) & (rest > NO_SPREAD), p, 1.0)  # noqa: PLR2004 (an arm and two others)
