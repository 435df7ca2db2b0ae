"""From runs in rounds to comparisons: what enters, what is said, and what never changes a verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.compare.compare import compare
from interlace.errors import ConfigError
from interlace.stats import rounds_needed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RNG = np.random.default_rng(11)
FOUR = 0.028 * np.exp(0.002 * RNG.standard_normal((4, 2))) * [1.0, 0.9]

CALM = 0.028 * np.exp(0.001 * np.random.default_rng(19).standard_normal((4, 6)))


def table(values: ArrayLike, names: str = "ABCDEFGHIJK", **columns: object) -> pd.DataFrame:
    """Runs of a matrix (rounds, arms) of statistics; NaN leaves a run out."""
    matrix = np.asarray(values, dtype=float)
    rows = [
        {"arm": names[k], "round": r + 1, "stat_s": value, "mean_s": value, "median_s": value, **columns}
        for r, row in enumerate(matrix)
        for k, value in enumerate(row)
        if not math.isnan(value)
    ]
    return pd.DataFrame(rows)


def matrices(rounds: int, arms: int) -> st.SearchStrategy[list[list[float]]]:
    run = st.floats(0.01, 0.02, allow_nan=False)
    return st.lists(st.lists(run, min_size=arms, max_size=arms), min_size=rounds, max_size=rounds)


def test_a_clear_effect_is_called_with_its_numbers() -> None:
    (found,) = compare(table(FOUR), "A").candidates

    assert found.verdict == "faster"
    assert found.ratio == pytest.approx(math.exp(np.log(FOUR[:, 1] / FOUR[:, 0]).mean()))
    assert found.ratio is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.ratio < found.high < 1
    assert found.speedup == pytest.approx(1 / found.ratio)
    assert found.round_ratios == pytest.approx(FOUR[:, 1] / FOUR[:, 0])
    assert (found.rounds, found.rounds_faster, found.df) == (4, 4, 3)
    assert found.noise_floor_source == "own spread, df 6"
    assert found.sentence.startswith("faster: 10.")


@settings(max_examples=30)
@given(matrices(4, 2))
@pytest.mark.costly
def test_swapping_the_arms_inverts_the_ratio(values: list[list[float]]) -> None:
    runs = table(values)
    (forth,), (back,) = compare(runs, "A").candidates, compare(runs, "B").candidates

    assert forth.ratio is not None
    assert back.ratio is not None
    assert forth.ratio * back.ratio == pytest.approx(1.0)
    if forth.low is not None:
        assert back.high is not None
        assert forth.low * back.high == pytest.approx(1.0)
    inverse = {"faster": "slower", "slower": "faster"}
    assert back.verdict == inverse.get(forth.verdict, forth.verdict)


@settings(max_examples=30)
@given(matrices(3, 3), st.floats(1e-3, 1e3))
@pytest.mark.costly
def test_scaling_all_times_changes_nothing(values: list[list[float]], scale: float) -> None:
    one, other = compare(table(values), "A"), compare(table(np.asarray(values) * scale), "A")

    for found, scaled in zip(one.candidates, other.candidates, strict=True):
        assert scaled.ratio == pytest.approx(found.ratio, rel=1e-9)
        assert (scaled.low is None) == (found.low is None)
        if found.low is not None and found.high is not None and found.high - found.low > 1e-6:
            assert scaled.low == pytest.approx(found.low, rel=1e-6)


@settings(max_examples=30)
@given(matrices(4, 3), st.permutations(range(4)))
@pytest.mark.costly
def test_a_permutation_of_rounds_changes_nothing_but_drift(values: list[list[float]], turn: list[int]) -> None:
    one, other = compare(table(values), "A"), compare(table([values[i] for i in turn]), "A")

    for found, turned in zip(one.candidates, other.candidates, strict=True):
        assert turned.verdict == found.verdict
        assert turned.ratio == pytest.approx(found.ratio, rel=1e-12)
        assert (turned.low, turned.high) == (
            (None, None) if found.low is None else pytest.approx((found.low, found.high), rel=1e-9)
        )


@settings(max_examples=30)
@given(st.floats(1.2, 20.0))
def test_one_slow_run_never_makes_a_candidate_significant(times: float) -> None:
    values = 0.028 * np.exp(0.002 * np.random.default_rng(12).standard_normal((4, 2)))
    values[2, 1] *= times

    (found,) = compare(table(values), "A").candidates

    assert found.verdict == "within noise"


def test_one_round_is_not_judged() -> None:
    (found,) = compare(table(FOUR[:1]), "A").candidates

    assert (found.verdict, found.low, found.high) == ("not judged", None, None)
    assert found.ratio == pytest.approx(FOUR[0, 1] / FOUR[0, 0])
    assert found.sentence.startswith("not judged: one complete round only")


def test_two_rounds_are_provisional_until_four_arms_share_them() -> None:
    values = 0.028 * np.exp(0.001 * np.random.default_rng(1).standard_normal((2, 4)))

    assert [compare(table(values[:, :k]), "A").candidates[0].provisional for k in (2, 3, 4)] == [
        True,
        True,
        False,
    ]


def test_only_complete_rounds_enter_and_the_rest_is_noted() -> None:
    values = np.vstack([FOUR, [0.5, math.nan]])

    found = compare(table(values), "A")

    assert found.rounds == (1, 2, 3, 4)
    assert found.candidates[0].ratio == pytest.approx(compare(table(FOUR), "A").candidates[0].ratio)
    assert found.notes == ("4 complete rounds compared; not complete and left out: 5",)


def test_an_arm_without_a_finished_run_is_named_and_stops_nobody_else() -> None:
    found = compare(table(FOUR), "A", arms=["A", "B", "C"]).by_arm()

    assert found["B"].verdict == "faster"
    assert found["C"].sentence == "not judged: no finished run"
    assert found["C"].ratio is None


def test_an_arm_that_mostly_failed_does_not_take_the_others_with_it() -> None:
    values = np.column_stack([FOUR, [0.03, math.nan, math.nan, math.nan]])

    found = compare(table(values), "A").by_arm()

    assert found["B"].verdict == "faster"
    assert found["B"].rounds == 4
    assert found["C"].verdict == "not judged"
    assert "1 complete rounds with the baseline, 2 are needed" in found["C"].sentence


def test_a_baseline_without_a_run_is_a_sentence() -> None:
    runs = table(FOUR)

    (found,) = compare(runs[runs["arm"] == "B"], "A").candidates

    assert found.sentence == "not judged: the baseline A has no finished run"


def test_numbers_that_are_none_are_left_out_and_named() -> None:
    runs = table(FOUR)
    runs.loc[0, "stat_s"] = math.nan
    runs.loc[3, "stat_s"] = 0.0

    found = compare(runs, "A")

    assert found.rounds == (3, 4)
    assert found.notes[0] == ("runs without a positive, finite step time were left out: A in round 1, B in round 2")


def test_missing_columns_are_a_config_error() -> None:
    with pytest.raises(ConfigError) as error:
        compare(pd.DataFrame({"arm": ["A"]}), "A")

    assert str(error.value) == "the runs to compare lack the columns round, stat_s"


def test_the_burn_in_never_enters_but_tells_of_settling() -> None:
    burn_in = pd.DataFrame([{"arm": "A", "round": 0, "stat_s": 0.05, "mean_s": 0.05, "median_s": 0.05}])

    found = compare(pd.concat([burn_in, table(FOUR)]), "A")

    assert found.candidates[0].ratio == compare(table(FOUR), "A").candidates[0].ratio
    assert found.notes[0].startswith("first run and burn-in differ by -4")


def test_a_forbidden_verdict_takes_all_runs_and_gives_the_range() -> None:
    runs = table([[10.0, 9.7], [9.9, 9.6], [9.8, 9.5]])

    (found,) = compare(runs, "A", not_judged="arms were not interleaved").candidates

    assert found.ratio == pytest.approx(0.9697, abs=1e-4)
    assert found.sentence == ("not judged: arms were not interleaved (seen: -3.0 %, range -5.0 to -1.0 %)")


def test_one_failed_arm_is_not_judged_while_the_others_are() -> None:
    values = np.column_stack([FOUR, FOUR[:, 1]])

    found = compare(table(values), "A", failed={"C": "results differ"}).by_arm()

    assert found["B"].verdict == "faster"
    assert found["C"].sentence.startswith("not judged: results differ (seen: -10.")
    assert found["C"].low is None


def test_logs_that_show_one_value_only_are_not_judged() -> None:
    (found,) = compare(table([[0.013, 0.012]] * 4, resolution=math.nan), "A").candidates

    assert found.sentence.startswith(
        "not judged: every step of every run of A reads 13 ms: the log is too coarse to show a difference"
    )


def test_flat_runs_are_judged_only_beyond_the_gap_between_recorded_values() -> None:
    small = [[0.100, 0.099], [0.101, 0.099], [0.100, 0.100], [0.100, 0.099]]
    large = [[0.100, 0.090], [0.101, 0.090], [0.100, 0.091], [0.100, 0.090]]

    under = compare(table(small, resolution=math.nan), "A").candidates[0]
    over = compare(table(large, resolution=math.nan), "A").candidates[0]

    assert under.resolution == pytest.approx(0.01, rel=0.1)
    assert under.verdict == "within noise"
    assert over.verdict == "faster"


def test_an_effect_under_the_resolution_of_the_logs_is_within_noise() -> None:
    (found,) = compare(table(FOUR, resolution=0.2, quantum_s=0.001), "A").candidates

    assert found.verdict == "within noise"
    assert found.noise_floor == 0.2


def test_a_coarse_log_is_said_with_its_quantum() -> None:
    found = compare(table(FOUR, resolution=0.004, quantum_s=0.001), "A")

    assert found.notes == (
        ("step times are recorded in 1 ms; effects under 0.8 % cannot be told apart; log a cumulative or finer clock"),
    )


def test_ratios_without_any_spread_are_not_certainty() -> None:
    values = [[0.1, 0.09]] * 4

    assert compare(table(values), "A").candidates[0].verdict == "not judged"
    known = compare(table(values, resolution=0.001), "A").candidates[0]
    assert known.verdict == "not judged"
    assert known.noise_floor is None


def test_stalls_that_change_the_verdict_are_said() -> None:
    runs = table(FOUR)
    runs.loc[runs["arm"] == "B", "mean_s"] *= 1.2

    (found,) = compare(runs, "A").candidates

    assert found.verdict == "faster"
    assert found.notes[0].startswith("plain means of all steps say slower: ")
    assert found.notes[0].endswith("the difference is in the stalls, which are a real cost")


@pytest.mark.parametrize(
    ("stat", "mean", "why"),
    [
        ([0.90, 0.97, 1.06, 1.05], [0.990, 0.991, 0.989, 0.990], "they happen to spread less here"),
        ([0.990, 0.991, 0.989, 0.990], [0.90, 0.97, 1.06, 1.038], "they spread more from run to run"),
    ],
)
def test_why_plain_means_say_something_else_is_what_the_runs_show(
    stat: list[float], mean: list[float], why: str
) -> None:
    runs = table([[0.1, 0.1 * ratio] for ratio in stat])
    runs["mean_s"] = [0.1 * ratio for pair in zip([1.0] * 4, mean, strict=True) for ratio in pair]

    (found,) = compare(runs, "A").candidates

    assert why in found.notes[0]


def test_an_unusual_run_is_kept_and_the_line_without_its_round_shown() -> None:
    values = FOUR.copy()
    values[2, 1] *= 1.1

    found = compare(table(values), "A")

    assert found.flags[0][:2] == (3, "B")
    assert found.candidates[0].rounds == 4
    assert found.candidates[0].notes[0].startswith("without flagged rounds: faster: ")
    assert found.notes[0].startswith("1 flagged run, kept (round 3, B, +")


def test_an_unusual_run_of_another_arm_adds_no_line() -> None:
    values = np.hstack([FOUR, FOUR[:, [1]]])
    values[2, 2] *= 1.1

    found = compare(table(values), "A").by_arm()

    assert any(note.startswith("without flagged rounds: ") for note in found["C"].notes)
    assert not any(note.startswith("without flagged rounds: ") for note in found["B"].notes)


def test_two_rounds_that_are_left_are_no_line_among_three_arms() -> None:
    """Two rounds cannot tell whose spread is whose: the arm would borrow that of calmer ones."""
    values = CALM.copy()
    values[:, 5] *= [1.2, 0.85, 1.0, 1.1]

    found = compare(table(values), "A").by_arm()["F"]

    assert found.verdict == "within noise"
    assert not any(note.startswith("without flagged rounds: ") for note in found.notes)


def test_what_luck_makes_of_the_best_allows_for_the_arm_that_varies_most() -> None:
    values = CALM.copy()
    values[:, 5] *= [1.2, 0.85, 1.0, 1.1]

    calm, noisy = (compare(table(one), "A").notes[-1] for one in (CALM, values))

    assert float(noisy.split(" about ")[1].split(" ")[0]) > 20 * float(calm.split(" about ")[1].split(" ")[0])


def test_a_single_round_that_is_left_is_no_line() -> None:
    values = np.exp(0.001 * np.random.default_rng(23).standard_normal((3, 2)))
    values[0, 1] *= 1.2
    values[1, 1] *= 0.8

    (found,) = compare(table(values), "A").candidates

    assert not any(note.startswith("without flagged rounds: ") for note in found.notes)


def test_six_rounds_with_a_flag_show_the_exact_tests() -> None:
    values = np.vstack([FOUR, FOUR[:2] * 1.001])
    values[2, 1] *= 1.2

    (found,) = compare(table(values), "A").candidates

    assert [note.split(" ")[0] for note in found.notes] == ["without", "sign-flip", "signed-rank"]


def test_drift_is_said_with_what_the_order_left_of_it() -> None:
    drift = 0.03 * np.arange(8) / 7
    mirrored = [0, 1, 3, 2, 5, 4, 6, 7]
    notes = []
    for positions in (mirrored, range(8)):
        order = np.array(list(positions)).reshape(4, 2)
        runs = table(FOUR * np.exp(drift[order]))
        runs["t_start_s"] = 60.0 * order.ravel()
        notes.append(compare(runs, "A").notes[0])

    assert notes[0].startswith("drift over the sweep +2.9 % +-0.5; ")
    assert notes[0].endswith("; the order of the runs cancels its linear part")
    assert notes[1].endswith("; the order of the runs leaves up to 0.4 % of it in a ratio")


def test_a_drift_wider_than_the_interval_adds_the_adjusted_line() -> None:
    order = np.arange(8).reshape(4, 2)
    runs = table(FOUR * np.exp(0.03 * order / 7))
    runs["t_start_s"] = 60.0 * order.ravel()

    (found,) = compare(runs, "A").candidates

    assert any(note.startswith("drift-adjusted (arm + linear time): -10.") for note in found.notes)


def test_many_candidates_are_judged_together() -> None:
    values = 0.028 * np.exp(0.002 * np.random.default_rng(13).standard_normal((3, 11)))
    values[:, 4] *= 0.95

    found = compare(table(values), "A")

    assert [one.verdict for one in found.candidates].count("faster") == 1
    assert found.by_arm()["E"].sentence.endswith("adjusted for 10 candidates)")
    assert found.by_arm()["E"].df == 20
    assert all(one.p_holm is not None and one.p_value is not None for one in found.candidates)
    assert found.notes[-1].startswith("with no real effect the best of 10 is expected to look about 0.")


def test_an_arm_that_varies_unlike_the_others_is_said_and_judged_by_its_own_rounds() -> None:
    values = CALM.copy()
    values[:, 1] *= [0.95, 0.994, 0.996, 1.05]
    values[:, 2] *= 0.98

    found = compare(table(values), "A")

    noisy, calm = found.by_arm()["B"], found.by_arm()["C"]
    assert (noisy.verdict, noisy.df, calm.verdict, calm.df) == ("within noise", 3, "faster", 12)
    assert calm.noise_floor_source == "own spread of 5 of 6 arms, df 12"
    assert noisy.noise_floor_source == "own rounds with the baseline, df 3"
    assert noisy.low is not None
    assert noisy.high is not None
    assert noisy.noise_floor == pytest.approx(math.sqrt(noisy.high / noisy.low) - 1)
    assert any(
        note.startswith("arms do not vary alike from run to run: B by 4.") and ", the others by 0." in note
        for note in found.notes
    )


def test_the_nodes_spread_is_that_of_the_arms_that_share_one_and_a_noisy_arm_needs_rounds_of_its_own() -> None:
    values = CALM.copy()
    values[:, 1] *= [0.98, 0.994, 1.006, 1.02]

    found, calm = compare(table(values), "A"), compare(table(np.delete(values, 1, axis=1), "ACDEF"), "A")

    assert found.s_run == pytest.approx(calm.s_run)
    assert compare(table(values), "B").s_run == pytest.approx(calm.s_run)
    own = float(np.log(values[:, 1] / values[:, 0]).std(ddof=1)) / math.sqrt(2.0)
    assert f"about {rounds_needed(own, 0.01, 2)} rounds would resolve 1 %" in found.by_arm()["B"].sentence


def test_a_pair_that_spreads_more_than_the_rest_is_said_and_judged_by_its_own_rounds() -> None:
    values = CALM.copy()
    apart = np.array([1.002, 0.998, 1.002, 0.998])
    values[:, 0] *= apart
    values[:, 3] /= apart

    found = compare(table(values), "A")

    assert [one.arm for one in found.candidates if one.df == 3] == ["D"]
    assert "judged by their own rounds, which vary more than those of the other arms: D" in found.notes


def test_a_drift_that_may_be_none_adds_no_adjusted_line() -> None:
    """One arm varies by itself: the line through all runs is its noise, wider than the intervals of the others."""
    values = CALM.copy()
    values[:, 1] *= [0.9, 0.95, 1.0, 1.15]
    runs = table(values)
    runs["t_start_s"] = 60.0 * np.arange(len(runs))

    found = compare(runs, "A")

    assert found.drift is not None
    assert abs(found.drift.total) < found.drift.half
    assert not any("drift-adjusted" in note for one in found.candidates for note in one.notes)


def test_identical_rounds_of_the_session_narrow_few_rounds() -> None:
    aa = [(0.0280, 0.02802), (0.02801, 0.0280), (0.0280, 0.0280), (0.02803, 0.0280), (0.0280, 0.02801)]

    alone, pooled = compare(table(FOUR[:2]), "A"), compare(table(FOUR[:2]), "A", aa_rounds=aa)

    assert pooled.candidates[0].df == 5
    assert pooled.candidates[0].noise_floor_source == "A/A, 5 rounds"
    assert pooled.candidates[0].noise_floor is not None
    assert alone.candidates[0].noise_floor is not None
    assert pooled.candidates[0].noise_floor < alone.candidates[0].noise_floor


def test_a_lucky_small_spread_asks_for_confirmation() -> None:
    aa = [(0.028, 0.0285), (0.0284, 0.028), (0.028, 0.0283), (0.0281, 0.0278)]
    values = [[0.028, 0.0252], [0.0281, 0.02529], [0.0279, 0.02511]]

    (found,) = compare(table(values), "A", aa_rounds=aa).candidates

    assert found.sentence.endswith("; spread unusually small, confirm")


def test_a_run_twice_in_one_round_counts_once_and_is_noted() -> None:
    runs = pd.concat([table(FOUR), table(FOUR[:1])])

    found = compare(runs, "A")

    assert found.notes == ("several runs of one arm in one round, the last one counts: A in round 1, B in round 1",)


def test_no_run_at_all_is_a_sentence_for_every_candidate() -> None:
    empty = pd.DataFrame([], columns=["arm", "round", "stat_s", "mean_s", "t_start_s", "resolution"])

    found = compare(empty, "A", arms=["A", "B", "C"])

    assert [one.sentence for one in found.candidates] == ["not judged: the baseline A has no finished run"] * 2


def test_unknown_start_times_only_cost_the_drift() -> None:
    runs = table(FOUR)
    runs["t_start_s"] = [None, *range(7)]

    found = compare(runs, "A")

    assert found.drift is None
    assert found.candidates[0].verdict == "faster"
