"""Readers `jsonl` and `csv`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from tests.steplog.conftest import ReadText


def test_literals_that_json_lacks_are_read_and_said(read_text: ReadText) -> None:
    log = read_text('{"step": 1, "step_s": 0.5, "loss": NaN}\n{"step": 2, "step_s": NaN}\n{"step": 3, "step_s": 0.4}\n')

    assert log.reader == "jsonl"
    assert rows(log) == [(1, 0.5), (3, 0.4)]
    assert "non_finite_loss: loss is not finite at steps 1" in log.notes
    assert "non_finite_step_s" in codes(log.notes)


def test_numbers_that_are_not_finite_are_read_as_other_languages_write_them(read_text: ReadText) -> None:
    log = read_text('{"step": 1, "step_s": 0.5, "loss": nan}\n{"step": 2, "step_s": -nan}\n'
                    '{"step": 3, "step_s": 0.4, "loss": -inf, "norms": [inf, +Inf]}\n')  # fmt: skip

    assert rows(log) == [(1, 0.5), (3, 0.4)]
    assert "non_finite_loss: loss is not finite at steps 1, 3" in log.notes
    assert log.errors == ()


def test_a_comma_behind_an_object_is_no_damage(read_text: ReadText) -> None:
    log = read_text('{"step": 1, "step_s": 0.5},\n{"step": 2, "step_s": 0.4},\n{"step": 3, "step_s": 0.4}\n')

    assert rows(log) == [(1, 0.5), (2, 0.4), (3, 0.4)]


def test_of_distances_that_are_as_frequent_the_smallest_is_usual(read_text: ReadText) -> None:
    log = read_text("".join(f'{{"step": {step}, "step_s": 0.4}}\n' for step in (1, 3, 4)))

    assert codes(log.notes) == ["missing_steps"]


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_torn_last_line_is_dropped_with_a_note(read_text: ReadText, end: str) -> None:
    log = read_text('{"step": 1, "step_s": 0.5}\n{"step": 2, "step_s": 0.' + end)

    assert rows(log) == [(1, 0.5)]
    assert codes(log.notes) == ["truncated_tail"]
    assert log.errors == ()


def test_a_broken_line_in_the_middle_is_an_error(read_text: ReadText) -> None:
    log = read_text('{"step": 1, "step_s": 0.5}\n{"step": 2, "st{"step": 3, "step_s": 0.4}\n'
                    '{"step": 4, "step_s": 0.4}\n[]\n')  # fmt: skip

    assert rows(log) == [(1, 0.5), (4, 0.4)]
    assert codes(log.errors) == ["corrupt_line:2", "not_an_object:4"]
    assert "truncated_tail" not in codes(log.notes)


@pytest.mark.parametrize(
    "row",
    ['{"mode": "val", "iter": 25, "time": 0.1}', '{"split": "eval", "iter": 25, "time": 0.1}',
     '{"eval": true, "iter": 25, "time": 0.1}', '{"eval": 1, "iter": 25, "time": 0.1}',
     '{"train": false, "iter": 25, "time": 0.1}', '{"is_training": 0, "iter": 25, "time": 0.1}',
     '{"stage": "validate", "iter": 25, "time": 0.1}', '{"stage": "sanity_check", "iter": 2, "time": 0.1}'],
)  # fmt: skip
def test_validation_rows_are_told_apart(read_text: ReadText, row: str) -> None:
    log = read_text(f'{{"env": "x"}}\n{{"iter": 50, "time": 0.4}}\n{row}\n{{"iter": 100, "time": 0.42}}\n')

    assert rows(log) == [(50, 0.4), (100, 0.42)]
    assert log.attempts == 1
    assert codes(log.notes)[:3] == ["unit_assumed", "validation_rows", "rows_without_time"]


@pytest.mark.parametrize(
    ("row", "step_s"),
    [
        ('{"global_step": 1, "step": 7, "step_time_ms": 410}', 0.41),
        ('{"step": 1, "train/step_time_ms": 410, "time": 99}', 0.41),
        ('{"step": 1, "timing": {"iter_time_s": 0.41}}', 0.41),
        ('{"step": "1", "step_s": "0,41"}', 0.41),
        ('{"train": {"step": 1, "step_s": 0.41}, "lora": {"rank": 16}}', 0.41),
    ],
)
def test_keys_are_found_by_what_they_mean(read_text: ReadText, row: str, step_s: float) -> None:
    assert rows(read_text(row + "\n")) == [(1, step_s)]


def test_objects_of_two_ranks_on_one_line_are_both_read(read_text: ReadText) -> None:
    log = read_text('{"step":1,"rank":0,"step_s":0.4}{"step":1,"rank":1,"step_s":0.41}\n')

    assert by_rank(log) == {0: [(1, 0.4)], 1: [(1, 0.41)]}
    assert codes(log.notes) == ["interleaved_lines"]


@pytest.mark.parametrize("key", ["time", "train/time", "train.time"])
def test_a_time_that_only_grows_is_a_clock_and_refused(read_text: ReadText, key: str) -> None:
    text = "".join(f'{{"step": {n}, "{key}": {n / 2}}}\n' for n in range(1, 12))

    with pytest.raises(ReadError, match="`time` grows from row to row: a running clock"):
        read_text(text)


@pytest.mark.parametrize("rows_", [3, 8])
def test_a_time_beside_counted_batches_is_a_clock(read_text: ReadText, rows_: int) -> None:
    log = read_text(
        "".join(f'{{"step": {n * 10}, "train/time": {n * 4.1}, "train/batches": {n}}}\n' for n in range(rows_))
    )

    assert rows(log) == [(n * 10, 0.41) for n in range(1, rows_)]
    assert log.kind == "mean"


@pytest.mark.parametrize(
    "text", ['{"epoch": 1, "time": 100.5}\n{"epoch": 2, "time": 99}\n', "epoch,time\n1,9.5\n2,9\n"]
)
def test_the_time_of_an_epoch_is_no_step_time(read_text: ReadText, text: str) -> None:
    with pytest.raises(ReadError, match="no reader recognises it"):
        read_text(text)


def test_three_times_that_double_are_a_clock(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="`time` grows from row to row: a running clock"):
        read_text("".join(f'{{"step": {n}, "time": {n / 2}}}\n' for n in (1, 2, 3)))


def test_a_wall_clock_is_not_a_duration(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="clock_not_duration"):
        read_text('{"step": 1, "time": 1764432000.1}\n{"step": 2, "time": 1764432000.9}\n')


def test_a_cumulative_clock_alone_gives_step_times(read_text: ReadText) -> None:
    log = read_text('{"step":1,"elapsed_s":0.5}\n{"step":2,"elapsed_s":0.9}\n{"step":3,"elapsed_s":1.4}\n')

    assert rows(log) == [(2, 0.4), (3, 0.5)]
    assert log.cumulative
    assert codes(log.notes) == ["from_clock"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step,step_s\n1,0.5\n2,0.4\n", [(1, 0.5), (2, 0.4)]),
        ("# made by hand\nIter\tStep time (ms)\n1\t500\n2\t400\n", [(1, 0.5), (2, 0.4)]),
        ("step;step_s\n1;0,512\n2;0,4\n", [(1, 0.512), (2, 0.4)]),
        ("epoch,step,loss,step_s\n0,1,,0.5\n0,1,0.3,\n0,2,,0.4\n", [(1, 0.5), (2, 0.4)]),
        ("step,step_s,split\n1,0.5,train\n1,0.1,val\n2,0.4,train\n", [(1, 0.5), (2, 0.4)]),
    ],
)
def test_tables_are_read_by_their_header(read_text: ReadText, text: str, expected: list[tuple[int, float]]) -> None:
    log = read_text(text)

    assert log.reader == "csv"
    assert rows(log) == expected


def test_a_row_with_other_cells_is_an_error_and_a_cut_last_row_a_note(read_text: ReadText) -> None:
    log = read_text("step,step_s,loss\n1,0.5,2.0\n2,0.4\n3,0.4,1.9\n4,0.")

    assert rows(log) == [(1, 0.5), (3, 0.4)]
    assert log.errors == ("corrupt_line:3: not 3 cells: `2,0.4`",)
    assert "truncated_tail" in codes(log.notes)


def test_a_comma_separated_table_refuses_an_ambiguous_cell(read_text: ReadText) -> None:
    log = read_text('step,step_s\n1,"1,234"\n2,0.4\n')

    assert rows(log) == [(2, 0.4)]
    assert codes(log.errors) == ["ambiguous_decimal_comma:2"]


@pytest.mark.parametrize(
    ("key", "training", "other"),
    [("type", "train", "eval"), ("event", "train_step", "eval_step"), ("split", "train", "val_unseen"),
     ("mode", "fast_dev_run", "validation-2")],
)  # fmt: skip
def test_rows_that_some_key_marks_as_validation_are_left_out(
    read_text: ReadText, key: str, training: str, other: str
) -> None:
    kept = [f'{{"{key}": "{training}", "step": {n}, "step_s": 0.4}}' for n in (1, 2, 3)]

    log = read_text("\n".join([*kept[:2], f'{{"{key}": "{other}", "step": 2, "step_s": 0.1}}', kept[2], ""]))

    assert rows(log) == [(1, 0.4), (2, 0.4), (3, 0.4)]
    assert codes(log.notes) == ["validation_rows"]
