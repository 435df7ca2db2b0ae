"""Making and judging orders of runs."""

from __future__ import annotations

import pytest

from interlace.order import (
    NOT_INTERLEAVED,
    judge_order,
    order_runs,
    order_runs_mirrored,
    order_runs_random,
    order_runs_sequential,
    unknown_order,
)


def word(rounds: list[list[str]]) -> str:
    return " ".join("".join(row) for row in rounds)


def test_two_arms_are_mirrored_as_thue_and_morse_say() -> None:
    base, rounds = order_runs_mirrored("AB", 8, seed=0)
    forward = "".join(base)

    assert word(rounds) == " ".join(
        forward if turn == "f" else forward[::-1] for turn in ["f", "b", "b", "f", "b", "f", "f", "b"]
    )


def test_any_number_of_arms_runs_forward_and_back() -> None:
    base, rounds = order_runs_mirrored(["a", "b", "c", "d"], 4, seed=7)

    assert sorted(base) == ["a", "b", "c", "d"]
    assert rounds == [list(base), list(base)[::-1], list(base)[::-1], list(base)]


def test_the_seed_draws_the_base_order_and_is_all_that_does() -> None:
    orders = {order_runs_mirrored("ABC", 2, seed)[0] for seed in range(40)}

    assert len(orders) == 6
    assert order_runs_mirrored("ABC", 3, 5) == order_runs_mirrored("ABC", 3, 5)


def test_random_rounds_hold_every_arm_once() -> None:
    base, rounds = order_runs_random("ABC", 6, seed=1)

    assert [sorted(row) for row in rounds] == [["A", "B", "C"]] * 6
    assert list(base) == rounds[0]
    assert len({tuple(row) for row in rounds}) > 1


def test_sequential_runs_one_arm_after_the_other() -> None:
    assert order_runs_sequential("AB", 2) == [(1, "A"), (2, "A"), (1, "B"), (2, "B")]
    assert order_runs("sequential", "AB", 2, 0) == (("A", "B"), [(1, "A"), (2, "A"), (1, "B"), (2, "B")])


def test_an_order_is_listed_run_by_run() -> None:
    base, runs = order_runs("mirrored", "AB", 2, seed=0)

    assert runs == [(1, base[0]), (1, base[1]), (2, base[1]), (2, base[0])]


@pytest.mark.parametrize(
    ("order", "kind", "rounds"),
    [
        ("ABBABAAB", "interleaved", (1, 1, 2, 2, 3, 3, 4, 4)),
        ("ABBA", "interleaved", (1, 1, 2, 2)),
        ("ABCCBA", "interleaved", (1, 1, 1, 2, 2, 2)),
        ("ABABAB", "alternating", (1, 1, 2, 2, 3, 3)),
        ("AB", "interleaved", (1, 1)),
        ("AAABBB", "sequential", (1, 2, 3, 3, 4, 5)),
        ("AABBCC", "sequential", (1, 2, 2, 3, 3, 4)),
        ("AABBAABB", "irregular", (1, 2, 2, 3, 3, 4, 4, 5)),
    ],
)
def test_an_order_is_recognised(order: str, kind: str, rounds: tuple[int, ...]) -> None:
    judged = judge_order(order)

    assert (judged.kind, judged.rounds) == (kind, rounds)
    assert (judged.reason is None) == (kind in ("interleaved", "alternating"))


def test_sequential_runs_get_no_verdict_and_the_reason() -> None:
    assert judge_order("AAABBB").reason == NOT_INTERLEAVED
    assert NOT_INTERLEAVED == "arms were not interleaved; drift is not separated from the effect"


def test_an_irregular_order_says_how_many_rounds_it_holds() -> None:
    assert judge_order("AABBAABB").reason == (
        "the order AABBAABB does not fall into rounds of every arm once (3 of 4 do); "
        "drift is not separated from the effect"
    )


def test_a_missing_last_run_leaves_its_round_incomplete() -> None:
    judged = judge_order("ABBABAA")

    assert judged.reason is None
    assert judged.rounds == (1, 1, 2, 2, 3, 3, 4)
    assert judged.notes[0] == "1 of 7 runs are in no round that has every arm once"


def test_a_failed_run_in_the_middle_breaks_only_its_round() -> None:
    judged = judge_order("ABBAAAB")

    assert judged.reason is None
    assert judged.rounds == (1, 1, 2, 2, 3, 4, 4)


def test_a_leading_burn_in_is_left_out() -> None:
    judged = judge_order("AABBA")

    assert judged.rounds == (1, 2, 2, 3, 3)
    assert judged.notes == ("1 of 5 runs are in no round that has every arm once",)


def test_alternating_orders_are_judged_but_noted() -> None:
    assert judge_order("ABABAB").notes == (
        "every round ran in the same order (ABABAB): a steady drift is not cancelled, ABBA would",
    )


def test_orders_that_leave_drift_are_noted_and_balanced_ones_are_not() -> None:
    assert judge_order("ABBABAAB").notes == ()
    assert judge_order("ABBABA").notes == (
        (
            "some arms ran earlier in their rounds than others: a part of a steady drift remains; "
            "an even number of rounds is better"
        ),
    )
    assert judge_order("ABABABBA").notes == (
        "some arms ran earlier in their rounds than others: a part of a steady drift remains",
    )


def test_an_unknown_order_gets_no_verdict() -> None:
    judged = unknown_order()

    assert (judged.kind, judged.rounds) == ("unknown", ())
    assert judged.reason == "the order of the runs is not known; drift cannot be separated from the effect"
