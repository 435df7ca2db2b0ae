"""Drift, unusual runs, and settling inside the window."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from interlace.stats import Flag, check_warm_up, fit_drift, flag_runs

ORDER = np.array([0, 1, 1, 0, 1, 0, 0, 1])


def test_linear_drift_and_the_effect_beside_it_are_recovered() -> None:
    t = np.arange(8.0)
    y = 0.014 * t / 7 - 0.02 * ORDER + 1e-6 * np.sin(np.arange(8))

    drift = fit_drift(y, ORDER, t * 60 + 1.7e9)

    assert drift is not None
    assert drift.total == pytest.approx(0.014, abs=1e-5)
    assert drift.effects == pytest.approx((0.0, -0.02), abs=1e-5)
    assert drift.df == 5


def test_the_interval_of_drift_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    y, t = rng.normal(0, 0.01, 8), np.arange(8.0) / 7
    design = np.column_stack([1.0 - ORDER, ORDER, t])
    beta, squares, _, _ = np.linalg.lstsq(design, y, rcond=None)
    error = np.sqrt(squares[0] / 5 * np.linalg.inv(design.T @ design)[2, 2])

    drift = fit_drift(y, ORDER, t)

    assert drift is not None
    assert drift.total == pytest.approx(beta[2])
    assert drift.half == pytest.approx(scipy_stats.t.ppf(0.975, 5) * error)


def test_no_drift_is_fitted_where_it_cannot_be_told() -> None:
    assert fit_drift([1.0, 2.0], [0, 1], [0.0, 1.0]) is None
    assert fit_drift([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0], [5.0] * 4) is None
    assert fit_drift([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0], [0.0, 1.0, 2.0, np.nan]) is None


def test_a_run_ten_percent_off_is_flagged_and_named() -> None:
    values = 0.001 * np.random.default_rng(5).standard_normal((4, 2))
    values[2, 1] += np.log(1.1)

    flags = flag_runs(values)

    assert [(flag.round_index, flag.arm_index) for flag in flags] == [(2, 1)]
    assert flags[0].reason.startswith("+10.")


def test_clean_runs_are_not_flagged_and_stalls_are() -> None:
    values = 0.005 * np.random.default_rng(6).standard_normal((8, 3))
    stalls = np.zeros((8, 3))
    stalls[1, 2] = 0.08

    assert flag_runs(values) == []
    assert flag_runs(values, stalls) == [Flag(1, 2, "8 % of its time in stalls")]


def test_a_settling_run_is_found_and_a_flat_one_is_not() -> None:
    rng = np.random.default_rng(7)
    flat = 0.1 * (1 + 0.01 * rng.standard_normal((4, 250)))
    settling = flat * (1 + 0.05 * np.exp(-np.arange(250) / 50))

    moving, steady = check_warm_up(list(settling)), check_warm_up(list(flat))

    assert moving is not None
    assert moving.moving
    assert -0.05 < moving.change < -0.01
    assert steady is not None
    assert not steady.moving


def test_alternating_steps_are_not_taken_for_settling() -> None:
    found = check_warm_up([np.array([0.1, 0.13] * 125)])

    assert found is not None
    assert found.change == pytest.approx(0.0, abs=1e-12)


def test_false_alarms_of_settling_are_rare() -> None:
    rng = np.random.default_rng(8)
    found = [check_warm_up([0.1 * (1 + 0.03 * rng.standard_normal(250))]) for _ in range(500)]

    assert sum(one is not None and one.moving for one in found) <= 20


def test_a_short_window_is_not_checked() -> None:
    assert check_warm_up([np.full(19, 0.1)]) is None
