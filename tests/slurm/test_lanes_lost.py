"""Lanes whose job is taken away: a node that dies, a requeue, preemption, a node that sees other disks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.slurm.user import nodes_by_round, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm.cluster import SlurmCluster
    from tests.slurm.user import User

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]

SLOW = "0.2,0.25"
MISSING_S = 12.0
"""A job is missing from a node that came back when it is older than BatchStartTimeout and MessageTimeout."""


@pytest.fixture
def whole_cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, both of whose nodes are as before when the test is over."""
    yield slurm_cluster
    slurm_cluster.run("scancel", "--user=root")
    for node in ("n0", "n1"):
        if node in slurm_cluster.slurmd:
            slurm_cluster.stop_slurmd(node)
        slurm_cluster.start_slurmd(node)
        slurm_cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
    slurm_cluster.wait_for_nodes()


def crash(cluster: SlurmCluster, node: str, lane: int) -> None:
    """Let a node die: its daemon, the job's step and all that runs in it, at once."""
    step = psutil.Process(lane).parent()
    assert step is not None
    cluster.stop_slurmd(node, signal.SIGKILL)
    dying = stopped(step)
    for process in dying:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(dying, 10)


def stopped(top: psutil.Process) -> list[psutil.Process]:
    """Stop a tree of processes, and what it starts meanwhile: what escapes would write on after the crash."""
    held: list[psutil.Process] = []
    while new := [found for found in [top, *top.children(recursive=True)] if found not in held]:
        for process in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        held += new
    return held


def age(lane: Path, seconds: float) -> None:
    """Make all files of a lane older."""
    then = time.time() - seconds
    for path in lane.rglob("*"):
        os.utime(path, (then, then))


def pid(user: User) -> int:
    found: int = json.loads((user.lane() / "state.json").read_text())["pid"]
    return found


def job_of(user: User) -> str:
    found: str = json.loads((user.path / "lanes.json").read_text())["lanes"][0]["job_ids"][-1]
    return found


def first_line(user: User) -> str:
    return user.interlace("status", str(user.path)).stdout.splitlines()[0]


def complete(user: User) -> str:
    """Wait until the last job has finished the lane; return the report."""
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)
    return user.interlace("report", str(user.path)).stdout


def test_a_node_that_dies_in_a_round_loses_nothing_and_the_round_is_measured_anew(
    user: User, whole_cluster: SlurmCluster
) -> None:
    assert user.sweep("rounds=1", "launchers.wait=false", step_s=SLOW).returncode == 0
    user.until(lambda: records(user.lane()) == 2 and (user.lane() / "state.json").exists())
    first = user.sessions()[0]
    kept = {path: path.read_bytes() for path in user.lane().glob("runs/*/record.json")}
    crash(whole_cluster, first["node"], pid(user))
    age(user.lane(), 600)
    dead = first_line(user)
    left_alone = user.interlace("resume", str(user.path)).stderr
    time.sleep(max(0.0, first["started_at"] + MISSING_S - time.time()))
    whole_cluster.start_slurmd(first["node"])
    user.until(lambda: whole_cluster.state(first["job_id"]) == "NODE_FAIL")
    failed = user.interlace("status", str(user.path)).stdout

    assert user.interlace("resume", str(user.path)).returncode == 0
    report = complete(user)

    assert dead.startswith(f"lane 0: job {first['job_id']} running on {first['node']}")
    assert "it has written nothing for 10 min: does its node answer?" in dead
    assert "it is left alone" in left_alone
    assert f"its node failed (Slurm: NODE_FAIL) on {first['node']}" in failed
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert "round 2 was added: it repeats round 1: " in report
    assert "1 of 1 rounds complete" in report
    assert all(len(nodes) == 1 for number, nodes in nodes_by_round(user.lane()).items() if number)


def test_a_lane_goes_on_without_the_daemon_of_its_node_and_is_not_started_twice(
    user: User, whole_cluster: SlurmCluster
) -> None:
    assert user.sweep("rounds=1", "launchers.wait=false", step_s=SLOW).returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    node = user.sessions()[0]["node"]
    whole_cluster.stop_slurmd(node, signal.SIGKILL)
    whole_cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    given_up = first_line(user)
    resumed = user.interlace("resume", str(user.path))
    cancelled = user.interlace("cancel", str(user.path))
    report = complete(user)

    assert f"is over for Slurm (NODE_FAIL), but the lane is still at work on {node}" in given_up
    assert "it is left alone" in resumed.stderr
    assert "scancel cannot reach it" in cancelled.stdout
    assert len(user.sessions()) == 1
    assert "1 of 1 rounds complete" in report


