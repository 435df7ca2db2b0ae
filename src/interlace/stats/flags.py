"""Unusual runs: flagged, shown and kept (methodology 4.7). The rule is blind to the arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LEAST_DEVIATION = 0.03
MADS = 5.0 * 1.4826
STALL_SHARE = 0.05


@dataclass(frozen=True)
class Flag:
    """One unusual run, by its place in the table of rounds x arms, and why."""

    round_index: int
    arm_index: int
    reason: str


def flag_runs(log_s: ArrayLike, stall_share: ArrayLike | None = None) -> list[Flag]:
    """Flag runs far from their arm's median, or with many stalls; both arguments have shape (rounds, arms).

    Far is more than 3 % and more than five scaled median absolute deviations of all arm-centred runs.
    """
    values = np.asarray(log_s, dtype=np.float64)
    deviation = values - np.median(values, axis=0)
    limit = max(LEAST_DEVIATION, MADS * float(np.median(np.abs(deviation))))
    stalls = np.zeros_like(values) if stall_share is None else np.asarray(stall_share, dtype=np.float64)
    flags = []
    for row, column in np.argwhere((np.abs(deviation) > limit) | (stalls > STALL_SHARE)):
        reasons = []
        if abs(deviation[row, column]) > limit:
            reasons.append(f"{100.0 * math.expm1(deviation[row, column]):+.1f} %")
        if stalls[row, column] > STALL_SHARE:
            reasons.append(f"{100.0 * stalls[row, column]:.0f} % of its time in stalls")
        flags.append(Flag(int(row), int(column), ", ".join(reasons)))
    return flags
