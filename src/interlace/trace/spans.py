"""Spans of time as arrays of shape (n, 2), begin and end; unions are sorted and do not touch. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Spans = NDArray[np.float64]

NONE = np.empty((0, 2))


def union(spans: Spans) -> Spans:
    """Merge spans that overlap or touch."""
    if len(spans) == 0:
        return NONE
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ordered[:, 1])
    first = np.flatnonzero(np.concatenate(([True], ordered[1:, 0] > reached[:-1])))
    last = np.concatenate((first[1:] - 1, [len(ordered) - 1]))
    merged = np.column_stack((ordered[first, 0], reached[last]))
    return np.asarray(merged[merged[:, 1] > merged[:, 0]])


def total(spans: Spans) -> float:
    """Sum the lengths."""
    return float((spans[:, 1] - spans[:, 0]).sum())


def subtract(one: Spans, other: Spans) -> Spans:
    """Return what the first union has and the other has not."""
    if len(one) == 0 or len(other) == 0:
        return one
    edges = np.concatenate((one.ravel(), other.ravel()))
    change = np.concatenate((np.tile([1, -1], len(one)), np.tile([-2, 2], len(other))))
    order = np.lexsort((-change, edges))
    edges, level = edges[order], np.cumsum(change[order])
    inside = np.flatnonzero(level[:-1] == 1)
    left = np.column_stack((edges[inside], edges[inside + 1]))
    return np.asarray(left[left[:, 1] > left[:, 0]])


def clip(spans: Spans, begin: float, end: float) -> Spans:
    """Return the parts between `begin` and `end`."""
    cut = np.clip(spans, begin, end)
    return np.asarray(cut[cut[:, 1] > cut[:, 0]])
