from __future__ import annotations

from dataclasses import replace

import pytest

from interlace.errors import UsageError
from interlace.plan import add_round, estimate_left_s, make_plan
from interlace.schema import Arm, Extension, Run, RunRecord, Sweep
from interlace.settings import RanksConfig, SweepConfig, WorkloadConfig

CONFIG = SweepConfig("s", WorkloadConfig("w", command="x"), RanksConfig("plain"), rounds=4)


def sweep(config: SweepConfig = CONFIG, *, unmeasured: str | None = None) -> Sweep:
    arms = tuple(Arm(name, name, (), config, measure=name != unmeasured) for name in "abc")
    return Sweep("s", arms, "a", config)


def order(plan: object) -> list[str]:
    runs: tuple[Run, ...] = plan.runs  # type: ignore[attr-defined]
    return ["".join(run.arm for run in runs if run.round == number) for number in sorted({r.round for r in runs})]


def test_a_burn_in_of_the_baseline_comes_first_then_mirrored_rounds() -> None:
    assert order(make_plan(sweep(replace(CONFIG, seed=1)))) == ["a", "bca", "acb", "acb", "bca"]


def test_runs_are_numbered_in_their_order() -> None:
    assert [run.id for run in make_plan(sweep()).runs][:3] == ["000-r0-a", "001-r1-a", "002-r1-c"]


def test_the_seed_alone_decides_the_order() -> None:
    assert make_plan(sweep()) == make_plan(sweep())


def test_an_arm_that_is_not_measured_is_not_in_the_plan() -> None:
    assert {run.arm for run in make_plan(sweep(unmeasured="b")).runs} == {"a", "c"}


def test_an_added_round_is_the_next_of_the_mirrored_sequence() -> None:
    longer = add_round(make_plan(sweep(replace(CONFIG, rounds=3, seed=1))), "why")

    assert order(longer) == order(make_plan(sweep(replace(CONFIG, seed=1))))
    assert longer.extensions == (Extension(4, "why"),)
    assert [run.index for run in longer.runs] == list(range(13))


def test_a_repeated_round_keeps_the_order_of_the_one_it_replaces_and_takes_no_place_in_the_sequence() -> None:
    plan = make_plan(sweep(replace(CONFIG, rounds=2, seed=1)))

    longer = add_round(add_round(plan, "broken", repeats=1), "wide")

    assert order(longer) == ["a", "bca", "acb", "bca", "acb"]
    assert [(one.round, one.repeats) for one in longer.extensions] == [(3, 1), (4, None)]


def test_a_random_order_goes_on_as_it_would_have() -> None:
    long = make_plan(sweep(replace(CONFIG, order="random", rounds=6)))

    assert order(add_round(make_plan(sweep(replace(CONFIG, order="random", rounds=5))), "why")) == order(long)


def test_the_time_left_is_that_of_the_runs_seen_so_far() -> None:
    seen = RunRecord(Run(0, 0, "a"), 1, "ok", 0.0, 10.0, 0, gate_wait_s=2.0)

    assert estimate_left_s(3, [seen, replace(seen, wall_s=20.0, gate_wait_s=0.0)]) == 48.0
    assert estimate_left_s(2, []) == 60.0


def test_a_screen_is_one_round_with_the_baseline_at_start_middle_and_end() -> None:
    plan = make_plan(sweep(replace(CONFIG, order="screen", rounds=1)))

    assert order(plan) in (["a", "abaca"], ["a", "acaba"])
    with pytest.raises(UsageError, match="a screen is one round"):
        add_round(plan, "more")
    again = add_round(plan, "its lane moved", repeats=1)
    assert [run.arm for run in again.runs if run.round == 2] == [run.arm for run in plan.runs if run.round == 1]
