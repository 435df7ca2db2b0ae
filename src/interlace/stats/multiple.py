"""Many candidates against one baseline: what must be allowed for when the best of several is picked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm-adjusted p values, shape (..., candidates) as given (Holm 1979)."""
    values = np.asarray(p, dtype=np.float64)
    m = values.shape[-1]
    order = np.argsort(values, axis=-1, kind="stable")
    stepped = np.take_along_axis(values, order, axis=-1) * (m - np.arange(m))
    adjusted = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    result = np.empty_like(adjusted)
    np.put_along_axis(result, order, adjusted, axis=-1)
    return result


def expected_best(candidates: int, s_run: float, rounds: int) -> float:
    """How much faster (relative) the best of `candidates` is expected to look when none of them differs.

    Mean of the largest of m standard normals, times the standard deviation of an arm's mean.
    """
    z = np.linspace(-8.0, 8.0, 4001)
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    largest = candidates * z * density * special.ndtr(z) ** (candidates - 1)
    return float(largest.sum() * (z[1] - z[0])) * s_run / math.sqrt(rounds)
