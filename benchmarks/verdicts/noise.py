"""Simulated sweeps: the noises of methodology 3.1 between runs, and independent steps inside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.verdicts.arms import STEPS, Runs, runs_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.verdicts.arms import Floats

STEP_CV = (0.01, 0.03)
SETTLING_RATE = 5.0
OUTLIER_SHARE, OUTLIER_SIZE = 0.03, 0.10
RESEMBLANCE = 0.5


@dataclass(frozen=True)
class Draws:
    """Random numbers of many sweeps; `normal` and `uniform` (sweeps, runs), `sign` and `where` (sweeps, 1).

    `steps` are runs that differ by the noise of their steps only, about one second a step.
    """

    normal: Floats
    uniform: Floats
    sign: Floats
    where: Floats
    steps: Runs

    def first(self, runs: int) -> Draws:
        """Shorter sweeps out of the same numbers."""
        steps = Runs(self.steps.run_s[:, :runs], self.steps.step_s[:, :runs])
        return Draws(self.normal[:, :runs], self.uniform[:, :runs], self.sign, self.where, steps)


def draw(rng: np.random.Generator, sweeps: int, runs: int) -> Draws:
    """Numbers for `sweeps` sweeps of `runs` runs; each sweep has its own spread of steps, 1 to 3 %."""
    cv = rng.uniform(*STEP_CV, (sweeps, 1, 1)).astype(np.float32)
    steps = np.exp(cv * rng.standard_normal((sweeps, runs, STEPS), dtype=np.float32))
    return Draws(
        normal=rng.standard_normal((sweeps, runs)),
        uniform=rng.random((sweeps, runs)),
        sign=rng.choice([-1.0, 1.0], (sweeps, 1)),
        where=rng.random((sweeps, 1)),
        steps=runs_from(steps),
    )


def independent(draws: Draws, sigma: float) -> Floats:
    """Give log run times of equal spread and nothing else, shape (sweeps, runs)."""
    return sigma * draws.normal


def drift(draws: Draws, sigma: float, size: float) -> Floats:
    """Add a straight line over the sweep, up or down."""
    return independent(draws, sigma) + draws.sign * size * _time(draws)


def settling(draws: Draws, sigma: float, size: float) -> Floats:
    """Add a start that is off and decays, gone after about half of the sweep."""
    return independent(draws, sigma) + draws.sign * size * np.exp(-SETTLING_RATE * _time(draws))


def jump(draws: Draws, sigma: float, size: float) -> Floats:
    """Add a step up or down between any two runs."""
    runs = draws.normal.shape[1]
    at = 1 + np.floor(draws.where * (runs - 1))
    return np.asarray(independent(draws, sigma) + draws.sign * size * (np.arange(runs) >= at))


def resembling(draws: Draws, sigma: float) -> Floats:
    """Let each run resemble the one before it: AR(1) with 0.5, of the same spread."""
    values = independent(draws, sigma)
    for run in range(1, values.shape[1]):
        values[:, run] = RESEMBLANCE * values[:, run - 1] + np.sqrt(1.0 - RESEMBLANCE**2) * values[:, run]
    return values


def outliers(draws: Draws, sigma: float) -> Floats:
    """Let three runs in a hundred take 10 % more."""
    return independent(draws, sigma) + OUTLIER_SIZE * (draws.uniform < OUTLIER_SHARE)


NOISES: dict[str, Callable[[Draws, float], Floats]] = {
    "independent": independent,
    "drift 1 %": partial(drift, size=0.01),
    "drift 3 %": partial(drift, size=0.03),
    "settling 1 %": partial(settling, size=0.01),
    "settling 3 %": partial(settling, size=0.03),
    "jump 1 %": partial(jump, size=0.01),
    "jump 3 %": partial(jump, size=0.03),
    "resembling": resembling,
    "outliers": outliers,
}


def sweeps_of(draws: Draws, noise: str, sigma: float) -> Runs:
    """Make runs in the order of time, under one noise of spread `sigma` (relative)."""
    return draws.steps.times(np.exp(NOISES[noise](draws, sigma)))


def _time(draws: Draws) -> Floats:
    """From 0 at the first run to 1 at the last."""
    return np.linspace(0.0, 1.0, draws.normal.shape[1])
