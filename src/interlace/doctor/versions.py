"""Whether a version lies in a range such as `<1.4,>=1.3.8`: what our own metadata uses, not all of PEP 440."""

from __future__ import annotations

import operator
import re
from itertools import zip_longest

_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([0-9.]+)")


def satisfies(version: str, wanted: str) -> bool:
    """Compare release numbers alone; a local label (`+cu128`) and what follows the numbers do not count.

    A clause that is not understood holds: a doctor must not invent an illness.
    """
    clauses = (_CLAUSE.fullmatch(clause) for clause in wanted.split(",") if clause.strip())
    return all(_COMPARE[one[1]](*_aligned(version, one[2])) for one in clauses if one is not None)


def _aligned(first: str, second: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return both releases as numbers, the shorter one filled up with zeros: 1.4 is 1.4.0."""
    pairs = list(zip_longest(_release(first), _release(second), fillvalue=0))
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def _release(version: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else []
