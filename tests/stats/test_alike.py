"""Which arms share a spread, against F tests by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from interlace.stats import estimate, noise_floor
from interlace.stats.alike import SHARED_LEVEL, alike, by_own_rounds

CALM = np.random.default_rng(11).normal(0.0, 0.001, (4, 6))


def with_noisy(*arms: int, times: float = 40.0) -> np.ndarray:
    table = CALM.copy()
    table[:, list(arms)] *= times
    return table


def test_arms_of_one_spread_stay_together() -> None:
    assert alike(CALM).all()


@pytest.mark.parametrize("noisy", [(0,), (4,), (1, 5)])
def test_arms_that_vary_much_more_are_parted(noisy: tuple[int, ...]) -> None:
    assert set(np.flatnonzero(~alike(with_noisy(*noisy)))) == set(noisy)


def test_an_arm_that_varies_less_stays_with_the_rest() -> None:
    assert alike(with_noisy(3, times=0.0)).all()


def test_a_drift_that_all_arms_share_parts_nobody() -> None:
    assert alike(CALM + np.arange(4)[:, None]).all()


def test_two_arms_and_one_round_have_nobody_to_be_unlike_of() -> None:
    assert alike(with_noisy(0)[:, :2]).all()
    assert alike(with_noisy(0)[:1]).all()


def test_the_test_is_the_f_test_of_an_arm_against_the_residual_of_the_others() -> None:
    """At a spread just on either side of the critical value, by the two sums of squares written out."""
    others = CALM[:, 1:]
    residual = others - others.mean(0) - others.mean(1, keepdims=True) + others.mean()
    rest = (residual**2).sum() / (3 * 4)
    critical = scipy_stats.f.ppf(1.0 - SHARED_LEVEL / 6, 3, 12)
    apart = CALM[:, 0] - others.mean(1)
    apart = apart - apart.mean()
    at_one = (apart**2).sum() * (5 / 6) / 3 / rest

    for factor, together in ((0.99, True), (1.01, False)):
        table = CALM.copy()
        table[:, 0] = others.mean(1) + apart * np.sqrt(factor * critical / at_one)
        assert alike(table)[0] == together


def test_a_pair_with_a_noisy_arm_is_judged_by_its_own_rounds_and_the_rest_without_it() -> None:
    table = with_noisy(4)
    found, pair, calm = estimate(table), estimate(table[:, [0, 4]]), estimate(np.delete(table, 4, axis=1))

    assert list(found.own_rounds) == [False, False, False, True, False]
    assert list(found.df) == [12, 12, 12, 3, 12]
    assert "own rounds" in found.method_of(3)
    assert found.se is not None
    assert pair.se is not None
    assert calm.se is not None
    assert found.se[3] == pytest.approx(pair.se[0])
    assert found.se[0] == pytest.approx(calm.se[0])


def test_with_a_noisy_baseline_every_pair_is_judged_by_its_own_rounds() -> None:
    assert estimate(with_noisy(0)).own_rounds.all()


def test_against_arms_without_any_spread_nothing_is_unlike() -> None:
    """Clocks so coarse that most runs read the same: parting the one that shows noise would hide all of it."""
    table = np.zeros((4, 5))
    table[1, 2] = 0.01

    assert alike(table).all()
    assert list(estimate(table).own_rounds) == [False, True, False, False]


def test_two_rounds_part_nobody() -> None:
    table = with_noisy(4, times=1000.0)[:2]

    assert alike(table).all()
    assert not estimate(table).own_rounds.any()


def test_a_pair_whose_rounds_spread_more_than_the_rest_is_judged_by_them() -> None:
    table = CALM.copy()
    table[:, 1] = table[:, 0] + [0.002, -0.002, 0.002, -0.002]
    table[:, 0] -= [0.001, -0.001, 0.001, -0.001]

    assert alike(table).all()
    assert list(by_own_rounds(table, 0, alike(table))) == [True, False, False, False, False]


def test_an_arm_that_varies_somewhat_more_stays_in_the_shared_spread_but_is_judged_by_its_own_rounds() -> None:
    table = with_noisy(4, times=2.2)
    found, shared = estimate(table), estimate(table, base=1)

    assert alike(table).all()
    assert list(found.own_rounds) == [False, False, False, True, False]
    assert list(found.df) == [15, 15, 15, 3, 15]
    assert estimate(table, base=4).own_rounds.all()
    assert shared.se is not None
    assert found.se is not None
    assert found.se[0] == pytest.approx(shared.se[0])


def test_the_noise_floor_says_of_which_arms_it_is() -> None:
    floor = noise_floor(with_noisy(4))

    assert floor is not None
    assert floor[0] == pytest.approx((noise_floor(np.delete(with_noisy(4), 4, axis=1)) or (0.0,))[0])
    assert floor[1] == "own spread of 5 of 6 arms, df 12"


def test_batches_are_parted_one_by_one() -> None:
    batch = np.stack([CALM, with_noisy(2), with_noisy(1, 5)])

    assert (alike(batch) == np.stack([alike(one) for one in batch])).all()