def test_a_requeued_lane_is_alive_while_it_waits_and_never_mixes_two_nodes_in_a_round(
    user: User, whole_cluster: SlurmCluster
) -> None:
    assert user.sweep("rounds=1", "launchers.wait=false", step_s=SLOW).returncode == 0
    user.until(lambda: records(user.lane()) == 2)
    job, first = job_of(user), user.sessions()[0]["node"]
    refused = whole_cluster.run("scontrol", "requeue", job)
    whole_cluster.run("scontrol", "update", f"nodename={first}", "state=drain", "reason=test")
    whole_cluster.run("scontrol", "update", f"jobid={job}", "requeue=1")
    assert whole_cluster.run("scontrol", "requeue", job).returncode == 0
    user.until(lambda: whole_cluster.state(job) == "PENDING")
    waiting = first_line(user)
    left_alone = user.interlace("resume", str(user.path)).stderr
    whole_cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    report = complete(user)

    assert refused.returncode != 0  # --no-requeue
    assert "a requeued job waits two minutes" in waiting
    assert f"to go on after it was interrupted on {first}" in waiting
    assert "it is left alone" in left_alone
    assert [(one["job_id"], one["restart"]) for one in user.sessions()] == [(job, 0), (job, 1)]
    second = user.sessions()[-1]["node"]
    assert f"it repeats round 1: its lane moved from {first} to {second}" in report
    assert nodes_by_round(user.lane())[2] == {second}
    assert "1 of 1 rounds complete" in report


def test_a_preempted_lane_that_comes_again_on_its_node_measures_its_cut_round_anew(
    user: User, whole_cluster: SlurmCluster
) -> None:
    wanted = ("launchers.slurm_partition=spare", "launchers.slurm_additional_parameters={requeue: true}")
    assert (
        user.sweep("rounds=1", "launchers.wait=false", "launchers.slurm_nodelist=n0", *wanted, step_s=SLOW).returncode
        == 0
    )
    user.until(lambda: records(user.lane()) == 2)
    job = job_of(user)
    whole_cluster.submit("true", "--partition=urgent", "--exclusive", "--nodelist=n0")
    user.until(lambda: whole_cluster.state(job) == "PENDING")
    whole_cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    report = complete(user)

    assert [one["ended"] for one in user.sessions()] == ["interrupted", "finished"]
    assert f"it repeats round 1: job {job} ended in the middle of it" in report
    assert nodes_by_round(user.lane())[2] == {"n0"}
    assert "1 of 1 rounds complete" in report


def test_a_lane_that_is_preempted_with_a_time_of_grace_ends_its_run_cleanly(
    user: User, whole_cluster: SlurmCluster
) -> None:
    wanted = ("launchers.slurm_partition=grace", "launchers.slurm_nodelist=n0")
    assert user.sweep("rounds=1", "launchers.wait=false", *wanted, step_s=SLOW).returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    time.sleep(1.0)  # into the next run
    whole_cluster.submit("true", "--partition=urgent", "--exclusive", "--nodelist=n0")
    user.until(lambda: user.sessions()[0]["ended"] is not None)

    (cut,) = (json.loads(path.read_text()) for path in user.lane().glob("runs/001-*/record.json"))
    assert (cut["status"], user.sessions()[0]["ended"]) == ("interrupted", "interrupted")
    assert "interrupted on n0; 1 of 3 runs done" in first_line(user)


def test_a_node_that_does_not_see_the_folder_or_the_interpreter_is_told(
    user: User, whole_cluster: SlurmCluster
) -> None:
    def on_n1_without(folder: Path) -> str:
        whole_cluster.stop_slurmd("n1")
        whole_cluster.start_slurmd("n1", folder)
        ended = user.sweep("rounds=1", "launchers.slurm_nodelist=n1", f"output_dir={user.folder}/out-{folder.name}")
        assert ended.returncode == 1
        return ended.stderr

    no_folder = on_n1_without(user.folder)
    no_python = on_n1_without(Path(sys.prefix))

    assert "is its folder on a file system that the nodes share?" in no_folder
    assert f"its node has no {sys.executable} that could be run (No such file or directory)" in no_python
    assert "go on: interlace resume" in no_folder
