"""What a log can show at all: the quantum of its values, and the bias that rounding can leave."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FINEST_S = 1e-9
"""Gaps of a nanosecond and below are arithmetic, not recording."""
COARSE = 0.002
"""Above this relative bound a log is called coarse."""


def quantum(values: NDArray[np.float64], magnitude: float | None = None) -> float | None:
    """Smallest gap between distinct recorded values, in the unit of `values`; None when all are equal.

    `magnitude` is the largest number the values were computed from (a clock reading, say): its float64
    rounding is not taken for resolution.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    largest = float(np.abs(ordered).max()) if magnitude is None else magnitude
    noise = max(FINEST_S, 8.0 * float(np.finfo(np.float64).eps) * largest)
    gaps = np.diff(ordered)
    gaps = gaps[gaps > noise]
    return float(gaps.min()) if gaps.size else None


def resolution_bound(mean_s: float, sd_s: float, n: int, quantum_s: float | None, *, cumulative: bool) -> float | None:
    """Largest relative bias that rounding can leave in the run statistic; None when nothing can be said.

    Cumulative clock: only the two ends are rounded, q / (n T). Rounded durations: the first Fourier term of
    the rounding error, (q / (pi T)) exp(-2 pi^2 s^2 / q^2), with Sheppard's s^2 = var - q^2 / 12.
    """
    if mean_s <= 0:
        return None
    if cumulative:
        # A clock whose steps are all equal still cannot tick slower than one step.
        return (mean_s if quantum_s is None else quantum_s) / (n * mean_s)
    if quantum_s is None:
        return None
    variance = max(sd_s**2 - quantum_s**2 / 12.0, 0.0)
    return quantum_s / (math.pi * mean_s) * math.exp(-2.0 * math.pi**2 * variance / quantum_s**2)
