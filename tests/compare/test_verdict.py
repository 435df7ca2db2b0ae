"""The wording of verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace.compare.verdict import Evidence, judge

FASTER = Evidence(ratio=0.979, low=0.971, high=0.987, rounds=4, rounds_faster=4)
NOISE = Evidence(ratio=0.998, low=0.993, high=1.003, rounds=4, rounds_faster=2, rounds_slower=2)


def test_faster_is_said_with_its_interval_and_rounds() -> None:
    assert judge(FASTER) == (
        "faster",
        "faster: 2.1 % less time per step (95 % interval 1.3 to 2.9 %, 4 rounds, 4 of 4 faster)",
    )


def test_slower_is_said_the_same_way() -> None:
    evidence = Evidence(ratio=1.021, low=1.013, high=1.029, rounds=4, rounds_slower=3, rounds_faster=1)

    assert judge(evidence) == (
        "slower",
        "slower: 2.1 % more time per step (95 % interval 1.3 to 2.9 %, 4 rounds, 3 of 4 slower)",
    )


def test_noise_inside_the_margin_says_what_is_excluded() -> None:
    assert judge(NOISE) == (
        "within noise",
        "within noise: -0.2 % (-0.7 to +0.3); a change over 1 % is excluded",
    )


def test_noise_beyond_the_margin_says_what_is_not_excluded() -> None:
    evidence = Evidence(ratio=0.991, low=0.974, high=1.008, rounds=4, rounds_needed=9)

    assert judge(evidence) == (
        "within noise",
        (
            "within noise: -0.9 % (-2.6 to +0.8); up to 2.6 % faster or 0.8 % slower is not excluded; "
            "about 9 rounds would resolve 1 %"
        ),
    )


def test_rounds_that_were_already_run_are_not_asked_for() -> None:
    evidence = Evidence(ratio=0.993, low=0.985, high=1.001, rounds=4, rounds_needed=4)

    assert judge(evidence)[1] == (
        "within noise: -0.7 % (-1.5 to +0.1); up to 1.5 % faster or 0.1 % slower is not excluded"
    )


def test_an_effect_under_the_resolution_is_within_noise() -> None:
    assert judge(replace(FASTER, resolution=0.03, rounds_needed=3)) == (
        "within noise",
        (
            "within noise: -2.1 % (-2.9 to -1.3), under the 3 % that the log can resolve; "
            "up to 2.9 % faster is not excluded"
        ),
    )


def test_several_candidates_are_judged_by_the_adjusted_p() -> None:
    joint = replace(FASTER, candidates=10, rounds_needed=2)

    assert judge(replace(joint, p_holm=0.01))[1] == (
        "faster: 2.1 % less time per step (95 % interval 1.3 to 2.9 % unadjusted, 4 rounds, 4 of 4 faster; "
        "Holm p = 0.01, adjusted for 10 candidates)"
    )
    assert judge(replace(joint, p_holm=0.08)) == (
        "within noise",
        (
            "within noise: -2.1 % (-2.9 to -1.3), not enough once adjusted for 10 candidates "
            "(Holm p = 0.08); up to 2.9 % faster is not excluded"
        ),
    )


def test_two_rounds_are_provisional() -> None:
    evidence = replace(FASTER, rounds=2, rounds_faster=2, provisional=True)

    assert judge(evidence)[1].endswith("2 rounds, 2 of 2 faster); provisional (2 rounds)")


def test_a_spread_far_under_that_of_identical_arms_asks_for_confirmation() -> None:
    assert judge(replace(FASTER, small_spread=True))[1].endswith("; spread unusually small, confirm")
    assert "confirm" not in judge(replace(NOISE, small_spread=True))[1]


def test_a_forbidden_verdict_shows_the_ratio_and_the_range() -> None:
    evidence = Evidence(ratio=0.97, reason="results differ", spread=(0.95, 0.99))

    assert judge(evidence) == (
        "not judged",
        "not judged: results differ (seen: -3.0 %, range -5.0 to -1.0 %)",
    )
    assert judge(Evidence(ratio=None, reason="no finished run")) == (
        "not judged",
        "not judged: no finished run",
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high", "sentence"),
    [
        (0.9796, 0.97955, 0.97965, "2.040 % less time per step (95 % interval 2.035 to 2.045 %"),
        (0.5, 0.4, 0.6, "50.0 % less time per step (95 % interval 40.0 to 60.0 %"),
        (0.99, 0.9805, 0.9997, "1.00 % less time per step (95 % interval 0.03 to 1.95 %"),
    ],
)
def test_decimals_follow_the_interval_and_never_print_an_excluded_zero(
    ratio: float, low: float, high: float, sentence: str
) -> None:
    assert sentence in judge(Evidence(ratio=ratio, low=low, high=high, rounds=4))[1]


@given(st.floats(0.5, 2.0), st.floats(1e-6, 0.5), st.floats(0.0, 0.1), st.booleans())
def test_no_wording_claims_that_nothing_differs(
    ratio: float, half: float, resolution: float, provisional: bool
) -> None:
    evidence = Evidence(ratio=ratio, low=ratio * (1 - half), high=ratio * (1 + half), rounds=4)
    verdict, sentence = judge(replace(evidence, resolution=resolution, provisional=provisional))

    assert sentence.startswith(f"{verdict}: ")
    assert not any(claim in sentence for claim in ("same", "no difference", "no regression", "identical"))
    if verdict == "within noise":
        assert "excluded" in sentence
