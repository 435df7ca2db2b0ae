from __future__ import annotations

from interlace.compare.pays import BreakEven, RunCost, break_even, words

EAGER = [RunCost(before_s=12.6 + 49 * 0.028, step_s=0.028)] * 2


def compiled(*first_steps_s: float, step_s: float = 0.013) -> list[RunCost]:
    return [RunCost(first_s + 49 * step_s, step_s) for first_s in first_steps_s]


def test_a_compile_that_costs_27_seconds_has_paid_after_about_a_thousand_steps() -> None:
    found = break_even(EAGER, compiled(26.8, 26.9), 51)

    assert found is not None
    assert 900 < (found.steps or 0) < 1000
    assert (found.cold_once_s, found.cold_steps) == (None, None)


def test_the_first_run_found_the_cache_cold_and_is_told_apart() -> None:
    found = break_even(EAGER, compiled(260.0, 26.8, 26.9), 51)

    assert found is not None
    assert found.cold_steps is not None
    assert 16000 < found.cold_steps < 17000
    assert words("compile", found).endswith("steps with a warm compile cache, 16495 (247.4 s) with a cold one")


def test_what_costs_once_and_gains_nothing_never_pays() -> None:
    found = break_even(EAGER, compiled(26.8, 26.9, step_s=0.028), 51)

    assert found is not None
    assert found.steps is None
    assert words("compile", found) == "compile pays 14.3 s once and gains nothing per step"


def test_start_up_noise_is_no_price() -> None:
    assert break_even(EAGER, compiled(12.9, 12.2), 51) is None


def test_an_arm_without_runs_says_nothing() -> None:
    assert break_even(EAGER, [], 51) is None
    assert break_even([], compiled(20.0), 51) is None


def test_one_run_alone_is_both_cold_and_warm() -> None:
    found = break_even(EAGER[:1], compiled(26.8), 51)

    assert isinstance(found, BreakEven)
    assert found.cold_once_s is None
