"""Interlace started inside an allocation of a real Slurm: by srun, under salloc, from a batch script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.slurm.user import User

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]


def test_a_task_of_srun_is_the_lane(user: User) -> None:
    ended = user.under(["srun", "--ntasks=1", "--cpus-per-task=2"], user.sweep_here("rounds=1"))

    assert ended.returncode == 0, ended.stderr
    notes = json.loads((user.path / "report.json").read_text())["notes"]
    assert any(note.startswith("measured inside SLURM job ") for note in notes)


def test_several_tasks_of_srun_do_not_measure_beside_each_other(user: User) -> None:
    ended = user.under(["srun", "--ntasks=2"], user.sweep_here("rounds=1"))

    assert ended.returncode == 2
    assert "srun started this 2 times" in ended.stderr
    assert not (user.folder / "outputs").exists()


def test_the_login_node_is_not_measured_in_place_of_the_nodes_that_salloc_got(user: User) -> None:
    ended = user.under(["salloc", "--quiet", "--nodes=1"], user.sweep_here("rounds=1"))

    assert ended.returncode == 2
    assert "but is not on a node of it" in ended.stderr
    assert not (user.folder / "outputs").exists()


def held(nodes: int, minutes: int = 5) -> list[str]:
    """Hold nodes as `salloc` does, and start one task on the first of them."""
    return [
        "salloc", "--quiet", f"--nodes={nodes}", "--exclusive", f"--time={minutes}", "srun", "--nodes=1", "--ntasks=1",
    ]  # fmt: skip


def test_an_allocation_of_two_nodes_is_a_lane_of_two_and_goes_on_on_the_same_two(user: User) -> None:
    measured = user.under(held(2), user.sweep_here("rounds=1", "launchers.nodes=2"))
    resumed = user.under(held(2), ["resume", str(user.path), "--rounds", "2"])
    on_one = user.under(held(1), ["resume", str(user.path), "--rounds", "3"])

    assert measured.returncode == 0, measured.stderr
    assert resumed.returncode == 0, resumed.stderr
    runs = [json.loads(path.read_text()) for path in user.path.glob("runs/*/record.json")]
    assert {(run["node"], run["world_size_found"], run["status"]) for run in runs} == {("n[0-1]", 2, "ok")}
    assert {run["run"]["round"] for run in runs} >= {1, 2}
    assert on_one.returncode == 2
    assert "launchers.nodes=2, and this job has 1 (n" in on_one.stderr


def test_of_an_allocation_of_two_nodes_one_is_measured_unless_asked_for_and_three_are_refused(user: User) -> None:
    planned = user.under(held(2), ["plan", *user.sweep_here()[1:]])
    agents = user.under(held(2), ["plan", *user.sweep_here("launchers.nodes=2")[1:]])
    refused = user.under(held(2), user.sweep_here("launchers.nodes=3"))

    assert "which is the lane: 1 of its 2 nodes (launchers.nodes=2 trains over all of them)" in planned.stdout
    assert "on every one but the first it starts its agent:" in agents.stdout
    assert refused.returncode == 2
    assert "launchers.nodes=3, and this job has 2 (n0, n1)" in refused.stderr
    assert not (user.folder / "outputs").exists()


def test_no_round_is_begun_that_the_allocations_time_would_cut(user: User) -> None:
    ended = user.under(held(1, minutes=1), user.sweep_here("rounds=2"))

    assert ended.returncode == 1
    assert "s are left of this job's time" in ended.stderr
    assert "it is not begun; interlace resume" in ended.stderr
    assert len(list(user.path.glob("runs/*/record.json"))) == 1  # the burn-in, whose length was not known


def test_a_job_can_be_submitted_from_inside_a_job_with_other_options(user: User) -> None:
    submit = user.sweep_here("rounds=1", "launchers=slurm", "launchers.poll_s=0.5", "launchers.timeout_min=10")

    ended = user.under(["srun", "--ntasks=1", "--mem=100M", "--gres=gpu:1", "--nodelist=n0"], submit)

    assert ended.returncode == 0, ended.stderr
    (session,) = user.sessions()
    assert (session["node"], session["ended"]) == ("n1", "finished")
    (placement,) = json.loads(next(user.lane().glob("runs/001-*/placement.json")).read_text())
    assert placement["cuda_visible_devices"] == "0,1"  # of its own job, not the one GPU of the surrounding one
