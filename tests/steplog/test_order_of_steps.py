"""What happens to step numbers: resumed, doubled, missing, without numbers, by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.steplog import slowest_rank
from tests.steplog.series import codes, rows

if TYPE_CHECKING:
    from tests.steplog.conftest import ReadText


def lines(steps: list[int], first_ms: int = 400) -> str:
    return "".join(f"step={step} step_ms={first_ms + n}\n" for n, step in enumerate(steps))


def test_the_later_value_of_a_resumed_run_wins(read_text: ReadText) -> None:
    log = read_text(lines([1, 2, 3, 4, 3, 4, 5]))

    assert rows(log) == [(1, 0.4), (2, 0.401), (3, 0.404), (4, 0.405), (5, 0.406)]
    assert log.attempts == 2
    assert log.notes[-1] == (
        "resumed: the step counter goes back (4 -> 3): 2 attempts, the later value of 2 repeated steps was kept"
    )


def test_a_doubled_step_is_said(read_text: ReadText) -> None:
    log = read_text(lines([1, 2, 2, 3, 4, 5]))

    assert rows(log)[1] == (2, 0.402)
    assert codes(log.notes) == ["duplicate_steps"]


def test_unlabelled_ranks_are_reduced_to_the_slowest(read_text: ReadText) -> None:
    log = read_text(lines([1, 1, 2, 2, 3, 3, 4, 4]))

    assert rows(log) == [(1, 0.401), (2, 0.403), (3, 0.405), (4, 0.407)]
    assert codes(log.notes) == ["unlabelled_ranks"]
    assert log.attempts == 1


def of_rank(*steps: int, ms: int | None = None) -> str:
    return "".join(f"rank=0 step={step} step_ms={ms or 400 + n}\n" for n, step in enumerate(steps))


@pytest.mark.parametrize("steps", [(1, 2, 1, 3, 2, 4, 3, 4), (1, 1, 2, 2, 3, 3, 4, 4)], ids=["apart", "in step"])
def test_two_trainings_that_write_one_ranks_steps_at_once_are_no_resumed_run(
    read_text: ReadText, steps: tuple[int, ...]
) -> None:
    log = read_text(of_rank(*steps))

    assert (codes(log.notes), log.attempts) == (["several_at_once"], 1)
    assert [step for step, _ in rows(log)] == [1, 2, 3, 4]


def test_a_run_that_was_resumed_from_its_start_and_a_logger_that_says_all_twice_are_no_two_trainings(
    read_text: ReadText,
) -> None:
    assert codes(read_text(of_rank(1, 2, 3, 4, 1, 2, 3, 4)).notes) == ["resumed"]
    assert codes(read_text(of_rank(1, 1, 2, 2, 3, 3, 4, 4, ms=400)).notes) == ["duplicate_steps"]


def test_a_counter_that_starts_again_each_epoch_is_no_resumed_run(read_text: ReadText) -> None:
    text = "".join(f"epoch={e} step={s} step_ms={e}0{s}\n" for e in (1, 2, 3) for s in (1, 2))

    log = read_text(text)

    assert rows(log) == [(1, 0.101), (2, 0.102), (3, 0.201), (4, 0.202), (5, 0.301), (6, 0.302)]
    assert codes(log.notes) == ["per_epoch_counter", "numbered_by_order"]
    assert log.attempts == 1


def test_records_without_numbers_are_counted(read_text: ReadText) -> None:
    log = read_text("step_ms=400\nstep_ms=410\n")

    assert rows(log) == [(1, 0.4), (2, 0.41)]
    assert codes(log.notes) == ["numbered_by_order"]


def test_missing_steps_are_said_and_not_filled(read_text: ReadText) -> None:
    log = read_text(lines([1, 2, 3, 6, 7]))

    assert [step for step, _ in rows(log)] == [1, 2, 3, 6, 7]
    assert log.notes[-1] == "missing_steps: steps are missing in 1 places, from step 4"


def test_a_log_of_every_tenth_step_is_said_to_hold_means(read_text: ReadText) -> None:
    assert codes(read_text(lines([10, 20, 30, 40])).notes) == ["every_n_steps"]


def test_the_slowest_rank_is_the_step_time_and_a_lacking_rank_shows(read_text: ReadText) -> None:
    log = read_text("rank=0 step=1 step_ms=500\nrank=1 step=1 step_ms=510\nrank=0 step=2 step_ms=400\n")

    slowest = slowest_rank(log.frame)

    assert slowest[["step", "step_s", "rank", "ranks"]].values.tolist() == [[1, 0.51, 1, 2], [2, 0.4, 0, 1]]
    assert log.notes[-1] == "missing_on_rank: rank 1 lacks 1 steps: 2"


def test_an_absurd_step_number_is_dropped_and_said(read_text: ReadText) -> None:
    log = read_text("step=99999999999999999999999 step_ms=400\nstep=2 step_ms=400\n")

    assert rows(log) == [(2, 0.4)]
    assert codes(log.notes) == ["bad_step"]


def test_a_counter_from_zero_is_kept_and_said(read_text: ReadText) -> None:
    log = read_text(lines([0, 1, 2]))

    assert rows(log) == [(0, 0.4), (1, 0.401), (2, 0.402)]
    assert codes(log.notes) == ["zero_based"]


def test_a_step_out_of_order_is_no_resumed_run(read_text: ReadText) -> None:
    log = read_text(lines([1, 2, 3, 4, 5, 1, 7, 8, 9, 10]))

    assert [step for step, _ in rows(log)] == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert rows(log)[0] == (1, 0.4)
    assert log.errors == ("out_of_order:6: it stands between the steps 5 and 7: `step 1: 0.405 s`",)
    assert log.attempts == 1


def test_a_number_made_of_two_is_out_of_order_also_where_a_run_was_resumed(read_text: ReadText) -> None:
    log = read_text(lines([7, 8, 9, 10, 11, 12, 1211, 12, 13, 14]))

    assert [step for step, _ in rows(log)] == [7, 8, 9, 10, 11, 12, 13, 14]
    assert codes(log.errors) == ["out_of_order:7"]


def test_a_row_that_lost_its_rank_is_an_error(read_text: ReadText) -> None:
    text = "".join(f"rank={rank} step={n} step_ms=40{n}\n" for n in range(1, 9) for rank in (0, 1))

    log = read_text(text + "=1 step=9 step_ms=409\n")

    assert sorted(set(log.frame["rank"])) == [0, 1]
    assert log.errors[0].startswith("out_of_order:17: it does not say its rank")


def test_a_difference_over_missing_steps_is_a_mean_and_left_out(read_text: ReadText) -> None:
    steps = [1, 2, 3, 4, 5, 8, 9, 10, 11]

    log = read_text("".join(f'{{"step": {n}, "elapsed_s": {n / 2}}}\n' for n in steps))

    assert rows(log) == [(n, 0.5) for n in (2, 3, 4, 5, 9, 10, 11)]
    assert "clock_gaps: 1 differences over missing steps were left out, they are means (steps 8)" in log.notes


def test_two_records_say_nothing_of_how_far_records_are_apart(read_text: ReadText) -> None:
    assert codes(read_text("step=1 step_s=0.5\nstep=7 step_s=0.4\n").notes) == []


def test_a_step_below_zero_is_dropped_and_said(read_text: ReadText) -> None:
    log = read_text('{"step": -1, "step_s": 0.5}\n{"step": 0, "step_s": 0.4}\n')

    assert rows(log) == [(0, 0.4)]
    assert "bad_step" in codes(log.notes)
