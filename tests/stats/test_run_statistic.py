"""The run statistic and its summary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from interlace.errors import ConfigError, ReadError
from interlace.stats import describe, slow_steps, summarise
from interlace.stats.run import block_steps, is_of_window


def steps_of(times: list[float], first: int = 1) -> tuple[list[int], list[float], None]:
    return list(range(first, first + len(times))), times, None


def test_the_statistic_is_the_trimmed_mean_of_block_means() -> None:
    times = [0.010] * 10 + [0.011] * 10 + [0.012] * 10 + [0.013] * 10 + [0.9] * 10

    summary = summarise(steps_of(times), (1, 50))

    assert summary.stat_s == pytest.approx(0.012)
    assert summary.mean_s == pytest.approx(0.1892)
    assert summary.median_s == pytest.approx(0.012)
    assert summary.max_s == 0.9
    assert summary.step1_s == 0.010
    assert (summary.first, summary.last, summary.n) == (1, 50, 50)


def test_only_steps_of_the_window_count() -> None:
    summary = summarise(steps_of([5.0] * 50 + [0.02] * 250 + [7.0] * 10), (51, 300))

    assert summary.stat_s == pytest.approx(0.02)
    assert summary.max_s == 0.02
    assert summary.step1_s == 5.0


def test_a_coarse_cumulative_clock_telescopes_where_single_steps_say_nothing() -> None:
    rng = np.random.default_rng(1)
    true_s = 0.0132 + 0.0001 * rng.standard_normal(250)
    end_s = np.round(np.cumsum(true_s), 3)
    step_s = np.diff(end_s, prepend=0.0)

    described = describe((np.arange(1, 251), step_s, end_s), (1, 250))

    assert described.summary.cumulative
    assert described.summary.quantum_s == pytest.approx(0.001)
    assert described.summary.stat_s == pytest.approx(0.0132, rel=0.002)
    assert described.summary.resolution == pytest.approx(0.001 / (250 * 0.0132), rel=0.01)


def test_the_clock_starts_at_the_reading_before_the_window() -> None:
    end_s = np.array([100.0, *(100.0 + 0.5 * np.arange(1, 41))])

    summary = summarise((np.arange(41), np.full(41, 0.5), end_s), (1, 40))

    assert summary.cumulative
    assert summary.mean_s == pytest.approx(0.5)


def test_a_clock_too_coarse_for_a_block_is_not_used() -> None:
    step_s = np.full(100, 0.028)
    end_s = np.floor(np.cumsum(step_s))

    summary = summarise((np.arange(1, 101), step_s, end_s + 0.001 * np.arange(100)), (1, 100))

    assert summary.stat_s == pytest.approx(0.028)
    assert not summary.cumulative


def test_a_clock_that_runs_backwards_is_not_used_and_noted() -> None:
    end_s = np.cumsum(np.full(60, 0.1))
    end_s[30] = 0.0

    described = describe((np.arange(1, 61), np.full(60, 0.1), end_s), (1, 60))

    assert not described.summary.cumulative
    assert described.notes == ("the cumulative clock stands still or runs backwards in the window: durations are used",)


def test_epoch_readings_do_not_fake_a_fine_quantum() -> None:
    rng = np.random.default_rng(2)
    end_s = 1.7e9 + np.round(np.cumsum(0.2 + 0.003 * rng.standard_normal(200)), 3)
    step_s = np.diff(end_s, prepend=1.7e9)

    summary = summarise((np.arange(1, 201), step_s, end_s), (1, 200))

    assert summary.quantum_s == pytest.approx(0.001, rel=1e-2)


def test_a_frame_of_ranks_gives_the_slowest_rank() -> None:
    steps = np.arange(1, 41)
    frame = pd.DataFrame(
        {
            "step": np.repeat(steps, 2),
            "rank": np.tile([0, 1], 40),
            "step_s": np.tile([0.3, 0.4], 40),
            "end_s": np.column_stack([50.0 + 0.3 * steps, 900.0 + 0.4 * steps]).ravel(),
        }
    )

    summary = summarise(frame, (1, 40))

    assert summary.cumulative
    assert summary.stat_s == pytest.approx(0.4)
    assert summary.median_s == 0.4


def test_clocks_of_changing_ranks_are_never_subtracted() -> None:
    frame = pd.DataFrame({"step": [1, 2, 3, 4], "rank": [0, 1, 0, 1], "step_s": 0.1, "end_s": [5, 90, 6, 91]})

    assert not summarise(frame, (1, 4)).cumulative


def test_values_that_are_no_durations_never_enter() -> None:
    times = [0.1] * 40
    times[5], times[6], times[7] = float("nan"), float("inf"), -24.0

    described = describe(steps_of(times), (1, 40))

    assert described.summary.stat_s == pytest.approx(0.1)
    assert described.notes == (
        "3 step times are not finite or negative and were left out",
        "3 steps are missing inside the window",
    )
    assert list(map(is_of_window, described.notes)) == [False, True]


def test_a_run_without_any_finite_step_is_an_error() -> None:
    with pytest.raises(ReadError) as error:
        summarise(steps_of([float("nan")] * 5), (1, 5))

    assert str(error.value) == "no step has a finite time: nothing to measure"


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((51, 300), "window 51:300 reaches beyond the last step, 200: choose one up to 200"),
        ((300, 400), "window 300:400 reaches beyond the last step, 200: choose one up to 200"),
    ],
)
def test_a_window_beyond_the_steps_is_an_error_with_numbers(window: tuple[int, int], message: str) -> None:
    with pytest.raises(ReadError) as error:
        summarise(steps_of([0.1] * 200), window)

    assert str(error.value) == message


def test_a_window_before_the_first_step_is_an_error() -> None:
    with pytest.raises(ReadError) as error:
        summarise(steps_of([0.1] * 100, first=101), (51, 200))

    assert str(error.value) == "window 51:200 begins before the first step, 101: choose one from 101"


def test_steps_counted_from_0_are_named_in_the_error() -> None:
    with pytest.raises(ReadError) as error:
        summarise(steps_of([0.1] * 300, first=0), (51, 300))

    assert str(error.value) == ("window 51:300 reaches beyond the last step, 299, counted from 0: choose one up to 299")


def test_a_log_of_every_tenth_step_fills_its_window() -> None:
    summary = summarise((np.arange(10, 301, 10), np.full(30, 0.1), None), (51, 300))

    assert summary.n == 25


@pytest.mark.parametrize("window", [(0, -1), (300, 51), (-1, 5), (1, 2, 3)])
def test_a_window_that_is_none_is_refused(window: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="window"):
        summarise(steps_of([0.1] * 10), window)


def test_few_steps_are_said_and_compared_by_their_mean() -> None:
    described = describe(steps_of([0.1, 0.2, 0.3]), (1, 3))

    assert described.summary.stat_s == pytest.approx(0.2)
    assert described.notes == (
        "only 3 steps in the window: 20 or more are needed for a steady number",
        "fewer than two blocks of steps: the plain mean is compared",
    )
    assert all(map(is_of_window, described.notes))


def test_a_window_of_one_value_is_said_to_have_no_spread_of_its_own() -> None:
    described = describe(steps_of([0.25]), (1, 1))

    assert described.summary.stat_s == 0.25
    assert described.notes == ("one value in the window: a run has no spread of its own, only rounds have",)
    assert all(map(is_of_window, described.notes))


def test_a_step_twice_is_an_error() -> None:
    with pytest.raises(ReadError) as error:
        summarise(([1, 2, 2], [0.1, 0.1, 0.1], None), (1, 2))

    assert str(error.value) == "step 2 has two times: one run has one time a step and rank"


def test_equal_steps_have_no_resolution() -> None:
    described = describe(steps_of([0.013] * 100), (1, 100))

    assert described.summary.quantum_s is None
    assert described.summary.resolution is None


def test_alternating_steps_are_bimodal_and_stalls_are_said() -> None:
    alternating = describe(steps_of([0.1, 0.13] * 50), (1, 100))
    stalling = describe(steps_of(([0.4] * 9 + [2.4]) * 3), (1, 30))

    assert alternating.notes[0].startswith("the steps alternate between two times")
    assert stalling.notes == ("the mean step is 50 % above the median: some steps stall",)
    assert all(map(is_of_window, (*alternating.notes, *stalling.notes)))


def test_steps_over_five_medians_are_listed() -> None:
    assert slow_steps([1, 2, 3, 4, 5], [0.4, 0.41, 35.2, 0.4, 2.0]) == [3]


def test_steps_that_scatter_widely_around_one_time_are_not_two_times() -> None:
    scattered = 0.1 * np.exp(0.1 * np.random.default_rng(1).standard_normal(300))

    assert not any("alternate" in note for note in describe(steps_of(list(scattered)), (1, 300)).notes)


def test_a_block_holds_whole_periods() -> None:
    assert [block_steps(10, period) for period in (1, 4, 10, 25)] == [10, 12, 10, 25]
