from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from interlace.compare import compare
from interlace.compare.ladder import SHARED_ROWS, climb
from interlace.stats import estimate


def frame(stats: dict[str, list[float]]) -> pd.DataFrame:
    rows = [
        {"arm": arm, "round": number, "stat_s": value, "mean_s": value}
        for arm, values in stats.items()
        for number, value in enumerate(values, start=1)
    ]
    return pd.DataFrame(rows)


LADDER = {"a": [0.100, 0.101, 0.099], "b": [0.0901, 0.0899, 0.0902], "c": [0.0900, 0.0902, 0.0899]}


def test_each_row_is_compared_with_the_one_above_it_and_with_the_first() -> None:
    ladder = climb(frame(LADDER), ["a", "b", "c"])

    assert ladder is not None
    first, second, third = ladder.rungs
    assert (first.previous, first.first) == (None, None)
    assert second.previous is not None
    assert second.previous.verdict == "faster"
    assert third.previous is not None
    assert third.previous.verdict == "within noise"
    assert third.first is not None
    assert third.first.verdict == "faster"


def test_the_steps_multiply_to_what_the_row_is_against_the_first() -> None:
    ladder = climb(frame(LADDER), ["a", "b", "c"])

    assert ladder is not None
    _, second, third = ladder.rungs
    assert second.previous is not None
    assert third.previous is not None
    assert third.first is not None
    assert second.previous.ratio * third.previous.ratio == pytest.approx(third.first.ratio)


def test_a_row_that_varies_unlike_the_others_is_judged_by_its_own_rounds_and_named() -> None:
    steady = {
        name: [0.1 - 0.001 * k, 0.1001 - 0.001 * k, 0.0999 - 0.001 * k, 0.1 - 0.001 * k]
        for k, name in enumerate("abdef")
    }
    ladder = climb(frame({**steady, "c": [0.09, 0.11, 0.095, 0.1]}), list("abcdef"))

    assert ladder is not None
    assert [rung.previous.verdict for rung in ladder.rungs if rung.previous] == [
        "faster", "within noise", "within noise", "faster", "faster",
    ]  # fmt: skip
    assert ladder.notes == (SHARED_ROWS, "judged by their own rounds against the row above: c, d")


def test_a_row_below_one_without_runs_says_with_which_it_is_compared() -> None:
    ladder = climb(frame(LADDER), ["a", "broken", "b", "c"])

    assert ladder is not None
    assert [rung.arm for rung in ladder.rungs] == ["a", "b", "c"]
    assert ladder.notes == (SHARED_ROWS, "b is compared with a: no run of broken counts")


def test_verdicts_against_the_first_row_are_adjusted_as_those_of_the_table_are() -> None:
    spread = [0.0, 0.0055, -0.006, 0.0005]
    stats = {
        name: [0.1 * effect * math.exp(spread[(k + turn) % 4]) for turn in range(4)]
        for k, (name, effect) in enumerate({"a": 1.0, "b": 1.0, "c": 0.9906, "d": 1.0}.items())
    }
    ladder = climb(frame(stats), list("abcd"))
    table = compare(frame(stats), "a")

    assert ladder is not None
    interval = ladder.rungs[2].first
    assert interval is not None
    assert interval.high < 1.0
    assert interval.verdict == table.by_arm()["c"].verdict == "within noise"


def test_adjacent_intervals_come_from_the_pooled_residual() -> None:
    ladder = climb(frame(LADDER), ["a", "b", "c"])
    log_s = np.log(np.array([LADDER["a"], LADDER["b"], LADDER["c"]]).T)
    half = float(np.ravel(estimate(log_s).half_width(0.95))[0])  # type: ignore[arg-type]

    assert ladder is not None
    step = ladder.rungs[2].previous
    assert step is not None
    assert math.log(step.high / step.low) / 2 == pytest.approx(half)


def test_the_total_has_its_own_paired_interval_and_rows_are_said_to_share_measurements() -> None:
    ladder = climb(frame(LADDER), ["a", "b", "c"])

    assert ladder is not None
    assert ladder.total.startswith("c against a, 1.11x: faster: 10.0 % less time per step (95 % interval ")
    assert "3 rounds, 3 of 3 faster" in ladder.total
    assert ladder.notes == (SHARED_ROWS,)


def test_two_rows_or_one_round_are_no_ladder() -> None:
    assert climb(frame({"a": [0.1, 0.1], "b": [0.1, 0.1]}), ["a", "b"]) is None
    assert climb(frame({"a": [0.1], "b": [0.1], "c": [0.1]}), ["a", "b", "c"]) is None


def test_a_row_without_finished_runs_is_left_out_and_the_next_is_compared_with_the_one_above_it() -> None:
    ladder = climb(frame({"a": [0.100, 0.101], "c": [0.080, 0.081], "d": [0.070, 0.0701]}), ["a", "b", "c", "d"])

    assert ladder is not None
    assert [rung.arm for rung in ladder.rungs] == ["a", "c", "d"]


@pytest.mark.slow
def test_identical_ladders_are_seldom_given_a_false_row() -> None:
    """Ten rows, nothing differs: with Holm over rows, at most 7 % of ladders have any row called."""
    random = np.random.default_rng(1)
    called = 0
    for _ in range(200):
        values = np.exp(0.005 * random.standard_normal((3, 10)))
        ladder = climb(frame({f"r{k}": list(values[:, k]) for k in range(10)}), [f"r{k}" for k in range(10)])
        assert ladder is not None
        called += any(rung.previous is not None and rung.previous.verdict != "within noise" for rung in ladder.rungs)

    assert called <= 14


def test_rows_whose_logs_show_no_spread_are_not_judged() -> None:
    flat = frame({"a": [0.1, 0.1, 0.1], "b": [0.09, 0.09, 0.09], "c": [0.08, 0.08, 0.08]})

    ladder = climb(flat, ["a", "b", "c"])

    assert ladder is not None
    assert [rung.previous.verdict for rung in ladder.rungs if rung.previous] == ["not judged", "not judged"]
    assert "not judged: every round gave exactly the same ratio" in ladder.total


def test_a_change_under_what_the_logs_resolve_is_within_noise() -> None:
    coarse = frame(LADDER).assign(resolution=0.2, quantum_s=0.02)

    ladder = climb(coarse, ["a", "b", "c"])

    assert ladder is not None
    assert ladder.rungs[1].previous is not None
    assert ladder.rungs[1].previous.verdict == "within noise"


def test_a_total_within_noise_says_how_many_rounds_would_resolve_it() -> None:
    noisy = {"a": [0.100, 0.103, 0.099, 0.101], "b": [0.101, 0.099, 0.102, 0.1], "c": [0.1, 0.102, 0.101, 0.099]}

    ladder = climb(frame(noisy), ["a", "b", "c"])

    assert ladder is not None
    assert "rounds would resolve 1 %" in ladder.total
