"""Rounds that are added: on sweeps whose records are written by hand, so that every spread can be tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlace.extend import extended, stopped_because
from interlace.plan import add_round
from interlace.schema import Cause
from tests.handmade import ADAPTIVE, CONFIG, on_disk

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.loaded import LoadedSweep
    from interlace.schema import Plan

pytestmark = pytest.mark.costly


def added(loaded: LoadedSweep) -> list[tuple[int, int | None]]:
    longer: Plan = extended(loaded)
    return [(one.round, one.repeats) for one in longer.extensions[len(loaded.plan.extensions) :]]


def test_a_plan_that_is_fine_stays_as_it_is(tmp_path: Path) -> None:
    assert added(on_disk(tmp_path, CONFIG, 0.02)) == []


def test_a_round_that_one_failure_broke_is_repeated_whole_and_once(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {2}})

    longer = extended(loaded)

    assert [(one.round, one.repeats) for one in longer.extensions] == [(5, 2)]
    assert longer.extensions[0].reason == "it repeats round 2, which b did not finish undisturbed"
    assert [run.arm for run in longer.runs if run.round == 5] == [run.arm for run in longer.runs if run.round == 2]


def test_an_arm_that_never_finished_a_run_does_not_make_rounds_repeat(tmp_path: Path) -> None:
    assert added(on_disk(tmp_path, CONFIG, 0.001, {"b": {1, 2, 3, 4}})) == []


def test_beside_an_arm_that_never_finishes_a_round_that_another_broke_is_repeated(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {2}, "c": {1, 2, 3, 4}}, arms="abc")

    assert added(loaded) == [(5, 2)]
    assert extended(loaded).extensions[0].reason == "it repeats round 2, which b did not finish undisturbed"


def test_a_round_is_repeated_as_often_as_asked_and_no_more(tmp_path: Path) -> None:
    config = replace(CONFIG, repeat_broken_rounds=2)
    plan = add_round(on_disk(tmp_path / "first", config, 0.001).plan, "again", repeats=2)
    once = on_disk(tmp_path / "once", config, 0.001, {"b": {2, 5}}, plan=plan)
    twice = on_disk(tmp_path / "twice", config, 0.001, {"b": {2, 5, 6}}, plan=add_round(plan, "again", repeats=5))

    assert added(once) == [(6, 5)]
    assert added(twice) == []


def test_a_round_that_others_disturbed_is_repeated_though_its_arm_never_ran_alone(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {1, 2, 3, 4}}, cause=Cause("foreign", "others computed"))

    assert added(loaded) == [(5, 1)]


def test_repeats_can_be_switched_off(tmp_path: Path) -> None:
    assert added(on_disk(tmp_path, replace(CONFIG, repeat_broken_rounds=0), 0.001, {"b": {2}})) == []


def test_an_adaptive_sweep_goes_on_while_its_interval_is_too_wide(tmp_path: Path) -> None:
    assert added(on_disk(tmp_path, ADAPTIVE, 0.006)) == [(5, None)]


def test_an_adaptive_sweep_stops_when_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, ADAPTIVE, 0.0005)

    assert added(loaded) == []
    assert stopped_because(loaded) is None


def test_an_adaptive_sweep_stops_at_its_most_rounds_and_says_how_far_it_came(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, ADAPTIVE, 0.0065, extra=4)

    assert added(loaded) == []
    assert (stopped_because(loaded) or "").startswith("8 rounds reached +-")


def test_an_adaptive_sweep_that_cannot_get_there_says_what_it_could_reach(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, ADAPTIVE, 0.1)

    assert added(loaded) == []
    assert (stopped_because(loaded) or "").startswith("cannot reach 1 % here; best reachable about")


def test_an_adaptive_sweep_goes_on_for_the_arm_that_varies_most(tmp_path: Path) -> None:
    calm = on_disk(tmp_path / "calm", ADAPTIVE, 0.0003, arms="abcde")
    noisy = on_disk(tmp_path / "noisy", ADAPTIVE, 0.0003, arms="abcde", noisy=20.0)

    assert added(calm) == []
    assert added(noisy) == [(5, None)]
    dfs = [one.df for one in noisy.analysis.comparisons]
    assert (dfs[0], dfs[-1]) == (9, 3)


def test_intervals_of_a_chosen_number_of_rounds_are_97_percent_ones_and_say_so(tmp_path: Path) -> None:
    analysis = on_disk(tmp_path, ADAPTIVE, 0.001).analysis

    assert analysis.comparisons[0].confidence == 0.97
    assert "97 % interval because the number of rounds was chosen from the data" in analysis.notes


def test_a_round_added_by_hand_has_the_same_price(tmp_path: Path) -> None:
    assert on_disk(tmp_path, CONFIG, 0.001, extra=1).analysis.confidence == 0.97


def test_a_repeated_round_has_none(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {2}})

    repeated = replace(loaded, plan=extended(loaded))

    assert repeated.analysis.confidence == 0.95
