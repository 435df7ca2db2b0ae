"""What a candidate costs once and gains per step: when it has paid for itself. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST_ONCE_S = 1.0
"""A difference in the steps before the window below this is start-up noise, not a price."""


@dataclass(frozen=True)
class RunCost:
    """One run: seconds of all steps before the window, and of one step inside it."""

    before_s: float
    step_s: float


@dataclass(frozen=True)
class BreakEven:
    """`once_s` is paid before the window and `gain_s` won per step; `cold` is None without a colder first run.

    `steps` is how many steps it takes until the price is paid, None where nothing is gained.
    """

    once_s: float
    gain_s: float
    steps: int | None
    cold_once_s: float | None = None
    cold_steps: int | None = None


def break_even(baseline: Sequence[RunCost], candidate: Sequence[RunCost], window_first: int) -> BreakEven | None:
    """Compare what the arms spend before the window; None where the candidate pays nothing worth a line.

    Runs are in the order in which they were made: the candidate's first one found its compile cache cold, the
    later ones warm. Seconds before the window are compared beyond what those steps would have taken at the pace
    inside it.
    """
    if not baseline or not candidate:
        return None
    warm = list(candidate[1:]) or list(candidate)
    base_once = _middle([_once(run, window_first) for run in baseline])
    once_s = _middle([_once(run, window_first) for run in warm]) - base_once
    cold_s = _once(candidate[0], window_first) - base_once
    gain_s = _middle([run.step_s for run in baseline]) - _middle([run.step_s for run in candidate])
    if max(once_s, cold_s) < LEAST_ONCE_S:
        return None
    colder = len(candidate) > 1 and cold_s > 1.2 * once_s + LEAST_ONCE_S
    return BreakEven(
        once_s, gain_s, _paid_after(once_s, gain_s),
        cold_s if colder else None, _paid_after(cold_s, gain_s) if colder else None,
    )  # fmt: skip


def _once(run: RunCost, window_first: int) -> float:
    return run.before_s - (window_first - 1) * run.step_s


def _paid_after(once_s: float, gain_s: float) -> int | None:
    return math.ceil(max(once_s, 0.0) / gain_s) if gain_s > 0 else None


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def words(arm: str, found: BreakEven) -> str:
    """Write the line of a report: after how many steps a candidate has paid, warm and cold."""
    if found.steps is None:
        return f"{arm} pays {found.once_s:.1f} s once and gains nothing per step"
    gain = f"gains {1000.0 * found.gain_s:.3g} ms a step"
    warm = f"{arm} pays {found.once_s:.1f} s once and {gain}: paid after about {found.steps} steps"
    if found.cold_once_s is None:
        return warm
    return f"{warm} with a warm compile cache, {found.cold_steps} ({found.cold_once_s:.1f} s) with a cold one"


def payback(baseline: str, costs: Mapping[str, Sequence[RunCost]], window_first: int) -> list[str]:
    """Write a line for each arm that pays something once; `costs` maps arm -> its runs as they were made."""
    found = {
        arm: break_even(costs.get(baseline, []), runs, window_first) for arm, runs in costs.items() if arm != baseline
    }
    return [words(arm, one) for arm, one in found.items() if one is not None]
