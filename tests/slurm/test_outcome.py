from __future__ import annotations

from dataclasses import replace

import pytest

from interlace.slurm.outcome import JobFolder, job_outcome
from interlace.slurm.states import JobState

LOGS = ("7_submitted.pkl", "7_0_log.out", "7_0_log.err")


def state(word: str, *, final: bool, exit_code: str | None = None) -> JobState:
    return JobState(word, final, "n0", None, "squeue", exit_code=exit_code)


def test_a_result_of_zero_is_the_only_success() -> None:
    found = job_outcome("7", JobFolder(LOGS, ("success", 0), steps_seen=20), state("COMPLETED", final=True))

    assert (found.status, found.reason, found.returncode, found.steps_seen) == ("ok", None, 0, 20)


@pytest.mark.parametrize("word", ["FINISHED", "COMPLETED"])
def test_a_state_of_success_without_a_result_is_a_failure(word: str) -> None:
    tails = {"7_0_log.out": "step 10\nstep 11\n", "7_0_log.err": ""}

    found = job_outcome("7", JobFolder(LOGS, None, tails, steps_seen=2), word)

    assert (found.status, found.reason) == ("failed", "no_result")
    assert found.sentence == (
        f"job 7 ended without a result (Slurm: {word}): it was killed, or it exited before it could write its result"
        "; 2 steps were seen\n  7_0_log.out:\n    step 10\n    step 11\n  7_0_log.err: nothing"
    )


@pytest.mark.parametrize(
    ("value", "reason", "returncode"),
    [(3, "nonzero_exit", 3), (-9, "nonzero_exit", -9), (None, "no_exit_code", None), (False, "no_exit_code", None),
     ("0", "no_exit_code", None), (0.0, "no_exit_code", None)],
)  # fmt: skip
def test_a_returned_value_is_no_success_by_itself(value: object, reason: str, returncode: int | None) -> None:
    found = job_outcome("7", JobFolder(LOGS, ("success", value)), "FINISHED")

    assert (found.status, found.reason, found.returncode) == ("failed", reason, returncode)


def test_an_exception_is_told_by_its_last_line() -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no such arm\n'

    found = job_outcome("7", JobFolder(LOGS, ("error", trace)), "FINISHED")

    assert (found.status, found.reason) == ("failed", "exception")
    assert (found.sentence or "").startswith("job 7 raised ValueError: no such arm\n")


@pytest.mark.parametrize(
    ("word", "reason"),
    [("TIMEOUT", "time_limit"), ("OUT_OF_MEMORY", "host_oom"), ("CANCELLED", "cancelled"), ("PREEMPTED", "preempted"),
     ("NODE_FAIL", "node_failed"), ("FAILED", "no_result"), ("lost", "lost")],
)  # fmt: skip
def test_slurms_last_word_names_the_reason_where_the_job_left_none(word: str, reason: str) -> None:
    found = job_outcome("7", JobFolder(LOGS), state(word, final=True, exit_code="0:9"))

    assert (found.status, found.reason) == ("failed", reason)
    assert f"(Slurm: {word}, exit code 0:9)" in (found.sentence or "")


@pytest.mark.parametrize(
    ("word", "reason"), [("CANCELLED by 1000", "cancelled"), ("OUT_OF_ME+", "host_oom"), ("FAILED", "no_result")]
)
def test_a_state_as_sacct_prints_it_is_no_running_job(word: str, reason: str) -> None:
    found = job_outcome("7", JobFolder(LOGS), word)

    assert (found.status, found.reason) == ("failed", reason)


def test_a_result_counts_though_slurm_says_otherwise_and_that_is_noted() -> None:
    found = job_outcome("7", JobFolder(LOGS, ("success", 0)), state("TIMEOUT", final=True))

    assert (found.status, found.notes) == ("ok", ("Slurm says TIMEOUT of a job that had finished",))


def test_a_result_that_cannot_be_read_is_not_a_missing_one() -> None:
    found = job_outcome("7", JobFolder((*LOGS, "7_0_result.pkl")), state("COMPLETED", final=True))

    assert (found.status, found.reason) == ("failed", "unreadable_result")


@pytest.mark.parametrize(
    ("stderr", "reason", "said"),
    [
        ("/spool/job7/slurm_script: line 17: /env/bin/python: No such file or directory\n", "no_interpreter",
         "its node has no /env/bin/python that could be run (No such file or directory)"),
        ("slurm_script: line 17: /env/bin/python: cannot execute: required file not found\n", "no_interpreter",
         "its node has no /env/bin/python that could be run (cannot execute: required file not found)"),
        ("/env/bin/python: No module named submitit.core._submit\n", "other_environment",
         "the Python of its node has no submitit.core._submit"),
        ("ModuleNotFoundError: No module named 'interlace'\n", "other_environment",
         "the Python of its node has no interlace"),
        ("step 3\n", "no_result", "it was killed, or it exited before it could write its result"),
    ],
)  # fmt: skip
def test_a_job_that_never_came_to_its_function_is_told_by_its_log(stderr: str, reason: str, said: str) -> None:
    found = job_outcome("7", JobFolder(LOGS, None, {"7_0_log.err": stderr}), state("FAILED", final=True))

    assert (found.status, found.reason) == ("failed", reason)
    assert said in (found.sentence or "")


def test_a_job_that_its_node_could_not_launch_points_at_the_shared_folder() -> None:
    launch = replace(state("FAILED", final=True), reason="JobLaunchFailure")

    found = job_outcome("7", JobFolder(("7_submitted.pkl",)), launch)

    assert found.reason == "not_launched"
    assert "(JobLaunchFailure); it left no log either: is its folder on a file system" in (found.sentence or "")


def test_a_job_without_any_log_points_at_the_shared_folder() -> None:
    found = job_outcome("7", JobFolder(("7_submitted.pkl",)), state("FAILED", final=True))

    assert "is its folder on a file system that the nodes share?" in (found.sentence or "")


@pytest.mark.parametrize(
    ("word", "status"),
    [("PENDING", "waiting"), ("REQUEUED", "waiting"), ("RUNNING", "running"), ("COMPLETING", "running"),
     ("unknown", "unknown")],
)  # fmt: skip
def test_a_job_that_goes_on_has_no_outcome_yet(word: str, status: str) -> None:
    found = job_outcome("7", JobFolder(LOGS), state(word, final=False))

    assert (found.status, found.reason) == (status, None)
    assert job_outcome("7", JobFolder(LOGS), word).status == status


def test_nothing_known_is_unknown() -> None:
    assert job_outcome("7", JobFolder(())).status == "unknown"
