"""The algebra of spans against counting unit cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from interlace.trace import spans

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8).map(
    lambda pairs: np.array([(begin, begin + length) for begin, length in pairs], dtype=np.float64).reshape(-1, 2)
)


def cells(found: np.ndarray) -> set[int]:
    return {cell for begin, end in found.astype(int).tolist() for cell in range(begin, end)}


def tidy(found: np.ndarray) -> bool:
    return bool((found[:, 1] > found[:, 0]).all() and (found[1:, 0] > found[:-1, 1]).all())


@given(SPANS, SPANS)
def test_unions_differences_and_intersections_are_those_of_sets(one: np.ndarray, other: np.ndarray) -> None:
    a, b = spans.union(one), spans.union(other)

    assert cells(a) == cells(one)
    assert tidy(a)
    assert cells(spans.subtract(a, b)) == cells(a) - cells(b)
    assert spans.total(spans.subtract(a, b)) == len(cells(a) - cells(b))
    assert cells(spans.clip(a, 5, 17)) == cells(a) & set(range(5, 17))
