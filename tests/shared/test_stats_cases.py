"""Statistics on data from the shared folder: real identical runs, reference formulas, field failures."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.verdicts.real import load_groups

from interlace.compare.compare import compare
from interlace.order import judge_order
from interlace.stats import estimate, fit_drift, slow_steps, summarise

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARED = Path(__file__).parents[2].parent / "shared"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no shared folder beside the repository ({SHARED.name})")

WINDOW = (51, 300)


@pytest.fixture(scope="module")
def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", SHARED / "methodology_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def groups() -> dict[str, list[float]]:
    """Run statistics of every session of identical runs, in the order of time.

    Some groups hold two configurations or several sessions; the benchmark's reader cuts them apart.
    """
    return {
        f"{group}.{number}": [float(value) for value in session.run_s[0]]
        for group, sessions in load_groups(SHARED / "real_runs").items()
        for number, session in enumerate(sessions)
    }


def called_different(groups: dict[str, list[float]], rounds: int, order: str) -> float:
    """Share of A/A sweeps called different, groups weighing the same."""
    shares = []
    for stats in groups.values():
        logs = np.log(stats)
        tables = [logs[i : i + 2 * rounds] for i in range(len(logs) - 2 * rounds + 1)]
        if not tables:
            continue
        batch = np.empty((len(tables), rounds, 2))
        for position, (round_index, arm) in enumerate(
            (r, "AB".index(arm)) for r in range(rounds) for arm in order[2 * r : 2 * r + 2]
        ):
            batch[:, round_index, arm] = [table[position] for table in tables]
        p = estimate(batch).p_value()
        assert p is not None
        shares.append(float((p < 0.05).mean()))
    return float(np.mean(shares))


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_identical_real_runs_are_rarely_told_apart(groups: dict[str, list[float]], rounds: int) -> None:
    # Windows overlap and groups are few: two to three points around the 5 % of the methodology's own table.
    assert called_different(groups, rounds, "ABBABAAB") <= 0.08


def test_a_two_percent_effect_on_real_noise_is_found(groups: dict[str, list[float]]) -> None:
    found = []
    for stats in groups.values():
        values = np.array(stats[:8])
        if values.size < 8:
            continue
        order = "ABBABAAB"
        rows = [
            {"arm": arm, "round": i // 2 + 1, "stat_s": values[i] * (0.98 if arm == "B" else 1.0)}
            for i, arm in enumerate(order)
        ]
        found.append(compare(pd.DataFrame(rows), "A").candidates[0].verdict == "faster")

    assert np.mean(found) >= 0.9


def test_real_run_statistics_repeat_within_a_session(groups: dict[str, list[float]]) -> None:
    cv = [float(np.std(stats, ddof=1) / np.mean(stats)) for stats in groups.values()]

    assert np.median(cv) < 0.002


def test_run_statistics_equal_the_reference(reference: Any) -> None:
    rng = np.random.default_rng(0)
    clock_ms = np.round(np.cumsum(np.concatenate([[0.0], 141.0 + 3 * rng.standard_normal(250)])))
    step_ms = np.diff(clock_ms)

    from_clock = summarise((np.arange(1, 251), step_ms / 1e3, clock_ms[1:] / 1e3), (1, 250))
    from_steps = summarise((np.arange(1, 251), step_ms / 1e3, None), (1, 250))

    assert from_clock.cumulative
    assert from_clock.stat_s * 1e3 == pytest.approx(reference.run_stat(cum_ms=clock_ms)[0])
    assert from_steps.stat_s * 1e3 == pytest.approx(reference.run_stat(step_ms=step_ms)[0])


@pytest.mark.parametrize("rounds", [2, 3, 4, 8])
@pytest.mark.parametrize("aa_rounds", [0, 5])
def test_two_arm_intervals_equal_the_reference(reference: Any, rounds: int, aa_rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    values = np.exp(0.01 * rng.standard_normal((rounds, 2)))
    aa = np.exp(0.01 * rng.standard_normal((aa_rounds, 2))) if aa_rounds else None

    found = estimate(np.log(values), aa_log_s=None if aa is None else np.log(aa))
    ratio, low, high, _, df = reference.compare(values, aa_rounds=aa)

    half = found.half_width()
    assert half is not None
    effect = float(found.effect[0])
    assert (math.exp(effect), math.exp(effect - half[0]), math.exp(effect + half[0])) == pytest.approx(
        (ratio, low, high)
    )
    assert found.df == df


@pytest.mark.parametrize(("rounds", "arms"), [(2, 3), (3, 6), (2, 11)])
def test_many_arm_intervals_equal_the_reference(reference: Any, rounds: int, arms: int) -> None:
    values = np.exp(0.01 * np.random.default_rng(arms).standard_normal((rounds, arms)))
    runs = pd.DataFrame(
        [
            {"arm": f"arm{k}", "round": r + 1, "stat_s": values[r, k]}
            for r, k in itertools.product(range(rounds), range(arms))
        ]
    )
    expected, _, df = reference.many(values)

    for k, found in enumerate(compare(runs, "arm0").candidates, start=1):
        ratio, half, p_holm = expected[k]
        assert found.ratio == pytest.approx(ratio)
        assert found.low == pytest.approx(ratio * math.exp(-half))
        assert found.p_holm == pytest.approx(p_holm)
        assert found.df == df


def test_drift_equals_the_reference(reference: Any) -> None:
    values: NDArray[np.float64] = np.exp(0.01 * np.random.default_rng(9).standard_normal(8))
    total, half, effects = reference.drift(values, list("ABBABAAB"), range(8))

    found = fit_drift(np.log(values), [0, 1, 1, 0, 1, 0, 0, 1], range(8))

    assert found is not None
    assert (found.total, found.half) == pytest.approx((total, half))
    assert found.effects[1] == pytest.approx(effects["B"] - effects["A"])


@pytest.mark.parametrize("name", ["sequential", "alternating", "abba"])
def test_the_order_of_runs_decides_whether_there_is_a_verdict(name: str) -> None:
    """Case G02: clocks that speed up steadily are credited to the candidate."""
    case = SHARED / "cases" / "G02"
    given = json.loads((case / f"{name}.json").read_text())
    expected = json.loads((case / "expected.json").read_text())["expected"]
    judged = judge_order(given["order"])
    runs = pd.DataFrame(
        {
            "arm": given["order"],
            "round": judged.rounds,
            "stat_s": given["time_s"],
            "t_start_s": np.arange(len(given["order"]), dtype=float),
        }
    )

    found = compare(runs, "A", not_judged=judged.reason)
    (candidate,) = found.candidates

    assert candidate.ratio is not None
    assert 100 * (candidate.ratio - 1) == pytest.approx(expected[f"{name}_median_delta_pct"], abs=0.02)
    if name == "sequential":
        assert candidate.verdict == "not judged"
        assert "not interleaved" in candidate.sentence
    if name == "alternating":
        assert "a steady drift is not cancelled" in judged.notes[0]
        assert "leaves up to" in found.notes[-1]
    if name == "abba":
        assert candidate.verdict == "within noise"
        assert found.drift is not None
        assert math.expm1(found.drift.total) == pytest.approx(-0.07, abs=0.002)


def test_a_recompilation_in_the_middle_is_listed_and_does_not_decide() -> None:
    """Case G03: compile time in the first step, and again in the middle."""
    case = SHARED / "cases" / "G03"
    pairs = [
        line.replace("step_s=", "").replace("step=", "").split()
        for line in (case / "train.log").read_text().splitlines()
    ]
    step, step_s = [int(a) for a, _ in pairs], [float(b) for _, b in pairs]
    expected = json.loads((case / "expected.json").read_text())["expected"]

    summary = summarise((step, step_s, None), (2, 10))

    assert summary.median_s == expected["median_after_warmup_s"]
    assert summary.mean_s == pytest.approx(expected["mean_after_warmup_s"], abs=1e-6)
    assert summary.step1_s == expected["first_step_s"]
    assert slow_steps(step[1:], step_s[1:]) == expected["outlier_steps"]
