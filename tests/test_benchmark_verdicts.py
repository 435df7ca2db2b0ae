"""The rules of the verdict benchmark on inputs small enough to check by hand, and that its documents are its output."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from benchmarks.verdicts import asv, noise, rules
from benchmarks.verdicts.__main__ import main
from benchmarks.verdicts.arms import Runs, order_of, runs_from, split
from benchmarks.verdicts.real import load_groups, sweeps_of_group
from benchmarks.verdicts.score import cells
from scipy import stats

from interlace.compare import compare
from interlace.stats import summarise

if TYPE_CHECKING:
    from benchmarks.verdicts.rules import Calls
    from numpy.typing import ArrayLike

pytestmark = pytest.mark.costly

ROOT = Path(__file__).parents[1]


def arm(*run_s: float) -> Runs:
    """One sweep of runs whose steps are all alike."""
    return Runs(np.array([run_s]), np.tile(np.array(run_s, dtype=np.float32)[None, :, None], (1, 1, 30)))


def stepping(*runs: ArrayLike) -> Runs:
    """One sweep of runs given by their steps."""
    steps = np.array([runs], dtype=np.float32)
    return Runs(steps.mean(axis=2).astype(np.float64), steps)


def word(calls: Calls) -> str:
    return {-1: "faster", 0: "none", 1: "slower"}[int(calls.sign[0])]


def test_interlace_calls_a_steady_difference_and_not_a_changing_one() -> None:
    assert word(rules.interlace(arm(100, 101, 102), arm(98, 99, 100))) == "faster"
    assert word(rules.interlace(arm(98, 99, 100), arm(100, 101, 102))) == "slower"
    assert word(rules.interlace(arm(100, 100, 100), arm(98, 102, 99))) == "none"


@pytest.mark.parametrize("rounds", [2, 3, 4, 8])
def test_interlace_says_what_the_comparison_of_a_sweep_says(rounds: int) -> None:
    run_s = np.exp(0.01 * np.random.default_rng(rounds).standard_normal((8, 2, rounds)))
    run_s[4:, 1] *= 0.98
    baseline, candidate = (Runs(run_s[:, k], run_s[:, k, :, None].astype(np.float32)) for k in (0, 1))

    calls = rules.interlace(baseline, candidate)

    assert calls.low is not None
    for sweep in range(8):
        rows = [{"arm": "AB"[k], "round": r + 1, "stat_s": run_s[sweep, k, r]} for k in (0, 1) for r in range(rounds)]
        (found,) = compare(pd.DataFrame(rows), "A").candidates
        assert found.verdict == {-1: "faster", 0: "within noise", 1: "slower"}[int(calls.sign[sweep])]
        assert found.low == pytest.approx(np.exp(calls.low[sweep]))


def test_interlace_refuses_a_sequential_order_only() -> None:
    (ours,) = (rule for rule in rules.RULES if rule.key == "interlace")

    assert ours.refuses("AAABBB")
    assert not ours.refuses("ABBABAAB")
    assert not ours.refuses("ABABAB")


def test_pyperf_calls_three_against_three_values_at_a_t_of_2_78() -> None:
    # Variance 1 on both sides: t is the difference over sqrt(2/3), 2.45 for 2 and 3.67 for 3; t(.975, 4) is 2.78.
    assert word(rules.pyperf(stepping([1, 2, 3]), stepping([3, 4, 5]), values=3)) == "none"
    assert word(rules.pyperf(stepping([1, 2, 3]), stepping([4, 5, 6]), values=3)) == "slower"


def test_pyperf_takes_the_values_inside_a_run_for_independent() -> None:
    baseline, candidate = stepping([100] * 30, [101] * 30), stepping([99] * 30, [100] * 30)

    # Runs 100, 101 against 99, 100: t is 1.4 with two degrees of freedom, but 5.5 once every step counts.
    assert word(rules.pyperf(baseline, candidate, values=1)) == "none"
    assert word(rules.pyperf(baseline, candidate, values=30)) == "faster"


def test_values_of_a_run_are_means_of_equal_parts() -> None:
    runs = stepping([1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12])

    assert rules.pooled(runs, 3).tolist() == [[2, 6, 10, 3, 7, 11]]
    assert rules.pooled(runs, 1).tolist() == [[6, 7]]
    assert rules.pooled(runs, 6).tolist() == [[1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12]]


def test_asv_with_its_default_factor_never_calls_two_percent() -> None:
    baseline, candidate = arm(*np.linspace(100, 100.1, 8)), arm(*np.linspace(98, 98.1, 8))

    assert word(rules.asv_different(baseline, candidate, values=1, factor=1.1)) == "none"
    assert word(rules.asv_different(baseline, candidate, values=1, factor=1.01)) == "faster"


def test_asv_cannot_call_anything_at_six_against_six() -> None:
    """The smallest two-sided p is 2/924, just above 0.002; one-sided it seems to be in reach."""
    assert word(rules.asv_different(arm(1, 2, 3, 4, 5, 6), arm(11, 12, 13, 14, 15, 16), 1, 1.01)) == "none"
    assert word(rules.asv_different(arm(1, 2, 3, 4, 5, 6, 7), arm(11, 12, 13, 14, 15, 16, 17), 1, 1.01)) == "slower"


def test_asv_interval_of_two_values_is_fifty_times_as_wide_as_they_lie_apart() -> None:
    # Of -1 and 1, S is 2 between and 2|b| outside: masses 1/4, 1/2, 1/4, and a tail of 1/(4b) = 0.005 begins at 50.
    low, high = asv.median_interval(np.array([[-1.0, 1.0], [9.0, 11.0], [7.0, 7.0]]))

    assert low == pytest.approx([-50.0, -40.0, 7.0])
    assert high == pytest.approx([50.0, 60.0, 7.0])


def test_asv_compares_intervals_where_the_values_are_few() -> None:
    assert word(rules.asv_different(arm(9, 11), arm(108, 110), values=1, factor=1.01)) == "none"
    assert word(rules.asv_different(arm(9, 11), arm(110, 112), values=1, factor=1.01)) == "slower"


def test_asv_breaks_ties_the_least_significant_way() -> None:
    separate, tied = np.array([[1.0, 2, 3, 4]]), np.array([[4.0, 5, 6, 7]])

    assert asv.u_test_p(separate, tied + 1) == pytest.approx([2 / 70])
    assert asv.u_test_p(separate, tied) == pytest.approx([4 / 70])
    assert asv.u_test_p(separate, separate) == pytest.approx([1.0])


@pytest.mark.parametrize("n", [3, 7, 20])
def test_the_u_test_without_ties_equals_scipys_exact_one(n: int) -> None:
    a, b = np.random.default_rng(n).standard_normal((2, 5, n)) + np.array([[[0.0]], [[1.0]]])

    assert asv.u_test_p(a, b) == pytest.approx(stats.mannwhitneyu(a, b, axis=1, method="exact").pvalue)


def test_google_benchmark_needs_four_repetitions_to_call() -> None:
    assert word(rules.u_test(arm(1, 2, 3), arm(4, 5, 6))) == "none"
    assert word(rules.u_test(arm(1, 2, 3, 4), arm(5, 6, 7, 8))) == "slower"
    assert word(rules.u_test(arm(1, 1, 1, 1), arm(1, 1, 1, 1))) == "none"


def test_hyperfine_calls_by_the_runs() -> None:
    assert word(rules.welch(arm(1, 2, 3), arm(3, 4, 5))) == "none"
    assert word(rules.welch(arm(1, 2, 3), arm(4, 5, 6))) == "slower"
    assert word(rules.welch(arm(2, 2, 2), arm(1, 1, 1))) == "faster"


def test_hyperfine_equals_scipys_test_of_unequal_spreads() -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 200, 4)) * np.array([[[1.0]], [[3.0]]])

    called = rules.welch(Runs(a, a[..., None]), Runs(b, b[..., None])).sign != 0

    assert called.tolist() == (stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05).tolist()


def test_ranges_that_touch_overlap() -> None:
    assert word(rules.ranges_apart(arm(10, 12), arm(8, 10))) == "none"
    assert word(rules.ranges_apart(arm(10, 12), arm(8, 9.9))) == "faster"
    assert word(rules.ranges_apart(arm(10, 12), arm(12.1, 13))) == "slower"


def test_two_sd_are_those_of_the_baseline() -> None:
    # Runs 99 and 101 have a standard deviation of 1.414.
    assert word(rules.two_sd(arm(99, 101), arm(102.8, 102.8))) == "none"
    assert word(rules.two_sd(arm(99, 101), arm(102.9, 102.9))) == "slower"
    assert word(rules.two_sd(arm(99, 101), arm(97.1, 97.1))) == "faster"


def test_a_fixed_threshold_looks_at_the_means_alone() -> None:
    assert word(rules.fixed_threshold(arm(100, 100), arm(106.9, 106.9), 0.07)) == "none"
    assert word(rules.fixed_threshold(arm(100, 100), arm(107.1, 107.1), 0.07)) == "slower"
    assert word(rules.fixed_threshold(arm(100, 100), arm(92.9, 92.9), 0.07)) == "faster"


def test_the_bootstrap_of_two_rounds_calls_whenever_they_agree() -> None:
    assert word(rules.bootstrap(arm(100, 100), arm(99.9, 95))) == "faster"
    assert word(rules.bootstrap(arm(100, 100), arm(100.1, 105))) == "slower"
    assert word(rules.bootstrap(arm(100, 100), arm(100.1, 95))) == "none"


@pytest.mark.parametrize(("name", "expected"), [("sequential", "AAABBB"), ("ABAB", "ABABAB"), ("ABBA", "ABBAAB")])
def test_orders_are_those_of_the_tools(name: str, expected: str) -> None:
    assert order_of(name, 3) == expected  # type: ignore[arg-type] # a literal per parameter


def test_mirrored_order_is_the_one_that_sweeps_run_in() -> None:
    assert order_of("mirrored", 4) in {"ABBABAAB", "BAABABBA"}


def test_the_k_th_runs_of_both_arms_form_a_round() -> None:
    baseline, candidate = split(arm(1, 2, 3, 4), "ABBA")

    assert baseline.run_s.tolist() == [[1, 4]]
    assert candidate.run_s.tolist() == [[2, 3]]


def test_the_statistic_of_simulated_runs_is_interlaces() -> None:
    step_s = np.exp(0.02 * np.random.default_rng(0).standard_normal((1, 2, 250), dtype=np.float32))

    runs = runs_from(step_s)

    for run in (0, 1):
        expected = summarise((np.arange(1, 251), step_s[0, run].astype(float), None), (1, 250)).stat_s
        assert runs.run_s[0, run] == pytest.approx(expected, rel=1e-6)


def test_a_drift_is_a_line_and_mirrored_order_takes_it_out() -> None:
    draws = noise.draw(np.random.default_rng(1), 3, 8)

    drifting = noise.drift(draws, 0.0, size=0.03)
    baseline, candidate = split(Runs(drifting, np.zeros((3, 8, 1), np.float32)), order_of("mirrored", 4))

    assert np.abs(np.diff(drifting, axis=1)) == pytest.approx(0.03 / 7)
    assert baseline.run_s.mean(axis=1) == pytest.approx(candidate.run_s.mean(axis=1))


def test_a_jump_happens_once_and_outliers_are_ten_percent() -> None:
    draws = noise.draw(np.random.default_rng(2), 200, 8)

    jumps = np.abs(np.diff(noise.jump(draws, 0.0, size=0.01), axis=1)) > 0
    slow = noise.outliers(draws, 0.0)

    assert jumps.sum(axis=1).tolist() == [1] * 200
    assert set(np.unique(slow)) == {0.0, 0.1}
    assert (slow > 0).mean() == pytest.approx(0.03, abs=0.01)


def test_runs_resemble_their_predecessor_by_half() -> None:
    values = noise.resembling(noise.draw(np.random.default_rng(3), 2000, 8), 0.01)

    assert values.std() == pytest.approx(0.01, rel=0.03)
    assert np.corrcoef(values[:, 3], values[:, 4])[0, 1] == pytest.approx(0.5, abs=0.05)


def test_shares_are_counted_over_sweeps() -> None:
    """Two sweeps of two mirrored rounds: the candidate 10 % slower in the first, alike in the second."""
    assert order_of("mirrored", 2) == "BAAB"
    run_s = np.array([[1.10, 1.0, 1.01, 1.11], [1.0, 1.0, 1.01, 1.01]])
    found = cells(Runs(run_s, np.repeat(run_s[..., None], 250, axis=2).astype(np.float32)), 2, "made up", None)

    (ranges,) = (cell for cell in found if (cell.rule, cell.order) == ("ranges", "mirrored"))
    (threshold,) = (cell for cell in found if (cell.rule, cell.order) == ("7-percent", "mirrored"))
    (refused,) = (cell for cell in found if (cell.rule, cell.order) == ("interlace", "sequential"))
    assert (ranges.false_calls, ranges.sweeps) == (0.5, 2)
    assert (threshold.false_calls, threshold.missed, threshold.wrong_way) == (0.5, 1.0, 0.5)
    assert (refused.false_calls, refused.missed, refused.covered) == (0.0, 1.0, None)


def write_runs(folder: Path, starts: list[str], steps: list[int]) -> None:
    times = {f"r{i}": np.full(steps[i], 100.0 + i, np.float32) for i in range(len(starts))}
    np.savez(folder / "step_ms.npz", **times)  # type: ignore[arg-type] # numpy types the keywords as flags
    with (folder / "runs.csv").open("w") as file:
        rows = zip(times, starts, steps, strict=True)
        csv.writer(file).writerows([["run", "group", "started", "steps"], *([run, "g", at, n] for run, at, n in rows)])


def test_real_sweeps_never_cross_a_pause_or_another_length_of_run(tmp_path: Path) -> None:
    minutes = [0, 5, 10, 15, 20, 80, 85, 90, 95, 100, 105, 110, 115]
    starts = [f"2026-01-01 {10 + minute // 60}:{minute % 60:02d}:00" for minute in minutes]
    write_runs(tmp_path, starts, [310] * 9 + [320] * 4)

    (group,) = load_groups(tmp_path).values()
    sweeps = sweeps_of_group(group, 4)

    assert [session.run_s.shape for session in group] == [(1, 5), (1, 4), (1, 4)]
    assert sweeps is not None
    assert (1e3 * sweeps.run_s).round().tolist() == [
        [100, 101, 102, 103],
        [101, 102, 103, 104],
        [105, 106, 107, 108],
        [109, 110, 111, 112],
    ]
    assert sweeps_of_group(group, 6) is None


def test_a_quick_run_writes_every_table_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--out", str(tmp_path / "out"), "--real", str(tmp_path / "absent")]) == 0

    printed = capsys.readouterr()
    assert [Path(line).name for line in printed.out.splitlines()] == [
        "table.md",
        "by_noise.md",
        "cells.csv",
        "rounds_needed.csv",
        "verdicts.svg",
    ]
    table = (tmp_path / "out" / "table.md").read_text()
    assert "no real runs: absent/ is not there" in table
    assert all(rule.name in table for rule in rules.RULES)
    assert ET.parse(tmp_path / "out" / "verdicts.svg").getroot().get("viewBox") is not None  # noqa: S314 (our own)


def test_the_page_shows_the_table_that_was_written() -> None:
    written = (ROOT / "docs" / "results" / "verdicts" / "table.md").read_text()
    page = (ROOT / "docs" / "verdicts.md").read_text()

    assert written in page
    assert "(results/verdicts/verdicts.svg)" in page
