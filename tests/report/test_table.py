from __future__ import annotations

from dataclasses import replace

import pytest

from interlace.compare import ArmSummary, Comparison
from interlace.report.table import (
    Table,
    arms_table,
    count,
    judgement_lines,
    milliseconds,
    narrowed,
    per_cent,
    with_range,
)

BASELINE = ArmSummary(
    "baseline", 2, 2, baseline=True, median_s=0.028, low_s=0.027, high_s=0.029, p90_s=0.033, max_s=0.168,
    step1_s=12.6, wall_s=52.0,
)  # fmt: skip
CANDIDATE = ArmSummary(
    "compiled", 2, 2, median_s=0.013, low_s=0.013, high_s=0.013, stat_s=0.01298, cv=0.004, mean_s=0.0131,
    p90_s=0.015, max_s=0.017, step1_s=26.8, wall_s=63.0, peak_mib=10854.0,
    comparison=Comparison("compiled", "baseline", "faster", "faster: 53 % less", ratio=0.465),
)  # fmt: skip


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.004567, "4.567 ms"), (0.02804, "28.04 ms"), (0.1512, "151.2 ms"), (1.204, "1204 ms"), (12.74, "12.7 s")],
)  # fmt: skip
def test_step_times_have_about_four_figures(value_s: float, text: str) -> None:
    assert milliseconds(value_s) == text


def test_a_median_stands_with_the_range_of_its_runs_as_in_pull_requests() -> None:
    assert with_range(0.028, 0.027, 0.029) == "28.00 ms (27.00 / 29.00)"
    assert with_range(0.013, 0.013, 0.013) == "13.00 ms"


def test_the_table_has_a_row_an_arm_and_no_column_that_nobody_fills() -> None:
    table = arms_table([BASELINE, CANDIDATE])

    assert table.header == (
        "arm", "runs", "median step (range of runs)", "compared (CV)", "mean", "p90", "slowest", "step 1",
        "run", "GPU memory", "ratio", "speed-up", "verdict",
    )  # fmt: skip
    assert table.rows[1] == (
        "compiled", "2", "13.00 ms", "12.98 ms (0.4 %)", "13.10 ms", "15.00 ms", "17.00 ms", "26.8 s",
        "63.0 s (0.83x)", "10.6 GiB", "0.465", "2.15x", "faster",
    )  # fmt: skip


def test_idle_memory_and_the_allocators_peak_stand_beside_the_peak() -> None:
    arm = replace(BASELINE, peak_mib=5222.0, idle_mib=517.0, allocated_mib=4300.0)
    table = arms_table([arm, replace(CANDIDATE, idle_mib=3.0)])

    memory = [table.header.index(name) for name in ("GPU memory", "allocator peak")]
    assert [[row[i] for i in memory] for row in table.rows] == [["5.1 GiB (idle 0.5)", "4.2 GiB"], ["10.6 GiB", ""]]


def test_an_arm_whose_runs_are_missing_says_how_many_there_are() -> None:
    (row,) = arms_table([ArmSummary("a", 1, 4)]).rows

    assert row[:3] == ("a", "1 of 4", "-")


def test_a_narrow_terminal_loses_the_columns_that_say_least_and_never_the_verdict() -> None:
    wide = arms_table([BASELINE, CANDIDATE])

    assert narrowed(wide, 200) == wide
    assert narrowed(wide, 80).header == ("arm", "runs", "median step (range of runs)", "ratio", "speed-up", "verdict")
    assert narrowed(wide, 10).header == ("arm", "median step (range of runs)", "speed-up", "verdict")


def test_aligned_columns_stay_aligned_when_others_go() -> None:
    table = Table(("arm", "run", "ratio", "verdict"), (("a" * 30, "1", "2", "x"),), frozenset({1, 2}))

    assert narrowed(table, 52).header == ("arm", "ratio", "verdict")
    assert narrowed(table, 52).numeric == frozenset({1})


def test_what_a_verdict_rests_on_stands_under_it() -> None:
    one = Comparison(
        "b", "a", "faster", "faster: 2.0 % less time per step", ratio=0.98, round_ratios=(0.979, 0.981),
        rounds_faster=2, noise_floor=0.0039, noise_floor_source="own spread, df 6", notes=("sign-flip p = 0.03",),
    )  # fmt: skip

    assert judgement_lines([one]) == [
        "b: faster: 2.0 % less time per step",
        "  ratio by round: 0.9790 0.9810; 2 of 2 faster",
        "  sign-flip p = 0.03",
        "noise floor: +-0.39 % (own spread, df 6)",
    ]


def test_noise_floors_stand_once_for_each_way_they_were_found() -> None:
    def one(arm: str, floor: float, source: str) -> Comparison:
        return Comparison(arm, "a", "within noise", "-", ratio=1.0, noise_floor=floor, noise_floor_source=source)

    shared, own = "own spread of 3 of 6 arms, df 6", "own rounds with the baseline, df 3"
    rows = [one(arm, 0.01, shared) for arm in "bcf"] + [one("d", 0.03, own), one("e", 0.4, own)]

    assert [line for line in judgement_lines(rows) if "floor" in line] == [
        f"noise floor: +-1 % ({shared})",
        f"noise floor: +-3 % to 40 % ({own}: d, e)",
    ]


@pytest.mark.parametrize(
    ("share", "text"), [(0.0039, "0.39 %"), (0.04, "4 %"), (1.1, "110 %"), (3e-35, "under 0.01 %")]
)
def test_shares_are_written_without_exponents(share: float, text: str) -> None:
    assert per_cent(share) == text


def test_one_is_singular() -> None:
    assert (count(1, "run"), count(2, "run"), count(0, "run")) == ("1 run", "2 runs", "0 runs")
