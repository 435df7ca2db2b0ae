from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from tests.steplog.conftest import ReadText

TWO_RANKS = "rank=0 step=1 step_s=0.500\nrank=1 step=1 step_s=0.510\n"


def test_plain_records_are_read_as_printed(read_text: ReadText) -> None:
    log = read_text("step=1 step_s=0.5 loss=2.0\nstep=2 step_s=0.4 loss=1.9\n")

    assert log.reader == "keyvalue"
    assert rows(log) == [(1, 0.5), (2, 0.4)]
    assert log.frame["loss"].tolist() == [2.0, 1.9]
    assert log.quantum_s == 0.1
    assert not log.cumulative


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step: 3 loss: 2.0 step_time: 0.31 s\n", [(3, 0.31)]),
        ("Epoch [1/2], Step [5/100], step_time: 0.31s\n", [(5, 0.31)]),
        ("step 3/100 step_time=310ms\n", [(3, 0.31)]),
        ("iter 3 | time per step (ms): 312.4\n", [(3, 0.3124)]),
        ("Step: 3, ms/step: 310\n", [(3, 0.31)]),
        ("iteration        5/     100 | elapsed time per iteration (ms): 312.4 | lr: 1e-4\n", [(5, 0.3124)]),
        ("{'loss': 0.5, 'step': 1, 'step_time_s': 0.4}\n", [(1, 0.4)]),
        ("step=1,234 step_us=500000\n", [(1234, 0.5)]),
        ("step=1 step_s=0.5 step=2 step_s=0.4 step=3 step_s=0.3\n", [(1, 0.5), (2, 0.4), (3, 0.3)]),
        ("step=1 step_time=1.05s\nstep=2 step_time=950ms\n", [(1, 1.05), (2, 0.95)]),
        ("epoch=1 step=1 global_step=11 step_s=0.4\nepoch=2 step=1 global_step=12 step_s=0.5\n",
         [(11, 0.4), (12, 0.5)]),
    ],
)  # fmt: skip
def test_keys_that_state_their_unit_are_read(read_text: ReadText, text: str, expected: list[tuple[int, float]]) -> None:
    assert rows(read_text(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02 03:04:05 step=1 loss=0.5 lr=0.4 time_to_first=0.3\n",
        "step: 1  loss: 8.00000  tps: 7,123  tflops: 1,234.56\n",
        "step=1 data_time_s=0.2 forward_s=0.1\n",
        "step=1 eval/step_time_s=0.2\n",
        "it 1: 3.2 it/s\n",
    ],
)
def test_other_numbers_are_never_taken_for_a_step_time(read_text: ReadText, text: str) -> None:
    with pytest.raises(ReadError) as raised:
        read_text(text)

    assert "train.log: no reader recognises it" in str(raised.value)
    assert text.strip()[:20] in str(raised.value)
    assert "pattern=" in str(raised.value)


def test_a_time_without_a_unit_is_read_only_when_asked_for(read_text: ReadText) -> None:
    text = "Acc_iter 1  Data time: 0.87(0.87)  Batch time: 4.04(4.04)\nAcc_iter 2  Batch time: 0.31(0.35)\n"

    with pytest.raises(ReadError, match=r"`Batch time: 4\.04` states no unit: say reader=keyvalue"):
        read_text(text)

    assert rows(read_text(text, reader="keyvalue")) == [(1, 4.04), (2, 0.31)]
    assert rows(read_text(text, unit="ms")) == [(1, 0.00404), (2, 0.00031)]


