from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import UsageError
from interlace.recorder import StepRecorder
from interlace.steplog import Tail

if TYPE_CHECKING:
    from pathlib import Path

LEROBOT = "INFO 2026-01-02 03:04:05 t.py:1 step:{} smpl:2 ep:0 data_s:0.001 updt_s:0.026 step_s:0.027 smp/s:2\n"


def test_a_file_that_is_not_there_yet_has_no_steps(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "later.log")
    assert tail.steps() == 0

    (tmp_path / "later.log").write_text("step=1 step_s=0.5\n")

    assert tail.steps() == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("warming up\nstep=1 step_s=0.5\nst", "ep=2 step_s=0.4\n"),
        (LEROBOT.format(1), LEROBOT.format(2)),
        ('{"step": 1, "step_s": 0.5}\n{"st', 'ep": 2, "step_s": 0.4}\n'),
        ("step,step_s\n1,0.5\n", "2,0.4\n"),
    ],
)
def test_only_whole_records_count_as_the_log_grows(tmp_path: Path, first: str, then: str) -> None:
    path = tmp_path / "train.log"
    path.write_text(first)
    tail = Tail(path)
    assert tail.steps() == 1

    with path.open("a") as file:
        file.write(then)

    assert tail.steps() == 2


def test_old_bytes_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step=1 step_s=0.5\nstep=2 step_s=0.4\n")
    tail = Tail(path)
    assert tail.steps() == 2

    path.write_text("step=9 step_s=0.5\nstep=9 step_s=0.4\n")  # same size: nothing new

    assert tail.steps() == 2


def test_records_without_numbers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("took 1 s\ntook 2 s\n")
    tail = Tail(path, pattern=r"took (?P<step_s>\d+)")
    assert tail.steps() == 2

    path.write_text("took 1 s\ntook 2 s\ntook 1 s\n")

    assert tail.steps() == 3


def test_abbreviated_steps_go_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LEROBOT.format(999) + LEROBOT.format("1K") * 3)

    assert Tail(path).steps() == 1002


def test_a_folder_of_ranks_says_the_furthest(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    recorders = [StepRecorder(tmp_path, rank=rank, flush_every_s=0.0) for rank in (0, 1)]
    recorders[0].step()
    assert tail.steps() == 1
    for _ in range(3):
        recorders[1].step()

    assert tail.steps() == 3
    assert tail.reader == "interlace"
    for recorder in recorders:
        recorder.close()


def test_a_log_of_megabytes_without_steps_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("NCCL INFO channel 00 to 01\n" * 60_000)
    tail = Tail(path)
    assert tail.steps() == 0
    with path.open("a") as file:
        file.write("step=1 step_s=0.5\n")

    assert tail.steps() == 1
    assert sum(map(len, tail._files[path]._waiting)) < 300_000


def test_a_wrong_argument_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reader=csb is not known"):
        Tail(tmp_path / "x", reader="csb")
    with pytest.raises(UsageError, match="no group for the time"):
        Tail(tmp_path / "x", pattern="x")


def test_a_log_is_over_when_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LEROBOT.format(1))
    tail = Tail(path)
    assert (tail.steps(), tail.ended) == (1, False)

    with path.open("a") as file:
        file.write("INFO 2026-01-02 03:05:00 t.py:906 End of training\n")

    assert (tail.steps(), tail.ended) == (1, True)


def test_the_logs_of_all_ranks_are_over_when_the_last_one_is(tmp_path: Path) -> None:
    recorders = [StepRecorder(tmp_path, rank=rank, world_size=2) for rank in range(2)]
    for recorder in recorders:
        recorder.step()
    tail = Tail(tmp_path)

    recorders[0].close()
    recorders[1].flush()
    assert (tail.steps(), tail.ended) == (1, False)
    recorders[1].close()

    assert (tail.steps(), tail.ended) == (1, True)
