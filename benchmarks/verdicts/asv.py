"""When asv takes two samples for different, written from what `asv/_stats.py` and `asv_runner/statistics.py` publish.

A Mann-Whitney U test at p < 0.002 where the sample sizes could reach that p, else 99 % intervals of the medians that
do not overlap; for the few values of that branch the interval is the one of a Laplace posterior.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from benchmarks.verdicts.arms import Floats
    from numpy.typing import NDArray

P_THRESHOLD = 0.002
TAIL = 0.005
MOST_EXACT = 20
"""Up to this sample size the distribution of U is counted, above it is taken as normal."""


def is_different(a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Whether samples differ, row by row; shapes (sweeps, n) with the same n."""
    n = a.shape[1]
    if 1.0 / math.comb(2 * n, n) < P_THRESHOLD:
        return np.asarray(u_test_p(a, b) < P_THRESHOLD)
    (low_a, high_a), (low_b, high_b) = median_interval(a), median_interval(b)
    return np.asarray((high_a < low_b) | (high_b < low_a))


def u_test_p(a: Floats, b: Floats) -> Floats:
    """Two-sided p of the U test, ties broken the least significant way; shapes (sweeps, n) with the same n."""
    n = a.shape[1]
    greater, less = pairs(a, b)
    middle = n * n // 2
    # With ties U may be anything between the pairs won and the pairs not lost: the nearest to the middle counts.
    nearest = np.clip(middle, greater, n * n - less)
    u = np.minimum(nearest, n * n - nearest)
    if n > MOST_EXACT:
        return np.asarray(2.0 * special.ndtr((u - n * n / 2.0) / math.sqrt(n * n * (2 * n + 1) / 12.0)))
    return np.asarray(np.minimum(1.0, 2.0 * u_distribution(n)[u]))


def pairs(a: Floats, b: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs in which a is greater and in which it is less, row by row; equal ones are neither."""
    joined = np.concatenate([a, b], axis=1)
    order = np.argsort(joined, axis=1)
    values = np.take_along_axis(joined, order, axis=1)
    of_a = order < a.shape[1]
    starts = np.diff(values, axis=1, prepend=-np.inf) > 0
    group = np.maximum.accumulate(np.where(starts, np.arange(values.shape[1]), 0), axis=1)
    return _smaller(~of_a, of_a, group), _smaller(of_a, ~of_a, group)


def _smaller(ours: NDArray[np.bool_], theirs: NDArray[np.bool_], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs in which ours is smaller; all in sorted order, `group` is where the equal values begin."""
    before: NDArray[np.int64] = np.cumsum(ours, axis=1) - ours
    return np.asarray((np.take_along_axis(before, group, axis=1) * theirs).sum(axis=1))


@cache
def u_distribution(n: int) -> Floats:
    """P(U <= u) for u = 0 .. n * n, two samples of size n (Mann and Whitney 1947)."""
    # Ways to place each of n values after 0 .. n of the other sample: coefficients of a Gaussian binomial.
    ways = np.zeros((n + 1, n * n + 1))
    ways[0, 0] = 1.0
    for larger in range(n + 1):
        for chosen in range(1, n + 1):
            ways[chosen, larger:] += ways[chosen - 1, : n * n + 1 - larger]
    return np.asarray(np.cumsum(ways[n]) / math.comb(2 * n, n))


def median_interval(values: Floats) -> tuple[Floats, Floats]:
    """Bounds of the 99 % interval of the median, row by row, shape (sweeps, n) with 2 <= n <= 7.

    Posterior of the centre beta under Laplace noise of unknown scale: proportional to S(beta) ** -n, with S the
    sum of |y - beta|. Outside the sample S is a straight line of slope n, so that its tails are closed forms; a
    bound inside the sample is moved out to its end.
    """
    y = np.sort(values, axis=1)
    n = y.shape[1]
    centred = y - np.median(y, axis=1, keepdims=True)
    scale = np.abs(centred).sum(axis=1, keepdims=True)
    degenerate = scale[:, 0] == 0
    z = centred / np.where(scale > 0, scale, 1.0)
    z[degenerate] = np.linspace(-1.0, 1.0, n) / n
    distance = np.abs(z[:, :, None] - z[:, None, :]).sum(axis=2)
    mass = distance ** -(n - 1.0) / (n * (n - 1.0))
    whole = mass[:, 0] + mass[:, -1] + _between(z, distance)
    edge = (TAIL * whole * n * (n - 1.0)) ** (-1.0 / (n - 1.0))
    low = np.where(mass[:, 0] > TAIL * whole, (z.sum(axis=1) - edge) / n, z[:, 0])
    high = np.where(mass[:, -1] > TAIL * whole, (z.sum(axis=1) + edge) / n, z[:, -1])
    middle, width = np.median(y, axis=1), np.where(degenerate, 0.0, scale[:, 0])
    return middle + width * low, middle + width * high


def _between(z: Floats, distance: Floats) -> Floats:
    """Integral of S ** -n between the smallest and the largest value; S is a straight line from one to the next."""
    n = z.shape[1]
    slopes = 2.0 * np.arange(1, n) - n
    power = distance ** -(n - 1.0)
    sloped = (power[:, :-1] - power[:, 1:]) / (np.where(slopes == 0, 1.0, slopes) * (n - 1.0))
    flat = np.diff(z, axis=1) * distance[:, :-1] ** -float(n)
    return np.asarray(np.where(slopes == 0, flat, sloped).sum(axis=1))
