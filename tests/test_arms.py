from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace.arms import Point, axis_labels, build_sweep, check_window, cross, entries, name_slugs, slug
from interlace.errors import ConfigError
from interlace.schema import Arm, Axis, Request
from interlace.settings import AdaptiveConfig, ArmConfig, LaunchersConfig, RanksConfig, SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from interlace.schema import Sweep

CONFIG = SweepConfig("s", WorkloadConfig("w", command="python t.py"), RanksConfig("accelerate", nproc_per_node=2))


Change = Callable[[SweepConfig, Sequence[str]], SweepConfig]


def built(config: SweepConfig, *axes: Axis, change: Change = lambda config, _: config) -> Sweep:
    """Build without Hydra: an arm's configuration is the base, or what `change` makes of it."""
    return build_sweep(Request((), axes, lambda overrides: change(config, overrides)), lambda _: None)


def axis(key: str, *values: str) -> Axis:
    return Axis(key, tuple(f"{key}={value}" for value in values), values)


def refusal(config: SweepConfig, *axes: Axis, change: Change = lambda config, _: config) -> str:
    with pytest.raises(ConfigError) as caught:
        built(config, *axes, change=change)
    return str(caught.value)


TWO = [ArmConfig("baseline"), ArmConfig("fast", set=["workload.fused=true"], env={"A": "1"})]


def test_swept_axes_are_crossed_and_named_by_what_differs() -> None:
    sweep = built(CONFIG, axis("commit", "abc", "def"), axis("workload.batch_size", "8", "16"))

    assert [arm.name for arm in sweep.arms] == [
        "abc,batch_size=8", "abc,batch_size=16", "def,batch_size=8", "def,batch_size=16",
    ]  # fmt: skip


def test_axes_whose_last_word_is_the_same_keep_their_whole_key() -> None:
    labels = axis_labels([axis("a.lr", "1"), axis("b.lr", "2")])

    assert labels == [["a.lr=1"], ["b.lr=2"]]


def test_named_arms_are_mixed_with_swept_axes() -> None:
    points = cross(entries(TWO, cumulative=False), [axis("commit", "abc", "def")])

    assert [point.name for point in points] == ["baseline,abc", "baseline,def", "fast,abc", "fast,def"]
    assert points[3] == Point("fast,def", ("workload.fused=true", "commit=def"), {"A": "1"})


def test_a_cumulative_arm_inherits_commit_settings_and_environment_of_those_above() -> None:
    ladder = [
        ArmConfig("a", commit="abc", env={"X": "1"}),
        ArmConfig("b", set=["k=1"]),
        ArmConfig("c", set=["m=2"], env={"X": "2", "Y": "3"}),
    ]

    assert entries(ladder, cumulative=True) == [
        Point("a", ("commit=abc",), {"X": "1"}),
        Point("b", ("commit=abc", "k=1"), {"X": "1"}),
        Point("c", ("commit=abc", "k=1", "m=2"), {"X": "2", "Y": "3"}),
    ]


def test_what_a_later_arm_of_a_ladder_sets_anew_is_not_listed_twice() -> None:
    above = ArmConfig("a", set=["k=1", "m=1"])
    ladder = [above, ArmConfig("b", commit="abc", set=["+k=2"]), ArmConfig("c", commit="d")]

    assert [point.overrides for point in entries(ladder, cumulative=True)] == [
        ("k=1", "m=1"), ("m=1", "commit=abc", "+k=2"), ("m=1", "+k=2", "commit=d"),
    ]  # fmt: skip


def test_only_some_arms_are_measured_with_what_they_inherit_from_those_left_out() -> None:
    ladder = [ArmConfig("a"), ArmConfig("b", set=["k=1"]), ArmConfig("c", set=["m=2"])]

    sweep = built(replace(CONFIG, arms=ladder, cumulative=True, only=["c", "a"]))

    assert [(arm.name, arm.overrides) for arm in sweep.arms] == [("a", ()), ("c", ("k=1", "m=2"))]


