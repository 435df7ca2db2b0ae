from __future__ import annotations

import pandas as pd

from interlace.compare.pays import RunCost, break_even, costs_of, payback, words
from interlace.stats.run import summarise

EAGER = [RunCost(before_s=12.6 + 49 * 0.028, step_s=0.028, before_n=50)] * 2


def compiled(*first_steps_s: float, step_s: float = 0.013) -> list[RunCost]:
    return [RunCost(first_s + 49 * step_s, step_s, 50) for first_s in first_steps_s]


def said(*first_steps_s: float, step_s: float = 0.013, verdict: str = "faster") -> str:
    costs = {"eager": EAGER, "compile": compiled(*first_steps_s, step_s=step_s)}
    (line,) = payback("eager", costs, {"compile": verdict})  # type: ignore[dict-item]
    return line


def test_a_compile_that_costs_once_has_paid_after_about_a_thousand_steps() -> None:
    assert said(26.8, 26.9) == ("compile pays once: 14.3 s; it gains 15 ms a step: paid after 955 steps or so")


def test_the_first_run_found_the_cache_cold_and_is_told_apart() -> None:
    assert said(260.0, 26.8, 26.9) == (
        "compile pays once: 14.3 s with warm caches, 247.4 s in its first run; "
        "it gains 15 ms a step: paid after 952 steps, or 16495 of a first run or so"
    )


def test_a_warm_cache_may_cost_nothing_at_all() -> None:
    assert "under 1 s with warm caches, 47.4 s in its first run" in said(60.0, 10.0, 10.0)


def test_what_gains_nothing_or_nothing_that_is_told_from_noise_never_pays() -> None:
    never = "compile pays once: 14.3 s; no gain per step is shown that would pay it back"

    assert said(26.8, 26.9, step_s=0.028) == never
    assert said(26.8, 26.9, verdict="within noise") == never


def test_start_up_noise_is_no_price() -> None:
    assert break_even(EAGER, compiled(12.9, 12.2)) is None


def test_an_arm_without_runs_says_nothing() -> None:
    assert break_even(EAGER, []) is None
    assert break_even([], compiled(20.0)) is None


def test_one_run_alone_is_both_cold_and_warm() -> None:
    found = break_even(EAGER[:1], compiled(26.8))

    assert found is not None
    assert found.cold_once_s is None
    assert "cold" not in words("compile", found, faster=True)


def steps_frame(steps: range) -> pd.DataFrame:
    return pd.DataFrame({"step": steps, "rank": 0, "step_s": [0.01 + 0.001 * (step % 7) for step in steps]})


def test_a_log_that_lacks_steps_before_the_window_has_no_price() -> None:
    whole = summarise(steps_frame(range(1, 101)), [21, 100])
    from_zero = summarise(steps_frame(range(101)), [21, 100])
    late = summarise(steps_frame(range(15, 101)), [21, 100])
    every_fifth = summarise(steps_frame(range(5, 101, 5)), [20, 100])

    assert [(one.before_s is None, one.before_n) for one in (whole, from_zero)] == [(False, 20), (False, 21)]
    assert costs_of([late, every_fifth]) == []