def test_two_ranks_on_one_line_are_taken_apart(read_text: ReadText) -> None:
    log = read_text("rank=0 step=1 step_s=0.500\nrank=1 step=1 step_s=0.510rank=0 step=2 step_s=0.400\n\n"
                    "rank=1 step=2 step_s=0.420\n")  # fmt: skip

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.4)], 1: [(1, 0.51), (2, 0.42)]}
    assert codes(log.notes) == ["interleaved_lines"]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("rank=0 step=2 step_s=0.4rank=1 step=2 step_s=0.410\n21\n", {0: 0.421, 1: 0.41}),
        ("rank=0 step=2 step_s=0.rank=1 step=2 step_s=0.410\n421\n", {0: 0.421, 1: 0.41}),
        ("rank=0 step=2 step_rank=1 step=2 step_s=0.410\ns=0.421\n", {0: 0.421, 1: 0.41}),
        ("rank=0 step=2 step_s=0.421rank=1 step=2 step_s=0.410\n\n", {0: 0.421, 1: 0.41}),
        ("rank=0 step=2 step_s=0.421rank=1 step=2 step_s=0.410\n", {0: 0.421, 1: 0.41}),
    ],
)
def test_a_value_torn_in_two_is_joined_with_its_rest(
    read_text: ReadText, tail: str, expected: dict[int, float]
) -> None:
    log = read_text(TWO_RANKS + tail)

    assert {rank: found[-1] for rank, found in by_rank(log).items()} == {
        rank: (2, step_s) for rank, step_s in expected.items()
    }
    assert log.errors == ()


def test_a_torn_value_without_its_rest_is_an_error_and_no_number(read_text: ReadText) -> None:
    log = read_text(TWO_RANKS + "rank=0 step=2 step_s=0.4rank=1 step=2 step_s=0.410\nSaving checkpoint\n")

    assert by_rank(log) == {0: [(1, 0.5)], 1: [(1, 0.51), (2, 0.41)]}
    assert log.errors == (
        "torn_record:3: another rank wrote into it and its rest is not there: `rank=0 step=2 step_s=0.4`",
    )


def test_a_glued_date_is_not_read_as_more_digits(read_text: ReadText) -> None:
    log = read_text("2026-01-02 03:04:05 rank=0 step=1 step_s=0.400\n"
                    "2026-01-02 03:04:06 rank=0 step=2 step_s=0.401"
        "2026-01-02 03:04:06 rank=1 step=2 step_s=0.402\n")  # fmt: skip

    assert by_rank(log) == {0: [(1, 0.4), (2, 0.401)], 1: [(2, 0.402)]}
    assert log.started_at == 1767323045.0
    assert log.finished_at == 1767323046.0


@pytest.mark.parametrize(("last", "kept"), [("0.4", False), ("0.42", True), ("0.4 loss=1", True)])
def test_a_last_line_without_its_end_counts_only_if_its_time_is_whole(
    read_text: ReadText, last: str, kept: bool
) -> None:
    log = read_text(f"step=1 step_s=0.50\nstep=2 step_s=0.41\nstep=3 step_s={last}")

    assert len(rows(log)) == (3 if kept else 2)
    assert ("truncated_tail" in codes(log.notes)) is not kept


def test_an_ambiguous_comma_is_refused_with_its_line(read_text: ReadText) -> None:
    log = read_text("step=1 step_s=0,412\nstep=2 step_s=1,234\nstep=3 step_s=12,5\n")

    assert rows(log) == [(1, 0.412), (3, 12.5)]
    assert log.errors == ("ambiguous_decimal_comma:2: `1,234` cannot be read as a time: `step=2 step_s=1,234`",)


@pytest.mark.parametrize("value", ["1m30s", "0:00:01.5", "0.4.1s"])
def test_a_time_in_a_form_that_is_not_known_is_an_error_and_not_passed_over(read_text: ReadText, value: str) -> None:
    log = read_text(f"step=1 step_time=0.5s\nstep=2 step_time={value}\n")

    assert rows(log) == [(1, 0.5)]
    assert log.errors == (f"not_a_number:2: `{value}` cannot be read as a time: `step=2 step_time={value}`",)


def test_a_step_that_is_no_whole_number_is_an_error(read_text: ReadText) -> None:
    log = read_text("step=1 step_s=0,5\nstep=1.234 step_s=0,412\n")

    assert rows(log) == [(1, 0.5)]
    assert log.errors == ("bad_step:2: `1.234` is no step number: `step=1.234 step_s=0,412`",)


