"""Drift over a sweep: run statistics as arm + linear time (methodology 4.8). Decides no verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlace.stats.interval import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drift:
    """Change over the whole sweep and the effects that remain beside it, all as logs of ratios.

    `effects` and `effect_halves` have one entry an arm, against `base` (whose own are 0); `lag1` is the
    correlation of each residual with the next in time, None where it cannot be computed.
    """

    total: float
    half: float
    df: int
    effects: tuple[float, ...]
    effect_halves: tuple[float, ...]
    lag1: float | None


def fit_drift(log_s: ArrayLike, arm: ArrayLike, t: ArrayLike, base: int = 0, confidence: float = 0.95) -> Drift | None:
    """Fit ln y = arm + b t by least squares; b is the change from the first to the last start.

    All three have one entry a run; `arm` numbers the arms from 0, `t` are start times in any unit. None where
    time cannot be told from the arms, or no degree of freedom is left.
    """
    y, index = np.asarray(log_s, dtype=np.float64), np.asarray(arm, dtype=np.int64)
    time = np.asarray(t, dtype=np.float64)
    if not np.isfinite(time).all() or time.max() == time.min():
        return None
    arms = int(index.max()) + 1
    design = np.column_stack([np.eye(arms)[index], (time - time.min()) / (time.max() - time.min())])
    df = y.size - design.shape[1]
    if df < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ y
    residual = y - design @ coefficients
    covariance = inverse * float(residual @ residual) / df
    quantile = t_quantile(confidence, df)
    contrasts = np.column_stack([np.eye(arms) - np.eye(arms)[base], np.zeros(arms)])
    halves = quantile * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts), 0.0))
    return Drift(
        float(coefficients[-1]),
        float(quantile * np.sqrt(covariance[-1, -1])),
        df,
        tuple(float(value) for value in contrasts @ coefficients),
        tuple(float(value) for value in halves),
        _lag1(residual[np.argsort(time, kind="stable")]),
    )


def _lag1(residual: Floats) -> float | None:
    power = float(residual @ residual)
    return float(residual[1:] @ residual[:-1]) / power if power > 0 else None
