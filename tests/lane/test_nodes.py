"""The two kinds of node: this machine, and one with an agent (here a plain subprocess in the place of srun's)."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from interlace import process
from interlace.errors import NodeLostError
from interlace.lane.nodes.environ import of_the_job
from interlace.lane.nodes.local import LocalNode
from interlace.lane.nodes.remote import AgentCommand, RemoteNode, agents
from interlace.monitor.off import NoGpus
from interlace.settings import GateConfig
from interlace.slurm.steps import AGENT
from tests.lane.nodes_contract import NodeContract, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interlace.lane.nodes.node import Node

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("clean_env")]


def command(name: str = "n1", **environ: str) -> AgentCommand:
    return AgentCommand(name, (sys.executable, *AGENT), {**os.environ, **environ})


@pytest.fixture
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteNode]:
    with agents([command()], os.environ, ["auto"], tmp_path_factory.mktemp("nodes")) as (node,):
        yield node


class TestLocal(NodeContract):
    @pytest.fixture
    def node(self) -> Node:
        return LocalNode("n1", NoGpus("none here"), os.environ, label="n1")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteNode]:
    """One agent that answers one test after the other, as it does the runs of a lane."""
    with agents([command()], os.environ, ["auto"], tmp_path_factory.mktemp("nodes")) as (node,):
        yield node


class TestRemote(NodeContract):
    @pytest.fixture
    def node(self, lasting: RemoteNode) -> Node:
        return lasting


def agent_of(node: RemoteNode) -> psutil.Process:
    return psutil.Process(node._agent.pid)


def test_an_agent_that_is_killed_is_a_lost_node_with_its_name(remote: RemoteNode, tmp_path: Path) -> None:
    contract = NodeContract()
    remote.start(contract.rank(tmp_path, 60.0))()
    agent_of(remote).kill()
    remote.wait(60.0)

    with pytest.raises(NodeLostError, match=r"node n1 is lost: its agent ended \(exit code -9\)"):
        remote.returncode()
    with pytest.raises(NodeLostError, match="node n1 is lost"):
        remote.end()()

    assert process.end(None, str(tmp_path)) == ()


def test_an_agent_whose_lane_is_gone_ends_what_it_runs_and_itself(remote: RemoteNode, tmp_path: Path) -> None:
    remote.start(NodeContract().rank(tmp_path, 60.0))()
    until((tmp_path / "ranks" / "rank-0.json").exists, "the rank")
    agent = agent_of(remote)

    remote.hang_up()
    agent.wait(60)

    assert process.members(None, str(tmp_path)) == []


def test_an_agent_stays_when_slurm_asks_all_steps_to_end_and_its_ranks_do_not(
    remote: RemoteNode, tmp_path: Path
) -> None:
    remote.start(NodeContract().rank(tmp_path, 60.0))()
    until((tmp_path / "ranks" / "rank-0.json").exists, "the rank")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        agent_of(remote).send_signal(number)
    for rank in process.members(None, str(tmp_path)):
        rank.terminate()
    until(lambda: remote.returncode() is not None, "the rank to end")

    assert remote.end()().returncode == -15


def test_a_gate_that_is_given_up_does_not_hold_the_agent(tmp_path: Path) -> None:
    limits = GateConfig("wait", timeout_s=600.0, poll_s=0.05, memory_available_mib=1e9)
    told: list[str] = []

    class EnoughError(Exception):
        pass

    def on_wait(reasons: object, _waited_s: float) -> None:
        told.append(str(reasons))
        raise EnoughError

    with agents([command()], os.environ, ["off"], tmp_path) as (node,):
        with pytest.raises(EnoughError):
            node.gate(limits, on_wait)()
        after = node.end_left(f"{tmp_path}/runs/")()

    assert "n1: " in told[0]
    assert "MiB of memory are available" in told[0]
    assert after == {}


def test_an_agent_that_does_not_come_up_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    broken = AgentCommand("n2", (sys.executable, "-c", "raise SystemExit('no such module')"), os.environ)
    children = set(psutil.Process().children(recursive=True))

    with (
        pytest.raises(NodeLostError, match=r"node n2 is lost: its agent ended \(exit code 1\): no such module"),
        agents([command(), broken], os.environ, ["off"], tmp_path),
    ):
        pytest.fail("the agents were held")

    assert set(psutil.Process().children(recursive=True)) <= children


def test_a_program_that_starts_agents_and_is_not_there_is_named(tmp_path: Path) -> None:
    missing = AgentCommand("n1", ("/nonexistent/srun",), os.environ)

    with (
        pytest.raises(NodeLostError, match="node n1: cannot start /nonexistent/srun: No such file or directory"),
        agents([missing], os.environ, ["off"], tmp_path),
    ):
        pytest.fail("the agents were held")


def test_ranks_of_another_node_see_the_job_as_those_of_the_first_do_and_their_own_gpus() -> None:
    own = {
        "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1", "SLURM_PROCID": "0",
        "SLURM_JOB_GPUS": "2,3", "SLURM_NODEID": "0", "SLURMD_NODENAME": "n1", "SLURM_CPU_BIND": "quiet,none",
    }  # fmt: skip
    lanes = {
        "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1", "SLURM_NODEID": "0", "SLURMD_NODENAME": "n0",
        "SLURM_CONF": "/etc/slurm.conf",
    }  # fmt: skip

    assert of_the_job(own, lanes, "n1", 1) == {
        "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "2,3", "SLURM_JOB_GPUS": "2,3", "SLURM_JOB_ID": "7",
        "SLURM_NODEID": "1", "SLURMD_NODENAME": "n1", "SLURM_CONF": "/etc/slurm.conf",
    }  # fmt: skip


def test_where_there_is_no_slurm_nothing_is_said_of_it() -> None:
    assert of_the_job({"PATH": "/bin"}, {}, "n1", 1) == {"PATH": "/bin"}
