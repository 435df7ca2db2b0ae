"""Is the step time still moving inside the window? (methodology 4.9). Warns; never moves the window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

BLOCKS = 10
FIRST, LAST = 3, 5
LEAST_CHANGE = 0.01
STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class WarmUp:
    """Relative change from the first 30 % of the window to its last half, and its standard error."""

    change: float
    standard_error: float
    moving: bool


def check_warm_up(runs_step_s: Sequence[ArrayLike]) -> WarmUp | None:
    """Compare the beginning and the end of the window over all runs of one arm.

    Each entry holds the step times of one run's window in order. Runs are cut into ten blocks of an even
    number of steps (an odd one would beat with alternating steps), divided by their own mean and averaged.
    None where the window holds fewer than 20 steps.
    """
    profiles = [profile for steps in runs_step_s if (profile := _profile(np.asarray(steps, float))) is not None]
    if not profiles:
        return None
    profile = np.mean(profiles, axis=0)
    first, last = profile[:FIRST], profile[-LAST:]
    change = float(last.mean() - first.mean())
    squares = ((first - first.mean()) ** 2).sum() + ((last - last.mean()) ** 2).sum()
    error = math.sqrt(float(squares) / (FIRST + LAST - 2) * (1.0 / FIRST + 1.0 / LAST))
    return WarmUp(change, error, abs(change) > max(LEAST_CHANGE, STANDARD_ERRORS * error))


def _profile(step_s: NDArray[np.float64]) -> NDArray[np.float64] | None:
    size = len(step_s) // BLOCKS // 2 * 2
    if size == 0 or not np.isfinite(step_s).all() or step_s.mean() <= 0:
        return None
    blocks = step_s[-BLOCKS * size :].reshape(BLOCKS, size).mean(axis=1)
    return np.asarray(blocks / blocks.mean())
