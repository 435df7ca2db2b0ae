from __future__ import annotations

import math

import pandas as pd
import pytest

from interlace.compare.screen import screen


def runs(*rows: tuple[str, float]) -> pd.DataFrame:
    """One run every 60 s, after a burn-in: (arm, stat_s)."""
    frame = pd.DataFrame(rows, columns=["arm", "stat_s"])
    frame["t_start_s"] = 60.0 * frame.index
    frame["round"] = 1
    burn_in = pd.DataFrame([{"arm": "base", "stat_s": 9.0, "t_start_s": -60.0, "round": 0}])
    return pd.concat([burn_in, frame], ignore_index=True)


def test_candidates_are_ranked_and_none_is_judged() -> None:
    frame = runs(("base", 1.0), ("slow", 1.2), ("quick", 0.8), ("base", 1.0), ("same", 1.0), ("base", 1.0))

    found = screen(frame, "base", ["slow", "quick", "same"])

    assert [one.arm for one in found.candidates] == ["quick", "same", "slow"]
    assert {one.verdict for one in found.candidates} == {"not judged"}
    assert [one.ratio for one in found.candidates] == pytest.approx([0.8, 1.0, 1.2])
    assert found.candidates[0].sentence == "not judged: rank 1 of 3 in a screen of one round (seen: -20.0 %)"


def test_a_steady_drift_does_not_change_the_ranks() -> None:
    drifting = [("base", 1.0), ("early", 1.0), ("base", 1.0), ("late", 0.99), ("base", 1.0)]
    frame = runs(*((arm, stat_s * math.exp(0.02 * i)) for i, (arm, stat_s) in enumerate(drifting)))

    found = screen(frame, "base", ["early", "late"])

    assert [one.arm for one in found.candidates] == ["late", "early"]
    assert [one.ratio for one in found.candidates] == pytest.approx([0.99, 1.0])


def test_the_baseline_says_how_much_of_a_rank_is_noise() -> None:
    found = screen(runs(("base", 1.0), ("a", 0.9), ("base", 1.03), ("b", 0.9), ("base", 1.02)), "base", ["a", "b"])

    text = "\n".join(found.notes)
    assert "the baseline's own runs took 1000, 1030, 1020 ms, 3 % apart" in text
    assert "the best of 2 is expected to look about" in text
    assert "four fresh rounds" in text


def test_an_arm_without_a_run_has_no_rank_and_comes_last() -> None:
    frame = runs(("base", 1.0), ("a", 1.1), ("base", 1.0), ("broken", math.nan), ("base", 1.0))

    found = screen(frame, "base", ["broken", "a"])

    assert [(one.arm, one.ratio is None) for one in found.candidates] == [("a", False), ("broken", True)]
    assert "broken has no finished run" in found.candidates[1].sentence
    assert "runs without a positive, finite step time were left out: broken in round 1" in found.notes


def test_without_a_baseline_nothing_is_ranked() -> None:
    found = screen(runs(("a", 1.1), ("b", 1.0)), "base", ["a", "b"])

    assert found.rounds == ()
    assert all("base has no finished run" in one.sentence for one in found.candidates)


def test_with_one_baseline_run_the_noise_is_not_known() -> None:
    found = screen(runs(("a", 1.1), ("base", 1.0), ("b", 0.9)), "base", ["a", "b"])

    assert [one.ratio for one in found.candidates] == pytest.approx([0.9, 1.1])
    assert any("one finished run only" in note for note in found.notes)
