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

SHARED_LEVEL = 0.01
"""How often arms that do vary alike lose one from their shared spread, over all arms of a sweep (Bonferroni)."""

OWN_LEVEL = 0.05
"""How often an arm that varies as the others do, or a pair, is judged by its own rounds for nothing."""

FEWEST_ROUNDS = 3
"""With one degree of freedom an arm, parting makes as many false calls as it saves."""

NO_SPREAD, NO_PART = 1e-24, 1e-9
"""Squares up to here, and such a part of others', are float noise: against no spread at all nothing can be unlike."""


def alike(log_s: Floats) -> Bools:
    """Tell which arms share a spread, shape (..., arms), from logs of run statistics (..., rounds, arms).

    One arm after another is parted from the rest, as long as three are left: the one that varies most, if by clearly
    more than the others do (F test of its deviations from their mean).
    """
    rounds, arms = log_s.shape[-2:]
    together = np.ones((*log_s.shape[:-2], arms), dtype=np.bool_)
    if rounds < FEWEST_ROUNDS:
        return together
    for _ in range(arms - 2):
        p = _p_of_each(log_s, together)
        worst = p.argmin(axis=-1, keepdims=True)
        parted = np.take_along_axis(p, worst, axis=-1) < SHARED_LEVEL / together.sum(axis=-1, keepdims=True)
        if not parted.any():
            break
        together &= ~(parted & (np.arange(arms) == worst))
    return together


def by_own_rounds(log_s: Floats, base: int, together: Bools) -> Bools:
    """Tell which pairs with `base` the shared spread does not stand for, shape (..., pairs).

    Those with an arm that is not `together` or varies more than the others do, and those whose differences by round
    spread more than the residual of round + arm does besides them (F tests). The milder level takes nothing out of the
    shared spread, so that it does not become too small by chance.
    """
    rounds = log_s.shape[-2]
    if rounds < FEWEST_ROUNDS:
        return np.delete(~together, base, axis=-1)
    unlike = ~together | (_p_of_each(log_s, together) < OWN_LEVEL)
    n = together.sum(axis=-1, keepdims=True)
    of_pair = (np.delete(log_s, base, axis=-1) - log_s[..., [base]]).var(axis=-2) * rounds / 2.0
    p = _p_more(of_pair, squares(log_s, together).sum(axis=-1, keepdims=True) - of_pair, rounds - 1, n - 2)
    return np.asarray(np.delete(unlike, base, axis=-1) | unlike[..., [base]] | (p < OWN_LEVEL))


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
    by_itself = of_arm * n / (n - 1)  # of the arm against the mean of the others
    rest = of_arm.sum(axis=-1, keepdims=True) - by_itself
    return np.where(together, _p_more(by_itself, rest, log_s.shape[-2] - 1, n - 2), 1.0)


def _p_more(squares_of_one: Floats, rest: Floats, df: int, others: NDArray[np.int64]) -> Floats:
    """P of the F test that one contrast varies more than the `others`, each with `df`; 1 where these show no spread."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = special.fdtrc(df, df * others, squares_of_one * others / rest)
    return np.where((others > 0) & (rest > np.maximum(NO_SPREAD, NO_PART * squares_of_one)), p, 1.0)
