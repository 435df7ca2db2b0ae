"""Logs that were cut, filled with NULs, or written by several ranks at once: a right value, or none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from interlace.steplog import Tail, read
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interlace.steplog import StepLog
    from tests.steplog.conftest import ReadText

STEPS = range(1, 13)
LINES: dict[str, Callable[[int, int, str], str]] = {
    "rank first": lambda rank, step, time: f"rank={rank} step={step} step_s={time} loss=1.5",
    "time last": lambda rank, step, time: f"rank={rank} step={step} step_s={time}",
    "time before step": lambda rank, step, time: f"rank={rank} step_s={time} step={step}",
    "dated": lambda rank, step, time: f"2026-01-02 03:04:05 [rank{rank}] step: {step} loss: 1.5 step_time: {time} s",
    "json": lambda rank, step, time: f'{{"rank": {rank}, "step": {step}, "step_s": {time}, "loss": 1.5}}',
}
every_line = pytest.mark.parametrize("name", LINES)


def time_of(rank: int, step: int) -> str:
    return f"0.{300 + 50 * rank + 3 * step}"


def two_ranks(name: str) -> list[str]:
    return [LINES[name](rank, step, time_of(rank, step)) for step in STEPS for rank in (0, 1)]


def only_true_values(log: StepLog) -> int:
    """Check each value against what that rank printed at that step; how many there are."""
    found = by_rank(log)
    assert set(found) <= {0, 1}
    for rank, of_rank in found.items():
        assert all(time == float(time_of(rank, step)) for step, time in of_rank), (rank, of_rank)
    return sum(map(len, found.values()))


@every_line
def test_a_line_torn_anywhere_by_another_ranks_gives_the_values_printed(read_text: ReadText, name: str) -> None:
    lines = two_ranks(name)
    torn, other = lines[14], lines[15]

    for at in range(1, len(torn), 2):
        text = "\n".join([*lines[:14], torn[:at] + other, torn[at:], *lines[16:], ""])
        log = read_text(text)

        assert only_true_values(log) >= 22, torn[:at]
        assert len(log.frame) == 24 or log.errors or "missing_on_rank" in codes(log.notes), torn[:at]


@every_line
def test_a_log_whose_first_line_is_cut_anywhere_is_read_by_its_other_lines(read_text: ReadText, name: str) -> None:
    lines = two_ranks(name)

    for at in range(1, len(lines[0]), 2):
        log = read_text("\n".join([lines[0][at:], *lines[1:], ""]))

        assert only_true_values(log) >= 23, lines[0][at:]
        assert "interleaved_lines" not in codes(log.notes)


@every_line
def test_a_last_line_cut_anywhere_gives_its_value_or_none(read_text: ReadText, name: str) -> None:
    lines = two_ranks(name)

    for at in range(1, len(lines[-1]), 2):
        log = read_text("\n".join([*lines[:-1], lines[-1][:at]]))

        assert only_true_values(log) >= 23, lines[-1][:at]
        assert log.attempts == 1


@every_line
def test_a_line_broken_in_two_gives_its_value_or_an_error(read_text: ReadText, name: str) -> None:
    lines = two_ranks(name)

    for at in range(1, len(lines[0]), 2):
        text = "\n".join([lines[0][:at], lines[0][at:], *lines[1:], ""])

        assert only_true_values(read_text(text)) >= 23, lines[0][:at]


@every_line
def test_bytes_that_a_lost_disk_filled_with_nuls_are_no_part_of_a_value(read_text: ReadText, name: str) -> None:
    text = "\n".join([*two_ranks(name), ""]).encode()

    for at in range(120, 240, 5):
        log = read_text(text[:at] + bytes(40) + text[at + 40 :])

        assert only_true_values(log) >= 20, text[at - 20 : at]


def test_a_value_that_lost_bytes_is_an_error_that_shows_it(read_text: ReadText) -> None:
    log = read_text(b"step=1 step_s=0.512 loss=1\nstep=2 step_s=0.4\0\0\0\0 loss=1\nstep=3 step_s=0.413 loss=1\n")

    assert rows(log) == [(1, 0.512), (3, 0.413)]
    assert codes(log.errors) == ["torn_record:2"]


def test_a_file_that_was_emptied_while_it_was_written_is_read_behind_its_nuls(read_text: ReadText) -> None:
    assert rows(read_text(bytes(4096) + b"step=1 step_s=0.5\nstep=2 step_s=0.4\n")) == [(1, 0.5), (2, 0.4)]


def test_a_log_in_which_most_records_are_torn_is_refused(read_text: ReadText) -> None:
    torn = "".join(f"rank=0 step={n} stewrite\nrank=1 step={n} step_s=0.3{n}\n" for n in range(10, 17))
    torn += "".join("rank=0 st" + f"rank=1 step={n} step_s=0.3{n}\n" for n in range(20, 40))

    with pytest.raises(ReadError, match=r"tangled: \d+ records are torn, beside \d+ that seem whole"):
        read_text(torn)


def test_a_slow_step_counts_as_the_others_where_records_were_torn(read_text: ReadText) -> None:
    """Another number of digits is no other look: else the slowest and fastest steps would be the ones left out."""
    lines = [f"step={n} step_ms={1000 if n == 9 else 97 if n == 4 else 400 + n} loss=1.5" for n in range(1, 15)]
    lines[5:7] = ["step=6 step_" + lines[6]]

    log = read_text("\n".join([*lines, ""]))
    found = dict(rows(log))

    assert log.errors
    assert found[9] == 1.0
    assert found[4] == 0.097


def test_slow_and_fast_rows_of_a_table_stay_where_others_are_broken(read_text: ReadText) -> None:
    table = ["step,step_s,loss", *(f"{n},{2 if n in (6, 9, 12) else 0.5},1.5" for n in range(1, 21))]
    table[4] = "4,0."

    found = dict(rows(read_text("\n".join([*table, ""]))))

    assert [found[n] for n in (6, 9, 12)] == [2.0] * 3
    assert len(found) == 19


def test_what_was_put_together_is_said_with_its_line(read_text: ReadText) -> None:
    log = read_text("rank=0 step=1 step_s=0.500\nrank=1 step=1 step_s=0.510\n"
                    "rank=0 step=2 step_s=0.4rank=1 step=2 step_s=0.410\n21\n")  # fmt: skip

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.421)], 1: [(1, 0.51), (2, 0.41)]}
    assert log.notes == (
        "interleaved_lines: lines that held records of several ranks, taken apart: 1 in all",
        "joined_records: records put together from two pieces that stood apart (line 3): 1 in all",
    )


def test_a_record_at_the_end_of_a_file_keeps_its_place_behind_a_cut_one(read_text: ReadText) -> None:
    log = read_text("rank=0 step=1 step_s=0.500\nrank=1 step=1 step_s=0.510rank=0 step=2 step_s=0.400"
                    "rank=1 step=2 step_s=0.420")  # fmt: skip

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.4)], 1: [(1, 0.51), (2, 0.42)]}
    assert (log.attempts, codes(log.notes)) == (1, ["interleaved_lines"])


def test_an_object_that_another_has_parted_is_joined_and_said(read_text: ReadText) -> None:
    log = read_text('{"rank":0,"step":1,"step_s":0.5}\n{"rank":0,"step":2,"step_s":0.4'
                    '{"rank":1,"step":1,"step_s":0.41}\n2}\n')  # fmt: skip

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.42)], 1: [(1, 0.41)]}
    assert "joined_records: objects put together from two pieces that stood apart (line 2): 1 in all" in log.notes
    assert log.errors == ()


def test_an_object_made_of_two_is_an_error(read_text: ReadText) -> None:
    log = read_text(
        '{"step":1,"step_s":0.5}\n{"step":2,"step_s":0.4,"step":3,"step_s":0.41}\n{"step":4,"step_s":0.4}\n'
    )

    assert rows(log) == [(1, 0.5), (4, 0.4)]
    assert log.errors[0].startswith("doubled_key:2: `step` stands twice in one object")


TABLE = ["step,step_s,loss", *(f"{step},{time_of(0, step)},1.5" for step in STEPS)]


def test_a_table_cut_anywhere_and_gone_on_with_gives_the_values_printed(read_text: ReadText) -> None:
    for row in (10, 11, 12):
        for at in range(1, len(TABLE[row])):
            text = "\n".join([*TABLE[:row], TABLE[row][:at] + TABLE[row - 1], *TABLE[row:], ""])

            log = read_text(text)

            assert all(time == float(time_of(0, step)) for step, time in rows(log)), TABLE[row][:at]
            assert [step for step, _ in rows(log)] == list(STEPS)


def test_rows_of_two_ranks_in_one_another_are_errors(read_text: ReadText) -> None:
    lines = [f"{rank},{step},{time_of(rank, step)}" for step in STEPS for rank in (0, 1)]

    for at in range(1, len(lines[14])):
        text = "\n".join(["rank,step,step_s", *lines[:14], lines[14][:at] + lines[15], lines[14][at:], *lines[16:], ""])

        assert only_true_values(read_text(text)) >= 22, lines[14][:at]


@pytest.mark.parametrize("last", ["21,0.41", "21,0.4", "21,0."])
def test_a_last_row_whose_time_is_shorter_than_all_before_is_cut(read_text: ReadText, last: str) -> None:
    text = "step,step_s\n" + "".join(f"{n},0.4{n:02d}\n" for n in range(21))

    log = read_text(text + last + "\n")

    assert [step for step, _ in rows(log)] == list(range(21))
    assert "truncated_tail" in codes(log.notes)


def test_a_meter_that_stands_twice_in_a_record_of_lerobot_is_of_two_records(read_text: ReadText) -> None:
    line = "INFO 2026-01-02 03:04:05 t.py:1 step:{0} smpl:{1} loss:0.5 updt_s:0.4{0} data_s:0.01 step_s:0.4{0}"
    lines = [line.format(step, step * 8) for step in range(10, 15)]
    lines[2] = lines[2].split("data_s")[0] + lines[3][lines[3].index("updt_s") :]

    log = read_text("\n".join([*lines, ""]))

    assert [step for step, _ in rows(log)] == [10, 11, 13, 14]
    assert log.errors[0].startswith("torn_record:3: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("step=1 step_s=0.5\n".encode("utf-16"), r"is UTF-16 text; convert it \(`iconv"),
        (b"BZh91AY&SY", "is bzip2 data"),
        (b"\xfd7zXZ\x00\x00", "is xz data"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "is zstandard data"),
        (bytes(5000), "is nothing but NUL bytes"),
    ],
)
def test_a_file_in_another_coding_says_what_it_is(read_text: ReadText, content: bytes, said: str) -> None:
    with pytest.raises(ReadError, match=said):
        read_text(content)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ReadError, match="a pipe or a device, which cannot be read twice; write the log to a file"):
        read(tmp_path / "pipe")
    assert Tail(tmp_path / "pipe").steps() == 0


def test_a_path_that_no_file_can_have_is_an_error_of_one_line(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(ReadError, match="cannot be read"):
            read(tmp_path / name)


def test_a_slow_step_is_no_odd_record_however_many_digits_it_has(read_text: ReadText) -> None:
    text = "".join(f"rank={rank} step={n} step_ms={400 + n}\n" for n in range(1, 9) for rank in (0, 1))
    torn = "rank=0 step=9 step_msrank=1 step=9 step_ms=409\n"

    log = read_text(
        text + torn + "rank=0 step=10 step_ms=41234\nrank=1 step=10 step_ms=nan\nrank=1 step=11 step_ms=9\n"
    )

    assert by_rank(log)[0][-1] == (10, 41.234)
    assert by_rank(log)[1][-1] == (11, 0.009)
    assert codes(log.errors) == ["torn_record:17"]
