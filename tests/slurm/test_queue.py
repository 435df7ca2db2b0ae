"""The queue's questions where Slurm's programs misbehave; tests/slurm/test_real_queue.py asks the real ones."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from interlace.errors import UsageError
from interlace.slurm.queue import ask, cancel, job_states

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH beside the shell's own programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    for name in ("squeue", "sacct", "scancel"):
        program(folder, name, "echo no such host >&2; exit 1")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_slurm_a_job_is_unknown_and_the_notes_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    state = job_states(["7"], {"7": 0.0})["7"]

    assert (state.state, state.final) == ("unknown", False)
    assert state.notes == (
        "squeue says nothing of jobs: cannot start squeue: No such file or directory",
        "sacct says nothing of jobs: cannot start sacct: No such file or directory",
    )


def test_no_jobs_ask_nobody(programs: Path) -> None:
    program(programs, "squeue", f"touch {programs}/asked")

    assert job_states([], {}) == {}
    assert cancel([]) == ()
    assert not (programs / "asked").exists()


def test_sacct_is_asked_only_for_what_squeue_does_not_know(programs: Path) -> None:
    program(programs, "squeue", "echo '7|RUNNING|n0|None|1:00|2:00|N/A'")
    program(programs, "sacct", f'echo "$@" > {programs}/asked; echo "8|COMPLETED|n1|Unknown|0:0"')

    states = job_states(["7", "8"], {})

    assert [(one.state, one.source) for one in states.values()] == [("RUNNING", "squeue"), ("COMPLETED", "sacct")]
    assert (programs / "asked").read_text().split()[-2:] == ["-j", "8"]


def test_a_job_seen_lately_is_not_lost_though_it_was_submitted_long_ago(programs: Path) -> None:
    program(programs, "squeue", "exit 0")
    now = time.time()

    state = job_states(["7"], {"7": now - 1e5}, last_seen_at={"7": now})["7"]

    assert state.state == "unknown"


def test_a_program_that_hangs_is_ended_with_its_children(programs: Path) -> None:
    program(programs, "squeue", "trap '' TERM\nsleep 60 & echo $! > $0.pid; wait")

    answer = ask(["squeue"], 0.5)

    assert (answer.rc, answer.stderr) == (None, "squeue did not answer within 0.5 s")
    child = int((programs / "squeue.pid").read_text())
    until = time.monotonic() + 5.0
    while _lives(child) and time.monotonic() < until:  # a signal that was sent takes its moment on a busy machine
        time.sleep(0.01)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_users_formats_and_filters_do_not_reach_the_question(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT", "SQUEUE_CLUSTERS", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "theirs")
    program(programs, "squeue", "env")

    lines = set(ask(["squeue"], 10.0).stdout.splitlines())

    assert {"SQUEUE_CLUSTERS=theirs", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0"} <= lines
    assert not {line for line in lines if line.startswith(("SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_"))}
    assert os.environ["SQUEUE_FORMAT"] == "theirs"


@pytest.mark.parametrize("odd", ["-u", "7; rm", "", "7.batch", "103_[1-2]"])
def test_only_ids_reach_a_command_line(programs: Path, odd: str) -> None:
    del programs

    with pytest.raises(UsageError, match="is not the id of a Slurm job"):
        cancel([odd])
    with pytest.raises(UsageError, match="is not the id of a Slurm job"):
        job_states([odd], {})


def test_a_refused_cancel_says_what_slurm_said(programs: Path) -> None:
    program(
        programs, "scancel",
        "echo 'scancel: error: Kill job error on job id 7: Access/permission denied' >&2; exit 1",
    )  # fmt: skip

    with pytest.raises(UsageError, match=r"cannot cancel jobs 7, 8: scancel: error: .* Access/permission denied; see"):
        cancel(["7", "8"])


def test_a_missing_scancel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="cannot cancel job 7: cannot start scancel"):
        cancel(["7"])
