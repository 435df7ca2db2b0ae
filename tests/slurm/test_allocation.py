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


def test_a_job_can_be_submitted_from_inside_a_job_with_other_options(user: User) -> None:
    submit = user.sweep_here("rounds=1", "launchers=slurm", "launchers.poll_s=0.5", "launchers.timeout_min=10")

    ended = user.under(["srun", "--ntasks=1", "--mem=100M", "--gres=gpu:1", "--nodelist=n0"], submit)

    assert ended.returncode == 0, ended.stderr
    (session,) = user.sessions()
    assert (session["node"], session["ended"]) == ("n1", "finished")
    (placement,) = json.loads(next(user.lane().glob("runs/001-*/placement.json")).read_text())
    assert placement["cuda_visible_devices"] == "0,1"  # of its own job, not the one GPU of the surrounding one