def test_only_takes_the_names_of_swept_arms_too() -> None:
    sweep = built(replace(CONFIG, only=["abc", "ghi"]), axis("commit", "abc", "def", "ghi"))

    assert [arm.name for arm in sweep.arms] == ["abc", "ghi"]


def test_a_listed_arm_stands_for_all_that_a_swept_key_makes_of_it() -> None:
    config = replace(CONFIG, arms=[*TWO, ArmConfig("faster")], only=["fast"])

    sweep = built(config, axis("workload.batch_size", "8", "16"))

    assert [arm.name for arm in sweep.arms] == ["fast,batch_size=8", "fast,batch_size=16"]


def test_one_arm_that_is_left_has_nothing_to_be_compared_with() -> None:
    assert "leaves one of 2 arms" in refusal(replace(CONFIG, arms=TWO, only=["baseline"]))


def test_only_cannot_be_swept_over() -> None:
    assert "only cannot be swept over" in refusal(CONFIG, axis("only", "[a,b]", "[a,c]"))


def test_an_arm_that_only_asks_for_and_nobody_has_is_refused_with_the_arms_there_are() -> None:
    assert refusal(replace(CONFIG, only=["fast"])) == (
        "only=['fast']: there is one arm; only= chooses among those of a sweep file (sweeps=NAME)"
    )
    assert refusal(replace(CONFIG, arms=TWO, only=["baseline", "fats"])) == (
        "only=['baseline', 'fats']: no arm is called 'fats'; the arms are \"baseline\", \"fast\""
    )


def test_an_arms_environment_reaches_its_configuration() -> None:
    sweep = built(replace(CONFIG, arms=TWO, env={"B": "2"}))

    assert sweep.arms[1].config.env == {"B": "2", "A": "1"}


def test_the_arm_called_baseline_is_the_baseline_wherever_it_stands() -> None:
    assert built(replace(CONFIG, arms=[*TWO[1:], TWO[0]])).baseline == "baseline"


def test_without_an_arm_of_that_name_the_first_is_the_baseline() -> None:
    assert built(CONFIG, axis("commit", "abc", "def")).baseline == "abc"


def test_a_baseline_that_does_not_exist_is_refused_with_the_arms_there_are() -> None:
    assert refusal(replace(CONFIG, arms=TWO, baseline="x")) == (
        "baseline=x is not an arm (or only= leaves it out); the arms are baseline, fast"
    )


def test_two_arms_of_one_name_are_refused() -> None:
    assert "two arms are called 'a'" in refusal(replace(CONFIG, arms=[ArmConfig("a"), ArmConfig("a")]))


def test_one_arm_alone_is_nothing_to_compare() -> None:
    assert "one arm only" in refusal(CONFIG)


def test_no_rounds_are_refused() -> None:
    assert refusal(replace(CONFIG, arms=TWO, rounds=0)).startswith("rounds=0: at least one round")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 2}, "with rounds=2 give order=mirrored"),
        ({}, "ranks several candidates; there is one"),
        ({"launchers": LaunchersConfig("slurm", lanes=2)}, "ranks within one round; launchers.lanes=2"),
        ({"arms": [*TWO, ArmConfig("third")], "fail_if": "slower"}, "gives no verdicts"),
    ],
)
def test_a_screen_that_could_not_rank_or_is_asked_to_judge_is_refused(changes: dict[str, Any], message: str) -> None:
    config = replace(CONFIG, arms=TWO, order="screen", rounds=1)

    assert message in refusal(replace(config, **changes))


@pytest.mark.parametrize(
    ("rounds", "most", "message"),
    [(2, 8, "adaptive.enabled needs 4 to start with"), (6, 5, "adaptive.max_rounds=5 is under rounds=6")],
)
def test_an_adaptive_sweep_that_cannot_keep_its_level_is_refused(rounds: int, most: int, message: str) -> None:
    adaptive = AdaptiveConfig(enabled=True, max_rounds=most)

    assert message in refusal(replace(CONFIG, arms=TWO, rounds=rounds, adaptive=adaptive))


