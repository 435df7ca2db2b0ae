"""Intervals, against scipy's own tests and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from interlace.stats import (
    estimate,
    expected_best,
    holm,
    noise_floor,
    quantum,
    resolution_bound,
    rounds_needed,
)
from interlace.stats.interval import sign_flip_p, signed_rank_interval

LOGS = np.log(np.random.default_rng(3).normal(1.0, 0.004, (8, 5)) * [1.0, 0.98, 1.0, 1.01, 1.0])


@pytest.mark.parametrize("rounds", [3, 4, 8])
def test_two_arms_get_the_paired_t_interval_of_log_ratios(rounds: int) -> None:
    pair = LOGS[:rounds, :2]
    found = estimate(pair)

    expected = scipy_stats.ttest_rel(pair[:, 1], pair[:, 0])
    interval = expected.confidence_interval(0.95)
    half = found.half_width(0.95)
    p = found.p_value()
    assert half is not None
    assert p is not None
    assert (found.effect - half)[0] == pytest.approx(interval.low, rel=1e-10)
    assert (found.effect + half)[0] == pytest.approx(interval.high, rel=1e-10)
    assert p[0] == pytest.approx(expected.pvalue, rel=1e-9)
    assert (list(found.df), found.method_of(0)) == ([rounds - 1], "paired t on log ratios")


def test_two_rounds_get_the_pooled_two_sample_interval() -> None:
    pair = LOGS[:2, :2]
    found = estimate(pair)

    interval = scipy_stats.ttest_ind(pair[:, 1], pair[:, 0]).confidence_interval(0.95)
    half = found.half_width(0.95)
    assert half is not None
    assert (found.effect - half)[0] == pytest.approx(interval.low, rel=1e-10)
    assert (found.effect + half)[0] == pytest.approx(interval.high, rel=1e-10)
    assert (list(found.df), found.method_of(0)) == ([2], "pooled two-sample t")


def test_one_round_gets_no_interval() -> None:
    found = estimate(LOGS[:1, :2])

    assert found.half_width() is None
    assert found.p_value() is None
    assert found.effect[0] == pytest.approx(LOGS[0, 1] - LOGS[0, 0])


def test_many_arms_share_the_residual_of_round_and_arm() -> None:
    rounds, arms = 4, 5
    values = LOGS[2 : 2 + rounds]
    design = np.column_stack([np.tile(np.eye(arms), (rounds, 1)), np.repeat(np.eye(rounds)[:, 1:], arms, axis=0)])
    coefficients, squares, _, _ = np.linalg.lstsq(design, values.ravel(), rcond=None)
    df = values.size - design.shape[1]
    quantile = scipy_stats.t.ppf(0.975, df)

    found = estimate(values, base=2)

    half = found.half_width(0.95)
    assert half is not None
    assert list(found.df) == [df] * 4 == [12] * 4
    assert found.effect == pytest.approx(coefficients[[0, 1, 3, 4]] - coefficients[2])
    assert half[0] == pytest.approx(quantile * math.sqrt(squares[0] / df * 2 / rounds))


def test_two_arms_of_the_residual_model_are_the_paired_t() -> None:
    pair = LOGS[:4, :2]
    residual = pair - pair.mean(0) - pair.mean(1, keepdims=True) + pair.mean()
    found = estimate(pair)

    assert found.se is not None
    assert found.se[0] == pytest.approx(math.sqrt((residual**2).sum() / 3 * 2 / 4))


def test_rounds_of_identical_arms_pool_into_the_variance() -> None:
    aa = LOGS[:6, [2, 4]]
    pair = LOGS[:3, :2]
    d0, d = aa[:, 1] - aa[:, 0], pair[:, 1] - pair[:, 0]

    found = estimate(pair, aa_log_s=aa)

    assert found.df == 7
    assert found.se is not None
    assert found.se[0] == pytest.approx(math.sqrt((5 * d0.var(ddof=1) + 2 * d.var(ddof=1)) / 7 / 3))


def test_fewer_than_four_identical_rounds_do_not_pool() -> None:
    assert estimate(LOGS[:3, :2], aa_log_s=LOGS[:3, [2, 4]]).df == 2


def test_batches_give_the_same_as_one_by_one() -> None:
    batch = np.stack([LOGS[:4], LOGS[4:]])
    together, second = estimate(batch), estimate(LOGS[4:])

    assert together.effect[1] == pytest.approx(second.effect)
    assert together.se is not None
    assert second.se is not None
    assert together.se[1] == pytest.approx(second.se)


def test_holm_steps_down_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_the_noise_floor_is_the_half_width_under_no_effect() -> None:
    pair = LOGS[:4, :2]
    spread = math.sqrt(pair.var(axis=0, ddof=1).mean())
    floor = noise_floor(pair)

    assert floor is not None
    assert floor[0] == pytest.approx(math.expm1(scipy_stats.t.ppf(0.975, 6) * spread * math.sqrt(0.5)))
    assert floor[1] == "own spread, df 6"


def test_the_noise_floor_comes_from_identical_rounds_where_there_are_any() -> None:
    floor = noise_floor(LOGS[:2, :2], aa_log_s=LOGS[:4, [2, 4]])

    assert floor is not None
    assert floor[1] == "A/A, 4 rounds"
    assert noise_floor(LOGS[:1, :2]) is None


def test_rounds_needed_is_the_first_with_a_half_width_under_the_margin() -> None:
    sd = 0.01
    needed = rounds_needed(sd / math.sqrt(2), 0.01, arms=2)
    halves = [scipy_stats.t.ppf(0.975, r - 1) * sd / math.sqrt(r) for r in range(3, 20)]

    assert needed == 3 + next(i for i, half in enumerate(halves) if half < 0.01) == 7
    assert rounds_needed(1.0, 0.001, arms=2) is None


def test_the_best_of_ten_equal_arms_looks_faster() -> None:
    assert expected_best(10, 1.0, 1) == pytest.approx(1.5388, abs=1e-3)
    assert expected_best(10, 1.0, 2) == pytest.approx(1.088, abs=1e-3)
    assert expected_best(1, 1.0, 1) == pytest.approx(0.0, abs=1e-9)


def test_the_signed_rank_interval_is_the_exact_one() -> None:
    values = np.array([-0.021, -0.018, -0.025, -0.017, -0.03, 0.1])

    found = signed_rank_interval(values)

    averages = sorted((values[i] + values[j]) / 2 for i in range(6) for j in range(i, 6))
    assert found == pytest.approx((float(np.median(averages)), averages[0], averages[-1]))
    assert signed_rank_interval(values[:5]) is None


def test_the_sign_flip_p_counts_all_flips() -> None:
    assert sign_flip_p([-1.0, -2.0, -3.0]) == 0.25
    assert sign_flip_p([1.0] * 6) == pytest.approx(2 / 64)
    assert sign_flip_p([1.0] * 17) is None


def test_the_quantum_is_the_smallest_gap() -> None:
    assert quantum(np.array([0.013, 0.012, 0.015, 0.012])) == pytest.approx(0.001)
    assert quantum(np.array([0.013, 0.013])) is None
    assert quantum(np.array([0.1 + 0.2, 0.3])) is None


@pytest.mark.parametrize(("sd_ms", "bound_pct"), [(0.1, 2.0), (0.2, 1.1), (0.3, 0.4), (0.4, 0.1), (0.5, 0.02)])
def test_rounding_bias_is_bounded_as_published(sd_ms: float, bound_pct: float) -> None:
    recorded_sd_s = math.sqrt((sd_ms * 1e-3) ** 2 + 1e-6 / 12)
    bound = resolution_bound(0.013, recorded_sd_s, 250, 0.001, cumulative=False)

    assert bound is not None
    assert 100 * bound == pytest.approx(bound_pct, rel=0.3)


def test_a_clock_resolves_its_quantum_over_the_whole_window() -> None:
    assert resolution_bound(0.013, 0.0, 250, 0.001, cumulative=True) == pytest.approx(0.001 / 3.25)
    assert resolution_bound(0.013, 0.0, 250, None, cumulative=True) == pytest.approx(1 / 250)
    assert resolution_bound(0.013, 0.0, 250, None, cumulative=False) is None
