"""Runs of two arms in many sweeps at once: the shape that every rule is given, and the orders they are made in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from interlace.order import order_runs_mirrored
from interlace.stats.run import trimmed_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Steps = NDArray[np.float32]

OrderName = Literal["sequential", "ABAB", "ABBA", "mirrored"]
STEPS = 250
BLOCK = 10


@dataclass(frozen=True)
class Runs:
    """Runs of many sweeps. Any second axis: runs in the order of time, or the rounds of one arm.

    `run_s` (sweeps, runs) are run statistics, `step_s` (sweeps, runs, steps) single steps, both in seconds.
    """

    run_s: Floats
    step_s: Steps

    def times(self, factor: Floats | float) -> Runs:
        """Multiply all times; `factor` is one number or one a run, shape (sweeps, runs)."""
        return Runs(self.run_s * factor, self.step_s * np.asarray(factor, dtype=np.float32)[..., None])

    def pick(self, runs: list[int]) -> Runs:
        """Keep some runs of every sweep."""
        return Runs(self.run_s[:, runs], self.step_s[:, runs])


def runs_from(step_s: Steps) -> Runs:
    """Give runs Interlace's statistic: the trimmed mean of 10-step blocks (methodology 4.2)."""
    blocks = step_s.reshape(*step_s.shape[:2], -1, BLOCK).mean(axis=-1, dtype=np.float64)
    return Runs(np.apply_along_axis(trimmed_mean, -1, blocks), step_s)


def order_of(name: OrderName, rounds: int) -> str:
    """All runs in the order of time, "ABBA" for two mirrored rounds."""
    if name == "sequential":
        return "A" * rounds + "B" * rounds
    if name == "mirrored":
        return "".join("".join(row) for row in order_runs_mirrored(("A", "B"), rounds, seed=1)[1])
    pair = ("AB", "AB") if name == "ABAB" else ("AB", "BA")
    return "".join(pair[number % 2] for number in range(rounds))


def split(runs: Runs, order: str) -> tuple[Runs, Runs]:
    """Baseline (A) and candidate (B) out of runs in the order of time; the k-th of each form round k."""
    first, second = ([i for i, arm in enumerate(order) if arm == name] for name in "AB")
    return runs.pick(first), runs.pick(second)
