"""What a candidate costs once and gains per step: when it has paid for itself. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from interlace.schema import StepSummary, Verdict

LEAST_ONCE_S = 1.0
"""A difference in the steps before the window below this is start-up noise, not a price."""


@dataclass(frozen=True)
class RunCost:
    """One run: what its `before_n` steps before the window took, and one step inside it (s)."""

    before_s: float
    step_s: float
    before_n: int


@dataclass(frozen=True)
class BreakEven:
    """`once_s` is paid before the window, `gain_s` won per step; `cold_once_s` is None without a colder first run."""

    once_s: float
    gain_s: float
    cold_once_s: float | None = None


def costs_of(runs: Iterable[StepSummary]) -> list[RunCost]:
    """Return what each run cost, of those whose log holds every step before the window."""
    return [RunCost(one.before_s, one.stat_s, one.before_n) for one in runs if one.before_s is not None]


def break_even(baseline: Sequence[RunCost], candidate: Sequence[RunCost]) -> BreakEven | None:
    """Compare what the arms spend before the window; None where the candidate pays nothing worth a line.

    Runs are in the order in which they were made: the candidate's first one found its compile cache cold, the
    later ones warm. Seconds before the window are compared beyond what those steps would have taken at the pace
    inside it.
    """
    if not baseline or not candidate:
        return None
    warm = list(candidate[1:]) or list(candidate)
    base_once = statistics.median(_once(run) for run in baseline)
    once_s = statistics.median(_once(run) for run in warm) - base_once
    cold_s = _once(candidate[0]) - base_once
    gain_s = statistics.median(run.step_s for run in baseline) - statistics.median(run.step_s for run in candidate)
    if max(once_s, cold_s) < LEAST_ONCE_S:
        return None
    colder = len(candidate) > 1 and cold_s > 1.2 * max(once_s, 0.0) + LEAST_ONCE_S
    return BreakEven(once_s, gain_s, cold_s if colder else None)


def _once(run: RunCost) -> float:
    return run.before_s - run.before_n * run.step_s


def words(arm: str, found: BreakEven, *, faster: bool) -> str:
    """Write the line of a report: after how many steps a candidate has paid, warm and cold.

    A gain that was not told from noise pays nothing back.
    """
    price = _price(found.once_s)
    if found.cold_once_s is not None:
        price = f"{price} with warm caches, {_price(found.cold_once_s)} in its first run"
    if not faster or found.gain_s <= 0:
        return f"{arm} pays once: {price}; no gain per step is shown that would pay it back"
    steps = f"{_steps(found.once_s, found.gain_s)} steps"
    if found.cold_once_s is not None:
        steps = f"{steps}, or {_steps(found.cold_once_s, found.gain_s)} of a first run"
    return f"{arm} pays once: {price}; it gains {1000.0 * found.gain_s:.3g} ms a step: paid after {steps} or so"


def _price(once_s: float) -> str:
    return f"{once_s:.1f} s" if once_s >= LEAST_ONCE_S else f"under {LEAST_ONCE_S:g} s"


def _steps(once_s: float, gain_s: float) -> int:
    return math.ceil(max(once_s, 0.0) / gain_s)


def payback(baseline: str, costs: Mapping[str, Sequence[RunCost]], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Write a line for each arm that pays something once; `costs` maps arm -> its runs as they were made."""
    found = {arm: break_even(costs.get(baseline, []), runs) for arm, runs in costs.items() if arm != baseline}
    return [words(arm, one, faster=verdicts.get(arm) == "faster") for arm, one in found.items() if one is not None]
