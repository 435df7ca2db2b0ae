"""Sweeps on a real two-node Slurm, as a user of a cluster types them. The trainer has no torch, so that it is quick."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace

import pytest

from interlace.rank.numa import parse_cpulist
from tests.slurm.user import User, nodes_by_round, records

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]


def test_two_lanes_measure_on_two_nodes_and_are_reported_as_one(user: User) -> None:
    ended = user.sweep("launchers.lanes=2", "rounds=2", "launchers.gpus_per_node=2")

    assert ended.returncode == 0, ended.stderr
    assert {one["node"] for number in (0, 1) for one in user.sessions(number)} == {"n0", "n1"}
    report = json.loads((user.path / "report.json").read_text())
    assert [arm["runs"] for arm in report["arms"]] == [4, 4]
    (compared,) = [arm["comparison"] for arm in report["arms"] if arm["comparison"]]
    assert compared["verdict"] == "slower"
    assert 1.3 < compared["ratio"] < 1.6
    assert compared["confidence"] == 0.95
    (blocks,) = [note for note in compared["notes"] if note.startswith("ratio by block")]
    assert "lane 0 on n" in blocks
    assert "lane 1 on n" in blocks
    placement = json.loads(next(user.lane().glob("runs/001-*/placement.json")).read_text())
    assert placement[0]["cuda_visible_devices"] == "0,1"
    assert len(parse_cpulist(placement[0]["cpus_allowed"])) == 2  # a step of srun would have one
    first = [json.loads((user.lane(number) / "plan.json").read_text())["seed"] for number in (0, 1)]
    assert first == [0, 1]


def test_a_cancelled_lane_ends_cleanly_and_is_resumed_with_what_is_left(user: User) -> None:
    assert user.sweep("rounds=2", "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    running = user.interlace("status", str(user.path))
    cancelled = user.interlace("cancel", str(user.path))
    user.until(lambda: user.sessions()[0]["ended"] is not None)
    kept = next(user.lane().glob("runs/000-*/record.json")).read_bytes()
    again = user.interlace("cancel", str(user.path))

    resumed = user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)
    reported = user.interlace("report", str(user.path))

    assert "running on n" in running.stdout
    assert "is cancelled" in cancelled.stdout
    assert user.sessions()[0]["ended"] == "interrupted"
    assert again.stdout == "no job of this sweep waits or runs\n"
    assert resumed.returncode == 0, resumed.stderr
    assert next(user.lane().glob("runs/000-*/record.json")).read_bytes() == kept
    assert "2 of 2 rounds complete" in reported.stdout


def test_a_run_that_fails_fails_the_job_and_the_sweep_too(user: User) -> None:
    ended = user.sweep("rounds=1", "burn_in=false", step_s="0.02,no-number")

    (session,) = user.sessions()
    user.until(lambda: user.cluster.state(session["job_id"]) not in ("RUNNING", "COMPLETING"))
    assert ended.returncode == 1
    assert session["ended"] == "finished"
    assert user.cluster.state(session["job_id"]) == "FAILED"


def test_a_lane_begins_nothing_that_its_time_does_not_suffice_for(user: User) -> None:
    ended = user.sweep("rounds=2", "launchers.timeout_min=1", "launchers.slurm_signal_delay_s=1")

    assert ended.returncode == 1
    assert records(user.lane()) == 1  # the burn-in, which says how long a run takes
    assert user.sessions()[0]["ended"] == "out of time"
    assert "go on: interlace resume" in ended.stderr


def test_a_lane_that_comes_to_another_node_measures_its_cut_round_anew(user: User) -> None:
    assert user.sweep("rounds=2", "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 2)
    user.interlace("cancel", str(user.path))
    user.until(lambda: user.sessions()[0]["ended"] is not None)
    first = user.sessions()[0]["node"]
    user.cluster.run("scontrol", "update", f"nodename={first}", "state=drain", "reason=test")
    try:
        user.interlace("resume", str(user.path))
        user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)
    finally:
        user.cluster.run("scontrol", "update", f"nodename={first}", "state=resume")
    reported = user.interlace("report", str(user.path))

    second = user.sessions()[-1]["node"]
    assert second != first
    assert f"round 3 was added: it repeats round 1: its lane moved from {first} to {second}" in reported.stdout
    nodes = nodes_by_round(user.lane())
    assert nodes[0] == {first, second}
    assert nodes[2] == nodes[3] == {second}
    assert "2 of 2 rounds complete" in reported.stdout


def test_a_lane_whose_node_goes_down_is_told_and_resumed(user: User) -> None:
    assert user.sweep("rounds=1", "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    node = user.sessions()[0]["node"]
    user.cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        user.until(lambda: user.sessions()[0]["ended"] is not None)
        lost = user.interlace("status", str(user.path))
    finally:
        user.cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
    user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)

    assert f"interrupted on {node}" in lost.stdout
    assert len(user.sessions()) == 2
    assert "1 of 1 rounds complete" in user.interlace("report", str(user.path)).stdout


def test_a_lane_that_is_killed_at_once_is_told_with_the_ends_of_its_logs_and_resumed(user: User) -> None:
    assert user.sweep("rounds=1", "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    job = user.sessions()[0]["job_id"]
    os.kill(json.loads((user.lane() / "state.json").read_text())["pid"], signal.SIGKILL)  # as the host's OOM killer
    user.until(lambda: user.cluster.state(job) == "FAILED")
    killed = user.interlace("status", str(user.path))

    user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)

    assert "ended without a word" in killed.stdout
    assert f"{job}_0_log.err" in killed.stdout
    assert user.sessions()[0]["ended"] is None
    assert "1 of 1 rounds complete" in user.interlace("report", str(user.path)).stdout


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("launchers.slurm_partition=nope", "partition"),
        ("launchers.gpus_per_node=9", "node configuration"),
        ("launchers.slurm_partitoin=short", "did you mean 'launchers.slurm_partition'?"),
        ("launchers.slurm_additional_parameters={foo: 1}", "--foo"),
        ("launchers.slurm_srun_args=['--mpi=none']", "nothing is started by srun in a lane of one node"),
    ],
)
def test_what_cannot_be_submitted_is_one_clear_error(user: User, argument: str, said: str) -> None:
    ended = user.sweep("rounds=1", argument)

    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


SECOND_REFUSED = """#!/bin/sh
if mkdir {folder}/once 2>/dev/null; then exec {sbatch} "$@"; fi
echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2
echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy' >&2
exit 1
"""


def test_lanes_that_are_refused_after_the_first_leave_it_at_work(user: User) -> None:
    limited = user.folder / "bin" / "sbatch"
    limited.parent.mkdir()
    limited.write_text(SECOND_REFUSED.format(folder=user.folder, sbatch=shutil.which("sbatch")))
    limited.chmod(0o755)
    env = {**user.cluster.env, "PATH": f"{limited.parent}:{user.cluster.env['PATH']}"}

    ended = User(replace(user.cluster, env=env), user.folder).sweep("launchers.lanes=2", "rounds=1")

    assert ended.returncode == 1
    assert "lane 1 and those after it are not submitted: " in ended.stderr
    assert "QOSMaxSubmitJobPerUserLimit" in ended.stderr
    assert "lane 1: not submitted; 0 of 3 runs done; go on: interlace resume" in ended.stderr
    assert user.sessions(0)[0]["ended"] == "finished"
    assert user.interlace("resume", str(user.path)).returncode == 0
    assert user.sessions(1)[0]["ended"] == "finished"


def test_a_plan_shows_the_script_and_submits_nothing(user: User) -> None:
    shown = user.interlace(
        "plan",
        "launchers=slurm",
        "launchers.lanes=2",
        "launchers.slurm_partition=short",
        "launchers.slurm_setup=[date]",
    )

    assert shown.returncode == 0, shown.stderr
    for line in ("#SBATCH --partition=short", "#SBATCH --exclusive", "#SBATCH --no-requeue", "date", "2 lanes"):
        assert line in shown.stdout
    assert user.cluster.run("squeue", "-h").stdout == ""
    assert not (user.folder / "outputs").exists()