def test_a_json_document_over_many_lines_is_refused(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="write one object a line"):
        read_text('[\n  {\n    "step": 10,\n    "step_s": 0.4\n  }\n]\n')


def test_validation_lines_are_left_out(read_text: ReadText) -> None:
    log = read_text("step=1 step_s=0.5\nval: step=1 step_s=0.1\nmode=eval step=1 step_s=0.1\nstep=2 step_s=0.4\n")

    assert rows(log) == [(1, 0.5), (2, 0.4)]
    assert codes(log.notes) == ["validation_rows"]


def test_values_that_are_no_times_are_dropped_and_counted(read_text: ReadText) -> None:
    log = read_text("step=1 step_s=nan\nstep=2 step_s=inf\nstep=3 step_s=0.4\nstep=4 step_s=0\n"
                    "step=5 step_s=-1\nstep=6 step_s=N/A\n")  # fmt: skip

    assert rows(log) == [(3, 0.4)]
    assert [note for note in log.notes if "step_s" in note] == [
        "non_finite_step_s: 2 rows without a finite step time dropped (steps 1, 2)",
        "not_positive_step_s: 2 rows with a time of zero or less dropped (steps 4, 5)",
    ]
    assert "no_value" in codes(log.notes)


def test_colours_carriage_returns_and_cut_characters_do_no_harm(read_text: ReadText) -> None:
    log = read_text(b"\x1b[32mstep\x1b[0m: 1 \x1b[1mstep_time\x1b[0m: 0.31 s\r\n\xe2\x96\r\x1b[K"
                    b"step: 2 step_time: 0.32 s\xff\r\n")  # fmt: skip

    assert rows(log) == [(1, 0.31), (2, 0.32)]


def test_launcher_prefixes_are_ranks(read_text: ReadText) -> None:
    log = read_text("[rank0]: step 1 step_time: 0.31 s\n[default1]: step 1 step_time: 0.32 s\nworld_size=4\n")

    assert by_rank(log) == {0: [(1, 0.31)], 1: [(1, 0.32)]}
    assert log.world_size == 4
    assert codes(log.notes) == ["missing_ranks"]


LABELLED = "".join(f"[rank0]: step={n} step_time_ms=41{n % 10}.5 loss=2.{n % 10}\n" for n in range(1, 21))


@pytest.mark.parametrize(
    ("torn", "expected"),
    [
        ("[rank0]: step=21 step_time_ms=4\n21.5 loss=2.1\n", [(21, 0.4215)]),
        ("[rank0]: step=21 step_time_ms=421\n.5 loss=2.1\n", [(21, 0.4215)]),
        ("[rank0]: step=21 step_time_ms=4\n", []),
        ("[rank0]: step=21 step_time_ms=421.NCCL INFO\n5 loss=2.1\n", []),
        ("[rank0]: step=21 [rank1]: step=22 step_time_ms=422.5 loss=2.2\n", []),
        ("[rank0]: step=[rank1]: step=22 step_time_ms=422.5 loss=2.2\n", []),
    ],
)
def test_a_record_that_another_writer_broke_is_joined_or_an_error(
    read_text: ReadText, torn: str, expected: list[tuple[int, float]]
) -> None:
    log = read_text(LABELLED + torn + "[rank0]: step=23 step_time_ms=423.5 loss=2.3\n")

    assert rows(log)[20:] == [*expected, (23, 0.4235)]
    assert bool(log.errors) != bool(expected)


def test_the_rest_of_another_record_is_not_joined_to_a_cut_one(read_text: ReadText) -> None:
    text = "".join(f"2026-01-02 03:04:05 step: {n} loss: 2.1 step_time: 0.41 s\n" for n in range(1, 9))
    text += "2026-01-02 03:04:05 step: 9 lo2026-01-02 03:04:05 step: 10 loss: 2.1 step_time: 0.42 s\n"
    text += "2026-01-02 03:04:05 step: 11\n loss: 2.1 step_time: 0.43 s\n"

    log = read_text(text)

    assert rows(log)[8:] == [(10, 0.42)]


