"""`interlace trace`, as it is typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from interlace.cli import main
from interlace.report.terminal import next_steps
from tests.handmade import CONFIG, on_disk
from tests.traces.made import plain

if TYPE_CHECKING:
    from pathlib import Path

    Output = pytest.CaptureFixture[str]


def test_the_ranks_of_one_job_are_one_column_and_the_late_one_is_judged(tmp_path: Path, capsys: Output) -> None:
    for rank, reduce_us in ((0, 500), (1, 20)):
        plain(rank, world=2, reduce_us=reduce_us).written(tmp_path / "traces" / f"rank-{rank}.json.gz")

    assert main(["trace", str(tmp_path / "traces"), "--step-ms", "0.9"]) == 0

    said = capsys.readouterr().out
    for row in (
        ["without", "the", "profiler", "0.900", "ms"],
        ["waiting", "for", "late", "ranks", "92", "%", "of", "communication,", "rank", "1", "last", "in", "100", "%"],
        ["verdict", "launch-bound"],
    ):
        assert row in [line.split() for line in said.splitlines()]
    assert "rank 1, which most collectives wait for, is the one judged" in said


def test_every_rank_has_a_column_when_asked_for(tmp_path: Path, capsys: Output) -> None:
    files = [str(plain(n, 2, reduce_us=us).written(tmp_path / f"r{n}.json")) for n, us in ((0, 500), (1, 20))]

    assert main(["trace", *files, "--per-rank"]) == 0

    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split("  ")[-1].strip() == "traces, rank 1"
    assert [row.split()[1:] for row in rows if row.startswith("verdict")] == [["skew-bound", "launch-bound"]]


def test_files_of_the_same_rank_are_jobs_of_their_own(tmp_path: Path, capsys: Output) -> None:
    files = [str(plain(0, 1, steps).written(tmp_path / f"{steps}.json")) for steps in (2, 3)]

    assert main(["trace", *files, "--json"]) == 0

    jobs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(job["name"], len(job["ranks"][0]["steps"])) for job in jobs] == [("2.json", 2), ("3.json", 3)]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path, capsys: Output) -> None:
    files = [str(plain(0).written(tmp_path / arm / "rank-0.json")) for arm in ("base", "new")]

    assert main(["trace", *files, "--json"]) == 0

    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["base", "new"]


def test_two_folders_with_the_same_ranks_are_two_jobs_with_a_step_time_each(tmp_path: Path, capsys: Output) -> None:
    for arm in ("before", "after"):
        for rank in (0, 1):
            plain(rank, world=2).written(tmp_path / arm / f"rank-{rank}.json.gz")
    folders = [str(tmp_path / "before"), str(tmp_path / "after")]

    assert main(["trace", *folders, "--step-ms", "0.9,0.8", "--json"]) == 0
    jobs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(job["name"], job["step_ms"], len(job["ranks"])) for job in jobs] == [("before", 0.9, 2), ("after", 0.8, 2)]

    assert main(["trace", *folders, "--step-ms", "0.9"]) == 2
    assert "--step-ms 0.9: there are 2 jobs (before, after); give a number for each" in capsys.readouterr().err


def test_traces_that_say_no_rank_are_one_job_in_one_folder_only(tmp_path: Path, capsys: Output) -> None:
    folders = [str(plain().written(tmp_path / name / "trace.json").parent) for name in ("one", "other")]

    assert main(["trace", *folders, "--json"]) == 0

    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["one", "other"]


def test_two_jobs_may_have_a_folder_for_each_rank(tmp_path: Path, capsys: Output) -> None:
    files = [plain(rank, world=2).written(tmp_path / job / f"rank{rank}" / "trace.json")
             for job in ("before", "after") for rank in (0, 1)]  # fmt: skip

    assert main(["trace", *(str(path.parent) for path in files), "--step-ms", "0.9,0.8", "--json"]) == 0

    jobs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(job["name"], len(job["ranks"])) for job in jobs] == [("before", 2), ("after", 2)]


def test_a_folder_for_each_rank_is_one_job(tmp_path: Path, capsys: Output) -> None:
    folders = [str(plain(rank, world=2).written(tmp_path / f"rank{rank}" / "trace.json").parent) for rank in (0, 1)]

    assert main(["trace", *folders, "--step-ms", "0.9", "--json"]) == 0

    (job,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [rank["rank"] for rank in job["ranks"]] == [0, 1]


def test_the_arms_of_a_sweep_are_columns_with_their_own_step_times(tmp_path: Path, capsys: Output) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    for attempt in loaded.used:
        if attempt.run.round == 1:
            plain(0).written(attempt.path / "traces" / "rank-0.json.gz")

    assert main(["trace", str(loaded.sweep_dir.path)]) == 0

    said = capsys.readouterr().out
    assert said.split("\n")[0].split()[-2:] == ["a", "b"]
    assert "a: launch-bound: the GPU waits for the host to launch" in said
    kept = json.loads((loaded.sweep_dir.path / "trace.json").read_text())
    medians = [arm.median_s for arm in loaded.analysis.arms]
    assert [job["step_ms"] / 1000 for job in kept] == pytest.approx(medians)
    written = (loaded.sweep_dir.path / "trace.md").read_text()
    assert "| verdict | launch-bound | launch-bound |" in written
    assert "- a: kernel: `gemm`: 0.200 ms a step, 1x" in written


def test_a_sweep_with_traces_says_how_to_read_them(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    without = next_steps(loaded.sweep_dir, left=0)
    plain(0).written(loaded.used[0].path / "traces" / "rank-0.json.gz")

    more = set(next_steps(loaded.sweep_dir, left=0)) - set(without)

    assert more == {f"traces:      interlace trace {loaded.sweep_dir.path}"}


def test_what_cannot_be_read_is_told_and_costs_two(tmp_path: Path, capsys: Output) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.json").write_text("no json")
    wrong = {
        str(loaded.sweep_dir.path): "has no traces: let the trainer export them",
        str(tmp_path / "empty"): "holds no *.json or *.json.gz",
        str(tmp_path / "nowhere"): "is neither a file nor a folder",
        str(tmp_path / "x.json"): "not a profiler trace",
    }

    for path, why in wrong.items():
        assert main(["trace", path]) == 2
        assert why in capsys.readouterr().err
    assert main(["trace", str(loaded.sweep_dir.path), "--step-ms", "3"]) == 2
    assert "a sweep knows the step times of its arms" in capsys.readouterr().err
    for bad in ("0", "nan", "1,x", ""):
        assert main(["trace", str(tmp_path / "x.json"), "--step-ms", bad]) == 2
        assert f"{bad}: give milliseconds, more than 0" in capsys.readouterr().err
