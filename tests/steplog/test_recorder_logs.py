"""Reader `interlace`: what the recorder wrote, of one rank and of several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlace.errors import ReadError
from interlace.steplog import read, slowest_rank
from tests.steplog.series import by_rank, codes

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *lines: dict[str, Any], end: bool = True, tail: str = "", **header: Any) -> None:
    first = {"interlace": "steps", "format": 1, "rank": 0, "local_rank": 0, "world_size": 2, "pid": 7,
             "clock": "perf_counter", "unit": "s", "start_unix_s": 1000.0} | header  # fmt: skip
    shown = [first, *lines, *([{"end": True, "steps": len(lines)}] if end else [])]
    path.write_text("".join(json.dumps(line) + "\n" for line in shown) + tail)


def step(number: int, step_s: float, t_s: float, **more: Any) -> dict[str, Any]:
    return {"step": number, "step_s": step_s, "t_s": t_s} | more


def test_one_rank_is_read_with_its_clock_and_extras(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    write(path, step(1, 0.5, 0.5, loss=2.0, phases={"forward": 0.2}), step(2, 0.4, 0.9, loss="nan"))

    log = read(path)

    assert log.reader == "interlace"
    assert by_rank(log) == {0: [(1, 0.5), (2, 0.4)]}
    assert log.frame["end_s"].tolist() == [0.5, 0.9]
    assert log.frame["phase.forward"].tolist()[0] == 0.2
    assert (log.cumulative, log.ended, log.world_size) == (True, True, 2)
    assert (log.started_at, log.finished_at) == (1000.0, 1000.9)
    assert codes(log.notes) == ["non_finite_loss", "missing_ranks"]


def test_ranks_of_a_folder_share_one_clock(tmp_path: Path) -> None:
    write(tmp_path / "rank-0.jsonl", step(1, 0.5, 0.5), step(2, 0.4, 0.9))
    write(tmp_path / "rank-1.jsonl", step(1, 0.3, 0.3), step(2, 0.45, 0.75), rank=1, start_unix_s=1000.25)

    log = read(tmp_path)

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.4)], 1: [(1, 0.3), (2, 0.45)]}
    assert slowest_rank(log.frame)[["step_s", "end_s"]].values.tolist() == [[0.5, 0.55], [0.45, 1.0]]
    assert log.cumulative
    assert log.ended
    assert log.notes == ()


def test_a_killed_rank_is_not_ended_and_its_torn_line_is_dropped(tmp_path: Path) -> None:
    write(tmp_path / "rank-0.jsonl", step(1, 0.5, 0.5), step(2, 0.5, 1.0))
    write(tmp_path / "rank-1.jsonl", step(1, 0.5, 0.5), rank=1, end=False, tail='{"step": 2, "step_s": 0.')

    log = read(tmp_path)

    assert not log.ended
    assert by_rank(log) == {0: [(1, 0.5), (2, 0.5)], 1: [(1, 0.5)]}
    assert codes(log.notes) == ["truncated_tail", "no_end_marker", "missing_on_rank"]
    assert log.errors == ()


def test_a_corrupt_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    write(
        path,
        step(1, 0.5, 0.5),
        world_size=1,
        end=False,
        tail='{"step": 2, "st\n{"step": 3, "step_s": 0.5, "t_s": 1.5}\n',
    )

    assert codes(read(path).errors) == ["corrupt_line:3"]


def test_two_processes_that_both_take_themselves_for_rank_0_are_an_error(tmp_path: Path) -> None:
    write(tmp_path / "rank-0.jsonl", step(1, 0.5, 0.5), pid=7)
    write(tmp_path / "rank-0-p8.jsonl", step(1, 0.6, 0.6), pid=8, start_unix_s=1000.1)

    assert codes(read(tmp_path).errors) == ["shared_rank"]


def test_a_restarted_process_is_a_second_attempt(tmp_path: Path) -> None:
    write(tmp_path / "rank-0.jsonl", step(1, 0.5, 0.5), step(2, 0.5, 1.0), end=False, world_size=1)
    write(tmp_path / "rank-0-p8.jsonl", step(1, 0.6, 0.6), step(2, 0.7, 1.3), start_unix_s=1010.0, world_size=1)

    log = read(tmp_path)

    assert by_rank(log) == {0: [(1, 0.6), (2, 0.7)]}
    assert log.attempts == 2
    assert log.errors == ()


def test_an_unknown_format_version_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    write(path, step(1, 0.5, 0.5), format=2, world_size=1)

    assert read(path).errors[0].startswith("unknown_format:1: only format 1 is known")


def test_a_step_count_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    write(path, step(1, 0.5, 0.5), world_size=1, end=False, tail='{"end": true, "steps": 5}\n')

    assert codes(read(path).errors) == ["step_count:3"]


def test_other_files_under_the_name_of_a_rank_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_text('{"step": 1, "step_s": 0.5}\n')

    with pytest.raises(ReadError, match="does not begin with the recorder's header"):
        read(tmp_path)