def test_records_that_all_count_twice_are_read(read_text: ReadText) -> None:
    log = read_text("".join(f"step={n} next save step={n + 100} step_s=0.4{n}\n" for n in range(1, 4)))

    assert rows(log) == [(1, 0.41), (2, 0.42), (3, 0.43)]
    assert not log.errors


def test_a_launchers_prefix_behind_a_record_is_not_its_rank(read_text: ReadText) -> None:
    text = "step=1 step_time=0.41 s lr=[rank1]: UserWarning: slow\n0.1\nstep=2 step_time=0.42 s lr=0.1\n"

    log = read_text(text)

    assert by_rank(log) == {-1: [(1, 0.41), (2, 0.42)]}


def test_a_rank_in_brackets_behind_a_record_is_its_rank(read_text: ReadText) -> None:
    log = read_text("step=1 step_time=0.41 s [rank 0]\nstep=1 step_time=0.42 s [rank 1]\n")

    assert by_rank(log) == {0: [(1, 0.41)], 1: [(1, 0.42)]}


def test_times_printed_shorter_where_they_end_in_zeros_are_whole(read_text: ReadText) -> None:
    times = [round(0.37 + n / 1000, 3) for n in range(1, 200)]

    log = read_text("".join(f"step={n} step_s={time}\n" for n, time in enumerate(times, 1)))

    assert rows(log) == list(enumerate(times, 1))
    assert not log.errors


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("step=2 step_ms=1 001.5\n", "not_a_number:2: `1 001.5` cannot be read as a time"),
        ("step=2 step_s=0.4-0.5\n", "not_a_number:2: `0.4-0.5` cannot be read as a time"),
        ("step=2 step_s=0.4/0.5\n", "not_a_number:2: `0.4/0.5` cannot be read as a time"),
        ("step=2 step_s=09\n", "not_a_number:2: `09` cannot be read as a time"),
        ("step=2 step_s=0.5\b4\n", "not_a_number:2: "),
        ("step=1.000 step_s=0.4\n", "bad_step:2: `1.000` is no step number"),
        ("step=1 000 step_s=0.4\n", "bad_step:2: `1 000` is no step number"),
        ("step=2 step_s=0.\nstep=3 step_s=0.4\n", "torn_record:2: `0.` is cut"),
    ],
)
def test_what_may_be_another_number_is_an_error_that_shows_it(read_text: ReadText, text: str, error: str) -> None:
    log = read_text("step=1 step_s=0.5\n" + text)

    assert (1, 0.5) in rows(log)
    assert len(log.errors) == 1
    assert log.errors[0].startswith(error)


def test_a_number_that_ends_in_its_point_is_read_where_all_do(read_text: ReadText) -> None:
    assert rows(read_text("step=1 step_ms=500.\nstep=2 step_ms=400.\n")) == [(1, 0.5), (2, 0.4)]


@pytest.mark.parametrize("word", ["Test ", "testing: ", "inference ", "Predict [", "[Test] "])
def test_work_of_other_kinds_is_left_out(read_text: ReadText, word: str) -> None:
    log = read_text(f"train iter 1 step_time: 0.4s\n{word}iter 1 step_time: 0.1s\ntrain iter 2 step_time: 0.4s\n")

    assert rows(log) == [(1, 0.4), (2, 0.4)]
    assert codes(log.notes) == ["validation_rows"]


def test_nanoseconds_are_a_unit(read_text: ReadText) -> None:
    assert rows(read_text("step=1 step_time_ns=410000000\nstep=2 step_time=420000000 ns\n")) == [(1, 0.41), (2, 0.42)]


def test_a_last_time_shorter_than_all_before_may_be_cut(read_text: ReadText) -> None:
    log = read_text("".join(f"step={n} step_s=0.4{n}\n" for n in range(10, 40)) + "step=40 step_s=0.4\n")

    assert [step for step, _ in rows(log)] == list(range(10, 40))
    assert "truncated_tail" in codes(log.notes)
