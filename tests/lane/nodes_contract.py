"""What every node of a lane must do, whether this process is on it or an agent is."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from interlace import process
from interlace.lane.nodes.node import NODE_VARIABLE, RunSpec
from interlace.settings import GateConfig, MonitorConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interlace.lane.nodes.node import Node
    from interlace.settings import Environment

RANK = """
import json, os, sys, time
folder = os.environ["INTERLACE_RUN_DIR"]
seen = {"rank": 0, "pid": os.getpid(), "node": os.environ["INTERLACE_NODE"], "mark": os.environ["MARK"]}
with open(f"{folder}/ranks/.tmp", "w") as stream:
    json.dump(seen, stream)
os.replace(f"{folder}/ranks/.tmp", f"{folder}/ranks/rank-0.json")
print("here", flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that another process does; minutes, because machines are shared."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, f"waited two minutes for {what}"
        time.sleep(0.02)


class NodeContract:
    """Subclasses have a fixture `node`, whose name is n1."""

    def spec(self, run_dir: Path, *argv: str) -> RunSpec:
        (run_dir / "ranks").mkdir(parents=True, exist_ok=True)
        env: Environment = {process.MARKER: str(run_dir), NODE_VARIABLE: "n1", "MARK": "it's $x"}
        monitor = MonitorConfig(interval_s=0.05)
        return RunSpec(str(run_dir), str(run_dir / "out"), argv, env, str(run_dir), monitor, [1, 5])

    def rank(self, run_dir: Path, seconds: float, code: int = 0) -> RunSpec:
        return self.spec(run_dir, sys.executable, "-c", RANK, str(seconds), str(code))

    def test_it_starts_the_program_in_its_environment_and_tells_how_it_ended(self, node: Node, tmp_path: Path) -> None:
        begun = node.start(self.rank(tmp_path, 0.0, 3))()
        until(lambda: node.returncode() is not None, "the program to end")
        ended = node.end()()

        assert begun.pid is not None
        assert (node.returncode(), ended.returncode) == (3, 3)
        assert (tmp_path / "out" / "stdout.log").read_text() == "here\n"
        assert json.loads((tmp_path / "ranks" / "rank-0.json").read_text())["mark"] == "it's $x"

    def test_its_ranks_are_read_back_while_they_run_and_those_of_other_nodes_are_not(
        self, node: Node, tmp_path: Path
    ) -> None:
        node.start(self.rank(tmp_path, 60.0))()
        until((tmp_path / "ranks" / "rank-0.json").exists, "the rank")
        (tmp_path / "ranks" / "rank-1.json").write_text(json.dumps({"rank": 1, "pid": 1, "node": "n2"}))
        node.look(1)

        ended = node.end()()

        assert [rank["rank"] for rank in ended.placements] == [0]
        assert ended.placements[0]["running"]["pid"] == ended.placements[0]["pid"]

    def test_nothing_of_a_run_that_is_ended_stays(self, node: Node, tmp_path: Path) -> None:
        node.start(self.rank(tmp_path, 60.0))()
        until((tmp_path / "ranks" / "rank-0.json").exists, "the rank")

        ended = node.end()()

        assert ended.returncode == -15
        assert process.members(None, str(tmp_path)) == []

    def test_what_the_monitor_sampled_is_written_when_it_is_asked_for(self, node: Node, tmp_path: Path) -> None:
        node.start(self.rank(tmp_path, 60.0))()
        until((tmp_path / "ranks" / "rank-0.json").exists, "the rank")
        time.sleep(0.2)
        node.end()()
        before = (tmp_path / "out" / "monitor.parquet").exists()
        node.keep()()

        assert not before
        assert len(pd.read_parquet(tmp_path / "out" / "monitor.parquet")) >= 2

    def test_samples_that_cannot_be_written_are_an_error_of_the_disk(self, node: Node, tmp_path: Path) -> None:
        node.start(self.rank(tmp_path, 0.0))()
        node.end()()
        shutil.rmtree(tmp_path / "out")

        with pytest.raises(OSError, match="No such file"):
            node.keep()()

    def test_a_program_that_cannot_be_started_is_told_and_the_node_goes_on(self, node: Node, tmp_path: Path) -> None:
        refused = node.start(self.spec(tmp_path, "/nonexistent/program"))()
        node.end()()
        again = node.start(self.rank(tmp_path, 0.0))()
        node.end()()

        assert refused.pid is None
        assert "cannot start '/nonexistent/program'" in str(refused.cannot_start)
        assert again.pid is not None

    def test_what_a_dead_orchestrator_left_is_ended_and_counted(self, node: Node, tmp_path: Path) -> None:
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        run_dir = tmp_path / "runs" / "000-r1-a"
        run_dir.mkdir(parents=True)
        left = process.start(argv, {process.MARKER: str(run_dir)}, tmp_path, tmp_path / "o", tmp_path / "e")
        until(lambda: process.members(None, str(run_dir)) != [], "the kernel to show its environment")

        counted = node.end_left(f"{tmp_path}/runs/")()

        assert counted == {str(run_dir): 1}
        assert process.reap(left) == -15

    def test_its_gate_brings_evidence(self, node: Node) -> None:
        found = node.gate(GateConfig("fail", cpu_busy_pct=100.0), lambda _reasons, _waited_s: None)()

        assert found.ok
        assert found.evidence is not None
        assert found.evidence.cpu_busy_pct is not None

    def test_it_describes_its_machine(self, node: Node) -> None:
        assert node.fingerprint()().python_executable == sys.executable
