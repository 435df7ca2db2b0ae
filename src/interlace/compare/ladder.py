"""The commit table: each row against the one above it and against the first, from shared rounds. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from interlace.compare.coarse import pair_resolution
from interlace.compare.comparison import NO_SPREAD, NO_WIDTH, log_range
from interlace.compare.rounds import complete_rounds, usable_runs
from interlace.compare.verdict import Evidence, judge
from interlace.stats.interval import Estimate, estimate, rounds_needed
from interlace.stats.multiple import holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
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

    Verdicts are adjusted for the number of rows (Holm).
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

    @property
    def footer(self) -> tuple[str, ...]:
        """What stands under the table."""
        alone = (
            "in all, by the rounds of first and last row alone (the spread that rows share is no ground for a total)"
        )
        return (f"{alone}: {self.total}", *self.notes)


def climb(runs: pd.DataFrame, arms: Sequence[str], confidence: float = 0.95, margin: float = 0.01) -> Ladder | None:
    """Build the commit table of `arms`, in their order; None with fewer than three arms or two complete rounds.

    `runs` as in `compare`, whose order may be judged. Adjacent differences use the pooled residual of round + arm,
    where the rows vary alike (see `estimate`); the total is taken from the first and last row directly, since adding
    rows would add their noise (methodology 4.12). Rows whose logs are too coarse are not judged.
    """
    usable, _ = usable_runs(runs)
    table = complete_rounds(usable, arms[0], arms)
    present = [arm for arm in arms if arm in table.arms]
    if len(present) < 3 or len(table.rounds) < 2:  # noqa: PLR2004 (a ladder has rungs; an interval needs two rounds)
        return None
    log_s = table.log_stat[:, [table.arms.index(arm) for arm in present]]
    adjacent = [estimate(log_s, base=row - 1) for row in range(1, len(present))]
    # Without arm `row - 1` the candidates keep their order, so arm `row` stands at index `row - 1`.
    from_first = [estimate(log_s, base=0)] * len(adjacent)
    previous = _steps(adjacent, confidence, [pair_resolution(usable, *pair) for pair in pairwise(present)])
    first = _steps(from_first, confidence, [pair_resolution(usable, present[0], arm) for arm in present[1:]])
    rungs = [Rung(present[0]), *map(Rung, present[1:], previous, first)]
    known = pair_resolution(usable, present[0], present[-1])
    notes = (SHARED_ROWS, *_own_rounds(present, adjacent), *_passed_over(arms, present))
    return Ladder(tuple(rungs), _total(log_s[:, [0, -1]], present, confidence, margin, known), notes)


def _own_rounds(rows: Sequence[str], adjacent: Sequence[Estimate]) -> tuple[str, ...]:
    """Name the rows whose change is judged by its own rounds, not by the spread that the rows share."""
    own = [arm for index, (arm, found) in enumerate(zip(rows[1:], adjacent, strict=True)) if found.own_rounds[index]]
    return (f"judged by their own rounds against the row above: {', '.join(own)}",) if own else ()


def _passed_over(arms: Sequence[str], present: Sequence[str]) -> list[str]:
    """Say which rows are not compared with the one right above, since that has no run that counts."""
    notes = []
    for above, arm in pairwise(present):
        between = arms[list(arms).index(above) + 1 : list(arms).index(arm)]
        if between:
            notes.append(f"{arm} is compared with {above}: no run of {', '.join(between)} counts")
    return notes


def _p(found: Estimate, index: int) -> float:
    p = found.p_value()
    return 1.0 if p is None else float(p[index])


def _half(found: Estimate, confidence: float, index: int) -> float:
    width = found.half_width(confidence)
    return math.inf if width is None else float(width[index])


Known = tuple[float | None, str | None]
"""What the logs of two rows can resolve, and why they show nothing."""


def _steps(found: Sequence[Estimate], confidence: float, known: Sequence[Known]) -> list[Step]:
    """Turn the effect of each row into a step, called so where its adjusted p says so."""
    p = holm([_p(one, row) for row, one in enumerate(found)])
    return [_step(one, confidence, row, bool(p[row] < 1.0 - confidence), known[row]) for row, one in enumerate(found)]


def _step(found: Estimate, confidence: float, row: int, called: bool, known: Known) -> Step:
    effect, half = float(found.effect[row]), _half(found, confidence, row)
    resolution, coarse = known
    real = called and abs(math.expm1(effect)) > (resolution or 0.0)
    verdict: Verdict = "within noise" if not real else "faster" if effect < 0 else "slower"
    if coarse is not None or half < NO_WIDTH:
        verdict = "not judged"
    return Step(math.exp(effect), math.exp(effect - half), math.exp(effect + half), verdict)


def _total(
    pair: Floats, arms: Sequence[str], confidence: float, margin: float, known: tuple[float | None, str | None]
) -> str:
    """Word the whole ladder: last row against the first, over their own paired rounds."""
    found = estimate(pair)
    effect, rounds = float(found.effect[0]), len(pair)
    half = _half(found, confidence, 0)
    ratios = pair[:, 1] - pair[:, 0]
    evidence = Evidence(
        ratio=math.exp(effect), low=math.exp(effect - half), high=math.exp(effect + half), confidence=confidence,
        rounds=rounds, rounds_faster=int((ratios < 0).sum()), rounds_slower=int((ratios > 0).sum()), margin=margin,
        provisional=rounds == 2, resolution=known[0] or 0.0,  # noqa: PLR2004 (4.3)
        reason=known[1] or (NO_SPREAD if half < NO_WIDTH else None), spread=log_range(ratios),
        rounds_needed=rounds_needed(float(ratios.std(ddof=1)) / math.sqrt(2.0), margin, 2, confidence),
    )  # fmt: skip
    return f"{arms[-1]} against {arms[0]}, {math.exp(-effect):.2f}x: {judge(evidence)[1]}"
