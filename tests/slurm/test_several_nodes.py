"""Lanes of two nodes on a real two-node Slurm, whose nodes are this one machine: srun, agents, ranks that meet."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import psutil
import pytest

from interlace import process
from tests.slurm.user import User, records

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]

TWO = ("launchers.nodes=2", "launchers.gpus_per_node=2", "rounds=1")
"""The nodes are one machine: each of them counts the other's ranks as load."""

DIES_ON_THE_SECOND = """
import os, signal, sys, time
from interlace.recorder import StepRecorder
with StepRecorder() as recorder:
    for _ in range(10):
        time.sleep(0.02)
        recorder.step()
        if os.environ["RANK"] == "2":
            recorder.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(300)
"""


@pytest.fixture
def user(slurm_cluster: SlurmCluster, tmp_path: Path) -> User:
    return User(slurm_cluster, tmp_path)


def record_of(lane: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(lane.glob(f"runs/{run}/record.json")).read_text())
    return found


def no_rank_left(user: User) -> bool:
    return process.members(None, f"{user.lane() / 'runs'}/") == []


def test_the_quickstart_on_two_nodes_is_measured_proved_and_reported(user: User) -> None:
    ended = user.interlace(
        "sweep", "launchers=slurm", *TWO, "launchers.timeout_min=10", "launchers.poll_s=0.5", "gate.cpu_busy_pct=100",
        "ranks.nproc_per_node=1", "workload.steps=400", "measure.window=[101,400]", "burn_in=false", timeout_s=400.0,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    (sweep,) = (user.folder / "outputs" / "quickstart").iterdir()
    lane = sweep / "lanes" / "0"
    (session,) = [json.loads(path.read_text()) for path in (lane / "sessions").glob("*.json")]
    assert session["node"] == "n[0-1]"
    run = next(lane.glob("runs/000-*"))
    record = record_of(lane, run.name)
    assert (record["status"], record["node"], record["world_size_found"]) == ("ok", "n[0-1]", 2)
    steps = pd.read_parquet(run / "steps.parquet")
    slowest = steps[steps["step"].between(101, 400)].groupby("step")["step_s"].max()
    assert record["steps"]["median_s"] == pytest.approx(float(slowest.median()))
    placements = json.loads((run / "placement.json").read_text())
    assert sorted(one["node"] for one in placements) == ["n0", "n1"]
    assert [one["cuda_visible_devices"] for one in placements] == ["0,1", "0,1"]
    assert all(one["running"] for one in placements)
    gate = json.loads((run / "gate.json").read_text())
    assert sorted(one["node"] for one in gate["nodes"]) == ["n0", "n1"]
    assert len(list((run / "nodes").glob("n*/monitor.parquet"))) == 1
    assert "on n[0-1]" in user.interlace("status", str(sweep)).stdout
    report = (sweep / "report.md").read_text()
    assert "2 nodes with 1 rank each under accelerate" in report
    assert "node n0" in report
    assert "node n1" in report


def test_a_rank_that_is_killed_on_the_second_node_is_named_with_its_node(user: User) -> None:
    (user.folder / "train.py").write_text(DIES_ON_THE_SECOND)
    ended = user.sweep(*TWO, "launchers@ranks=torchrun", "burn_in=false", step_s="0.1,0.2")

    assert ended.returncode == 1
    record = record_of(user.lane(), "000-*")
    assert record["status"] == "killed"
    assert record["cause"]["rank"] == 2
    second = next(path.name for path in user.lane().glob("runs/000-*/nodes/*"))
    assert record["cause"]["message"].startswith(f"on {second}: rank 2 was killed")
    assert no_rank_left(user)


def test_a_lane_of_two_nodes_that_is_cancelled_leaves_nothing_and_is_resumed(user: User) -> None:
    assert user.sweep(*TWO, "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    user.until(lambda: len(list(user.lane().glob("runs/001-*/ranks/rank-*.json"))) == 2)
    user.interlace("cancel", str(user.path))
    user.until(lambda: user.sessions()[0]["ended"] is not None)

    assert user.sessions()[0]["ended"] == "interrupted"
    assert record_of(user.lane(), "001-*")["status"] == "interrupted"
    user.until(lambda: no_rank_left(user))
    user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)
    assert "1 of 1 rounds complete" in user.interlace("report", str(user.path)).stdout


def test_a_lane_whose_second_node_goes_down_is_told_and_resumed(user: User) -> None:
    assert user.sweep(*TWO, "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    user.until(lambda: len(list(user.lane().glob("runs/001-*/ranks/rank-*.json"))) == 2)
    second = next(path.name for path in user.lane().glob("runs/001-*/nodes/*"))
    user.cluster.run("scontrol", "update", f"nodename={second}", "state=down", "reason=test")
    try:
        user.until(lambda: "running" not in user.interlace("status", str(user.path)).stdout.splitlines()[0])
        lost = user.interlace("status", str(user.path))
    finally:
        user.cluster.run("scontrol", "update", f"nodename={second}", "state=resume")
    user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)

    assert "on n[0-1]" in lost.stdout
    assert "1 of 1 rounds complete" in user.interlace("report", str(user.path)).stdout


def agents_of(job: str) -> list[psutil.Process]:
    """Find the agents of a job on this machine (srun, which has their words on its own line, is none)."""
    found = []
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        with contextlib.suppress(psutil.Error):
            if "srun" not in words[:1] and "interlace.lane.nodes.agent" in words:
                found += [one] if one.environ().get("SLURM_JOB_ID") == job else []
    return found


def test_an_agent_that_dies_fails_the_run_with_its_nodes_name_and_the_lane_is_resumed(user: User) -> None:
    assert user.sweep(*TWO, "launchers.wait=false", step_s="0.3,0.35").returncode == 0
    user.until(lambda: records(user.lane()) == 1)
    user.until(lambda: len(list(user.lane().glob("runs/001-*/ranks/rank-*.json"))) == 2)
    second = next(path.name for path in user.lane().glob("runs/001-*/nodes/*"))
    (agent,) = agents_of(user.sessions()[0]["job_id"])
    agent.kill()
    user.until(lambda: user.sessions()[0]["ended"] is not None)

    record = record_of(user.lane(), "001-*")
    assert (record["status"], record["cause"]["code"]) == ("failed", "node_lost")
    assert record["cause"]["message"].startswith(f"node {second} is lost: its agent ended")
    assert user.sessions()[0]["ended"].startswith(f"failed (node {second} is lost")
    user.until(lambda: no_rank_left(user))
    user.interlace("resume", str(user.path))
    user.until(lambda: user.sessions()[-1]["ended"] == "finished", timeout_s=90)
    assert "1 of 1 rounds complete" in user.interlace("report", str(user.path)).stdout


def test_what_srun_refuses_is_said_with_its_own_words(user: User) -> None:
    ended = user.sweep(*TWO, "launchers.slurm_srun_args=['--nonsense']")

    assert ended.returncode == 1
    assert "is lost: its agent ended" in ended.stderr
    assert "srun" in ended.stderr
    assert user.sessions()[0]["ended"].startswith("failed (node n")


def test_a_run_of_two_nodes_is_repeated_by_its_script(user: User) -> None:
    assert user.sweep(*TWO, "launchers@ranks=torchrun", "burn_in=false").returncode == 0
    script = next(user.lane().glob("runs/000-*/command.sh"))
    srun = "srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mem=0"

    done = user.cluster.run(
        "sbatch", "--wait", "--nodes=2", "--exclusive", f"--output={user.folder}/again.out", "--wrap",
        f"MASTER_ADDR=127.0.0.1 {srun} {script}", timeout_s=180.0,
    )  # fmt: skip

    text = (user.folder / "again.out").read_text()
    assert done.returncode == 0, text
    assert text.count("step logs go to ") == 2


def test_a_plan_of_two_nodes_shows_what_starts_on_each(user: User) -> None:
    shown = user.interlace("plan", "launchers=slurm", "launchers.nodes=2", "launchers.slurm_srun_args=['--mpi=none']")

    assert shown.returncode == 0, shown.stderr
    for text in ("#SBATCH --nodes=2", "--num_machines=2", "--machine_rank=<0 to 1>", "a lane has 2 nodes"):
        assert text in shown.stdout
    assert "srun '--jobid=<id>' --overlap --nodes=1" in shown.stdout
    assert "--mpi=none" in shown.stdout
