from __future__ import annotations

from dataclasses import replace

import pytest

from interlace.cli.lanes_state import LaneState, told, waits_or_runs
from interlace.lanes import LaneJob, Lanes, Session, other_environment
from interlace.settings import LaunchersConfig
from interlace.slurm.states import JobState
from interlace.submission import sbatch_parameters

NOW_S = 1000.0
RUNNING = Session("7", "n0", "python", {"torch": "2"}, 900.0)
ENDED = replace(RUNNING, ended_at=950.0, ended="interrupted")


def job(state: str, elapsed_s: float | None = 100.0, *, final: bool = False, reason: str | None = None) -> JobState:
    return JobState(state, final, "n0", reason, "squeue", elapsed_s=elapsed_s)


@pytest.mark.parametrize(
    ("state", "session", "waits", "runs"),
    [
        (None, None, False, False),
        (job("PENDING", 0.0), None, True, False),
        (job("RUNNING"), None, False, True),
        (job("RUNNING"), RUNNING, False, True),
        (job("COMPLETED", final=True), RUNNING, False, False),
        (job("unknown", None), RUNNING, False, True),
        # its own word counts first: for Slurm it runs for a moment more
        (job("RUNNING"), ENDED, False, False),
        (job("COMPLETING"), ENDED, False, False),
        (job("unknown", None), ENDED, False, False),
        # requeued: it ended, and comes again
        (job("COMPLETING", 0.0), ENDED, True, False),
        (job("REQUEUED", 0.0), ENDED, True, False),
        (job("PENDING", 0.0), ENDED, True, False),
        (job("PENDING", 0.0), RUNNING, True, False),
        (job("RUNNING", 20.0), ENDED, False, True),
    ],
)
def test_a_lane_is_over_when_it_says_so_unless_its_job_comes_again(
    state: JobState | None, session: Session | None, waits: bool, runs: bool
) -> None:
    assert waits_or_runs(state, session, NOW_S) == (waits, runs)


LANE = LaneState(LaneJob(0, "lanes/0", ("7",), (890.0,)), None, None, done=1, total=3, left=2)


SILENT = "it has written nothing for 5 min: does its node answer? (sinfo -n n0)"
UNHEARD = "it has written nothing yet: is the sweep's folder visible on n0? see lanes/0/slurm"
TOLD = {
    "job 7 pending (jobs of higher priority come first [Priority]); 1 of 3 runs done": replace(
        LANE, job=job("PENDING", 0.0, reason="Priority"), waits=True
    ),
    "job 7 running on n0; 1 of 3 runs done, now 001-r1-a": replace(
        LANE, job=job("RUNNING"), session=RUNNING, runs=True, now="001-r1-a", silent_s=30.0
    ),
    f"job 7 running on n0; 1 of 3 runs done; {SILENT}": replace(
        LANE, job=job("RUNNING"), session=RUNNING, runs=True, silent_s=300.0
    ),
    f"job 7 running; 1 of 3 runs done; {UNHEARD}": replace(LANE, job=job("RUNNING"), runs=True),
    "job 7 pending, to go on after it was interrupted on n0; 1 of 3 runs done": replace(
        LANE, job=job("PENDING", 0.0), session=ENDED, waits=True
    ),
    "job 7 pending, to go on after it was killed on n0; 1 of 3 runs done": replace(
        LANE, job=job("PENDING", 0.0), session=RUNNING, waits=True
    ),
    "job 7 is over for Slurm (NODE_FAIL), but the lane is still at work on n0; 1 of 3 runs done": replace(
        LANE, job=job("NODE_FAIL", final=True), session=RUNNING, runs=True, given_up=True
    ),
    "job 7 ended without a word: its node failed (Slurm: NODE_FAIL) on n0; 1 of 3 runs done": replace(
        LANE, job=job("NODE_FAIL", final=True)
    ),
    "job 7 interrupted on n0; 1 of 3 runs done": replace(LANE, job=job("CANCELLED", final=True), session=ENDED),
}


@pytest.mark.parametrize(("line", "state"), TOLD.items())
def test_a_lane_is_told_in_one_line(line: str, state: LaneState) -> None:
    assert told(state) == f"lane 0: {line}"


def test_the_step_stands_beside_the_run() -> None:
    state = replace(LANE, job=job("RUNNING"), session=RUNNING, runs=True, now="001-r1-a", silent_s=300.0)

    assert told(state, 7).startswith("lane 0: job 7 running on n0; 1 of 3 runs done, now 001-r1-a, step 7; it has")


def test_another_environment_is_named_with_both_versions() -> None:
    lanes = Lanes((), "python", {"torch": "2", "python": "3.11.7"})

    assert other_environment(lanes, replace(RUNNING, versions=lanes.versions)) is None
    assert other_environment(lanes, replace(RUNNING, python="other", versions={"torch": "3", "numpy": "2"})) == (
        "ran under another environment on n0: other (submitted with python), numpy 2 (submitted with none), "
        "python missing (submitted with 3.11.7), torch 3 (submitted with 2)"
    )


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, {"signal": "B:USR2@90", "no-requeue": True}),
        ({"requeue": True}, {"signal": "B:USR2@90", "requeue": True}),
        ({"requeue": False, "nice": None, "hint": "nomultithread"},
         {"signal": "B:USR2@90", "no-requeue": True, "hint": "nomultithread"}),
    ],
)  # fmt: skip
def test_requeue_is_off_unless_asked_for_and_false_leaves_an_option_out(
    asked: dict[str, object], given: dict[str, object]
) -> None:
    config = LaunchersConfig("slurm", slurm_additional_parameters=asked)

    assert sbatch_parameters(config, "name")["additional_parameters"] == given
