"""False calls and coverage under the noise that sweeps meet, by the code that users run. Fixed seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from interlace.order import order_runs_mirrored
from interlace.stats import estimate, holm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

pytestmark = pytest.mark.costly

TRIALS = 6000
SIGMA = 0.01


def noise(kind: str, rng: np.random.Generator, runs: int) -> Floats:
    """Log run statistics in the order of time, shape (trials, runs)."""
    iid = SIGMA * rng.standard_normal((TRIALS, runs))
    t = np.arange(runs) / max(1, runs - 1)
    if kind == "linear drift":
        return iid + 0.03 * t
    if kind == "settling":
        return iid + 0.03 * np.exp(-5 * t)
    if kind == "step":
        return iid + 0.03 * (np.arange(runs) >= rng.integers(1, runs, (TRIALS, 1)))
    if kind == "resembling":
        correlated = iid.copy()
        for run in range(1, runs):
            correlated[:, run] = 0.5 * correlated[:, run - 1] + np.sqrt(0.75) * iid[:, run]
        return correlated
    if kind == "outliers":
        return iid + 0.1 * (rng.random((TRIALS, runs)) < 0.03)
    return iid


def in_rounds(values: Floats, arms: int, rounds: int) -> Floats:
    """Bring runs from the order of time into shape (trials, rounds, arms)."""
    names = [str(arm) for arm in range(arms)]
    _, order = order_runs_mirrored(names, rounds, seed=1)
    table = np.empty((len(values), rounds, arms))
    for position, (r, arm) in enumerate((r, int(arm)) for r, row in enumerate(order) for arm in row):
        table[:, r, arm] = values[:, position]
    return table


@pytest.mark.parametrize("kind", ["iid", "linear drift", "settling", "step", "resembling", "outliers"])
@pytest.mark.parametrize("rounds", [2, 3, 4, 8])
@pytest.mark.parametrize("arms", [2, 5, 11])
def test_identical_arms_are_rarely_told_apart(kind: str, rounds: int, arms: int) -> None:
    rng = np.random.default_rng([rounds, arms, len(kind)])
    found = estimate(in_rounds(noise(kind, rng, rounds * arms), arms, rounds))
    half, p = found.half_width(0.95), found.p_value()
    assert half is not None
    assert p is not None

    coverage = (np.abs(found.effect) <= half).mean()
    any_called = (holm(p).min(axis=-1) < 0.05).mean()

    assert coverage >= 0.93
    assert any_called <= 0.07


@pytest.mark.parametrize("spreads", [(1, 1, 1, 1, 10), (10, 1, 1, 1, 1), (1, 1, 10, 10, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("rounds", [4, 8])
def test_arms_that_vary_unlike_the_others_are_covered_too(spreads: tuple[int, ...], rounds: int) -> None:
    rng = np.random.default_rng([rounds, *spreads])
    found = estimate(SIGMA * rng.standard_normal((TRIALS, rounds, len(spreads))) * spreads)
    half, p = found.half_width(0.95), found.p_value()
    assert half is not None
    assert p is not None

    assert (np.abs(found.effect) <= half).mean(axis=0).min() >= 0.90
    assert (holm(p).min(axis=-1) < 0.05).mean() <= 0.10


def test_one_noisy_arm_does_not_hide_what_the_calm_ones_show() -> None:
    rng = np.random.default_rng(7)
    table = SIGMA / 10 * rng.standard_normal((TRIALS, 4, 8)) * [1, 1, 1, 1, 1, 1, 1, 30]
    table[..., 1] += np.log(0.99)
    p = estimate(table).p_value()
    assert p is not None

    assert (holm(p)[:, 0] < 0.05).mean() >= 0.9


@pytest.mark.parametrize(("rounds", "least"), [(2, 0.52), (3, 0.66), (4, 0.92), (5, 0.97)])
def test_a_two_percent_effect_is_found_as_often_as_published(rounds: int, least: float) -> None:
    rng = np.random.default_rng(rounds)
    table = in_rounds(noise("iid", rng, 2 * rounds) / 2, 2, rounds)
    table[..., 1] += np.log(0.98)
    p = estimate(table).p_value()
    assert p is not None

    assert (p < 0.05).mean() >= least


def test_mirrored_rounds_take_linear_drift_out_of_the_estimate() -> None:
    runs = np.arange(8) * 0.03 / 7

    assert estimate(in_rounds(runs[None], 2, 4)).effect[0, 0] == pytest.approx(0.0, abs=1e-15)
