from __future__ import annotations

import sys

import pytest

from interlace.errors import UsageError
from interlace.slurm.steps import nodes_of, other_nodes, srun_argv

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[0-2]", "SLURMD_NODENAME": "n1"}


def test_an_agent_has_all_of_its_node_and_the_users_arguments_win() -> None:
    assert srun_argv("7", "n2", ["--mem=1G", "--mpi=none"]) == (
        "srun", "--jobid=7", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n2", "--cpu-bind=none", "--mem=0",
        "--job-name=interlace-agent", "--mem=1G", "--mpi=none", sys.executable, "-P", "-m",
        "interlace.lane.nodes.agent",
    )  # fmt: skip


def test_the_other_nodes_of_a_job_are_all_but_this_one() -> None:
    assert other_nodes(JOB, 3) == ("n0", "n2")


def test_of_a_larger_job_the_first_nodes_are_taken() -> None:
    assert other_nodes(JOB, 2) == ("n0",)
    assert nodes_of(JOB) == ("n0", "n1", "n2")


@pytest.mark.parametrize(
    ("environ", "nodes", "said"),
    [
        (JOB, 4, "launchers.nodes=4, and this job has 3 (n0, n1, n2)"),
        ({}, 2, "launchers.nodes=2 needs a job of so many nodes, and this is on no node of any"),
        ({**JOB, "SLURMD_NODENAME": "login"}, 3, "this is on no node of any"),
    ],
)
def test_more_nodes_than_a_job_has_are_refused(environ: dict[str, str], nodes: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        other_nodes(environ, nodes)

    assert said in str(caught.value)