def test_an_arm_that_sets_a_swept_key_is_refused_because_its_name_would_not_say_what_it_is() -> None:
    message = refusal(replace(CONFIG, arms=TWO), axis("workload.fused", "true", "false"))

    assert message == "arm 'fast' sets workload.fused, which is swept over as well; do one of both"


def test_an_arms_environment_that_is_swept_as_well_is_refused_too() -> None:
    message = refusal(replace(CONFIG, arms=TWO), axis("++env.A", "1", "2"))

    assert message == "arm 'fast' sets env.A, which is swept over as well; do one of both"


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "AUTHOR", "NCCL_DEBUG"])
def test_a_harmless_name_is_no_secret(name: str) -> None:
    assert built(replace(CONFIG, arms=TWO, env={name: "x"})).arms[0].config.env == {name: "x"}


def test_a_secret_is_refused_because_what_a_sweep_sets_is_written_down() -> None:
    assert "env.HF_TOKEN looks like a secret" in refusal(replace(CONFIG, arms=TWO, env={"HF_TOKEN": "x"}))


def test_a_secret_that_is_taken_away_is_no_secret() -> None:
    assert built(replace(CONFIG, arms=TWO, env={"HF_TOKEN": None})).arms[0].config.env == {"HF_TOKEN": None}


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ""])
def test_a_sweeps_name_is_one_folder_name(name: str) -> None:
    assert "a sweep's name is a folder name" in refusal(replace(CONFIG, arms=TWO, name=name))


def test_a_baseline_that_is_not_measured_is_refused() -> None:
    arms = [ArmConfig("baseline", measure=False), ArmConfig("a"), ArmConfig("b")]

    assert "the baseline 'baseline' has measure: false" in refusal(replace(CONFIG, arms=arms))


def test_a_workload_without_a_command_says_how_to_give_it() -> None:
    assert 'give workload.command="python train.py ..."' in refusal(
        replace(CONFIG, arms=TWO, workload=WorkloadConfig("w"))
    )


def test_an_arm_cannot_have_its_own_number_of_rounds() -> None:
    def change(config: SweepConfig, overrides: Sequence[str]) -> SweepConfig:
        return replace(config, rounds=2) if "rounds=2" in overrides else config

    message = refusal(CONFIG, axis("rounds", "4", "2"), change=change)

    assert "rounds belongs to the whole sweep" in message


@pytest.mark.parametrize("window", [[5], [0, 5], [9, 3], [1, 2, 3]])
def test_a_window_that_is_none_is_refused(window: list[int]) -> None:
    with pytest.raises(ConfigError, match="is no window"):
        check_window(window, None)


def test_a_window_of_one_step_is_for_logs_that_keep_one_mean_a_run() -> None:
    check_window([220, 220], 220)


def test_a_window_beyond_the_runs_last_step_is_refused_with_one_that_fits() -> None:
    with pytest.raises(ConfigError, match=r"workload\.steps=120.*measure\.window=\[20,120\]"):
        check_window([51, 300], 120)


def test_readable_names_stay_readable_as_folders() -> None:
    assert [slug(name) for name in ("baseline", "batch_size=8,lr=0.1", "main~1", "feature/x", "../up")] == [
        "baseline", "batch_size-8-lr-0.1", "main-1", "feature-x", "up",
    ]  # fmt: skip


def test_names_that_become_equal_as_folders_are_kept_apart() -> None:
    arms = name_slugs([Arm(name, "", (), CONFIG) for name in ("feature/a", "feature-a", "Feature-A")])

    assert len({arm.slug.lower() for arm in arms}) == 3


@given(st.lists(st.text(min_size=1, max_size=400), min_size=2, max_size=5, unique=True))
def test_every_name_becomes_one_safe_unique_path_component(names: list[str]) -> None:
    slugs = [arm.slug for arm in name_slugs([Arm(name, "", (), CONFIG) for name in names])]

    assert len(set(slugs)) == len(names)
    for text in slugs:
        assert 0 < len(text.encode()) <= 60
        assert "/" not in text
        assert ".." not in text
        assert not text.startswith((".", "-"))
