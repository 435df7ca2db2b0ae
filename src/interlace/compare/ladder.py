"""The commit table: each row against the one above it and against the first, from shared rounds. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlace.compare.rounds import complete_rounds, usable_runs
from interlace.compare.verdict import Evidence, judge
from interlace.stats.interval import Estimate, estimate
from interlace.stats.multiple import holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from interlace.schema import Verdict

    Floats = NDArray[np.float64]

SHARED_ROWS = "rows share measurements; adjacent changes of opposite sign may be one noisy row"


@dataclass(frozen=True)
class Step:
    """One change: a time ratio (below 1 is faster) with its interval, and what it is called."""

    ratio: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class Rung:
    """One row: `previous` and `first` compare it with the row above and with the first one; None in the first row.

    Verdicts of `previous` are adjusted for the number of rows (Holm).
    """

    arm: str
    previous: Step | None = None
    first: Step | None = None


@dataclass(frozen=True)
class Ladder:
    """The rows that have complete rounds, and the total: the last row against the first, by its own interval."""

    rungs: tuple[Rung, ...]
    total: str
    notes: tuple[str, ...] = (SHARED_ROWS,)


def climb(runs: pd.DataFrame, arms: Sequence[str], confidence: float = 0.95, margin: float = 0.01) -> Ladder | None:
    """Build the commit table of `arms`, in their order; None with fewer than three arms or two complete rounds.

    `runs` as in `compare`. Adjacent differences use the pooled residual of round + arm; the total is taken from
    the first and last row directly, since adding rows would add their noise (methodology 4.12).
    """
    usable, _ = usable_runs(runs)
    table = complete_rounds(usable, arms[0], arms)
    present = [arm for arm in arms if arm in table.arms]
    if len(present) < 3 or len(table.rounds) < 2:  # noqa: PLR2004 (a ladder has rungs; an interval needs two rounds)
        return None
    log_s = table.log_stat[:, [table.arms.index(arm) for arm in present]]
    adjacent = [estimate(log_s, base=row - 1) for row in range(1, len(present))]
    # Without arm `row - 1` the candidates keep their order, so arm `row` stands at index `row - 1`.
    p = holm([_p(found, row) for row, found in enumerate(adjacent)])
    from_first = estimate(log_s, base=0)
    rungs = [Rung(present[0])]
    for row, arm in enumerate(present[1:]):
        previous = _step(
            adjacent[row].effect[row], _half(adjacent[row], confidence, row), bool(p[row] < 1.0 - confidence)
        )
        first = _step(from_first.effect[row], _half(from_first, confidence, row), None)
        rungs.append(Rung(arm, previous, first))
    return Ladder(tuple(rungs), _total(log_s[:, [0, -1]], present, confidence, margin))


def _p(found: Estimate, index: int) -> float:
    p = found.p_value()
    return 1.0 if p is None else float(p[index])


def _half(found: Estimate, confidence: float, index: int) -> float:
    width = found.half_width(confidence)
    return math.inf if width is None else float(np.broadcast_to(width, found.effect.shape)[index])


def _step(effect: float, half: float, called: bool | None) -> Step:
    """Turn an effect into a step; `called` is the adjusted decision, None decides by the interval alone."""
    real = abs(effect) > half if called is None else called
    verdict: Verdict = "within noise" if not real else "faster" if effect < 0 else "slower"
    return Step(math.exp(effect), math.exp(effect - half), math.exp(effect + half), verdict)


def _total(pair: Floats, arms: Sequence[str], confidence: float, margin: float) -> str:
    """Word the whole ladder: last row against the first, over their own paired rounds."""
    found = estimate(pair)
    effect, rounds = float(found.effect[0]), len(pair)
    half = _half(found, confidence, 0)
    ratios = pair[:, 1] - pair[:, 0]
    evidence = Evidence(
        ratio=math.exp(effect), low=math.exp(effect - half), high=math.exp(effect + half), confidence=confidence,
        rounds=rounds, rounds_faster=int((ratios < 0).sum()), rounds_slower=int((ratios > 0).sum()), margin=margin,
        provisional=rounds == 2,  # noqa: PLR2004 (4.3)
    )  # fmt: skip
    return f"{arms[-1]} against {arms[0]}, {math.exp(-effect):.2f}x: {judge(evidence)[1]}"
