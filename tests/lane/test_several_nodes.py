"""A lane of two nodes, whole: the second is an agent on this machine, started as a plain subprocess and not by srun."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import psutil
import pytest

from interlace import process
from interlace.errors import NodeLostError
from interlace.history import machine_key
from interlace.lane import runner, watch
from interlace.lane.lane import Silent
from interlace.lane.loop import close_cut_runs, execute
from interlace.lane.nodes import together
from interlace.lane.nodes.remote import AgentCommand, agents
from interlace.loaded import load
from interlace.records import attempts, remaining
from interlace.settings import GateConfig, MeasureConfig, RanksConfig
from interlace.slurm.nodelist import expand
from interlace.slurm.steps import AGENT
from tests.lane.nodes_contract import until
from tests.lane.test_loop import config, lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interlace.lane.lane import Lane
    from interlace.schema import Plan, RunRecord
    from interlace.settings import SweepConfig

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]

TRAINER = """
import os, sys, time
from interlace.recorder import StepRecorder
rank = int(os.environ["RANK"])
with StepRecorder() as recorder:
    for _ in range(5):
        time.sleep(float(sys.argv[1 + rank]))
        recorder.step()
"""
FAILS_ON_1 = """
import os, time
if os.environ["RANK"] == "1":
    raise SystemExit("no data on this node")
time.sleep(120)
"""
STAYS = """
import sys, time
from interlace.recorder import StepRecorder
recorder = StepRecorder()
for _ in range(int(sys.argv[1])):
    recorder.step()
recorder.flush()
time.sleep(120)
"""
LONG_GRACE = MeasureConfig(window=[2, 5], timeout_s=60.0, stall_s=60.0, grace_s=2.0)
"""A run that stays after its last step is ended after this; the nodes have so long to read their ranks back."""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.05)
    monkeypatch.setattr(together, "FAILED_GRACE_S", 0.2)
    monkeypatch.setattr(runner, "CANCELLED_S", 0.0)


@contextmanager
def two_nodes(tmp_path: Path, *arms: tuple[str, SweepConfig], **environ: str) -> Iterator[tuple[Lane, Plan]]:
    """Hold a lane of this machine and an agent of the name n1; `environ` is on top of the agent's."""
    held, plan = lane(tmp_path, *arms)
    command = AgentCommand("n1", (sys.executable, *AGENT), {**os.environ, **environ})
    with agents([command], os.environ, ["auto"], held.sweep_dir.nodes) as others:
        yield replace(held, others=others), plan


def written(tmp_path: Path, text: str, *words: str) -> str:
    (tmp_path / "train.py").write_text(text)
    return " ".join([f"python {tmp_path}/train.py", *words])


def measured(tmp_path: Path, command: str, **more: object) -> RunRecord:
    with two_nodes(tmp_path, ("a", config(command, **more))) as (held, plan):
        (record,) = execute(held, plan)
    return record


def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "sweep" / "runs" / "000-r1-a"


def test_ranks_of_both_nodes_are_one_run_and_the_slowest_of_all_is_the_step(tmp_path: Path) -> None:
    record = measured(tmp_path, written(tmp_path, TRAINER, "0.01", "0.08"))

    assert (record.status, record.world_size_asked, record.world_size_found) == ("ok", 2, 2), record.cause
    assert record.steps is not None
    assert record.steps.median_s >= 0.08
    steps = pd.read_parquet(run_dir(tmp_path) / "steps.parquet")
    assert sorted(steps["rank"].unique()) == [0, 1]
    assert record.node is not None
    assert len(expand(record.node)) == 2
    assert "n1" in expand(record.node)


@pytest.mark.slow
def test_every_node_keeps_its_output_and_samples_and_ranks_are_read_back_on_each(tmp_path: Path) -> None:
    measured(tmp_path, written(tmp_path, STAYS, "5"), measure=LONG_GRACE)

    folder = run_dir(tmp_path)
    assert {path.name for path in (folder / "nodes" / "n1").iterdir()} == {
        "stdout.log", "stderr.log", "monitor.parquet",
    }  # fmt: skip
    assert (folder / "monitor.parquet").is_file()
    first, second = json.loads((folder / "placement.json").read_text())
    assert [(one["rank"], one["local_rank"], one["world_size"]) for one in (first, second)] == [(0, 0, 2), (1, 0, 2)]
    assert second["node"] == "n1"
    assert first["node"] != "n1"
    assert first["running"]["pid"] == first["pid"]
    assert second["running"]["pid"] == second["pid"]
    told = load(tmp_path / "sweep").analysis.placements
    assert sorted((one.node == "n1", one.ranks) for one in told) == [(False, (0,)), (True, (1,))]


def test_a_failure_on_one_node_names_it_and_ends_the_others(tmp_path: Path) -> None:
    record = measured(tmp_path, written(tmp_path, FAILS_ON_1))

    assert (record.status, record.returncode) == ("failed", 1)
    assert record.cause is not None
    assert record.cause.message == "on n1: exit code 1: no data on this node (0 steps seen)"
    (told,) = load(tmp_path / "sweep").analysis.troubles
    assert told.log == "see runs/000-r1-a/nodes/n1/stderr.log"
    assert process.members(None, str(run_dir(tmp_path))) == []


def test_a_program_that_no_node_can_start_is_a_failed_run(tmp_path: Path) -> None:
    record = measured(tmp_path, "/nonexistent/binary", ranks=RanksConfig("plain", 0))

    assert (record.status, record.returncode) == ("failed", None)
    assert record.cause is not None
    assert "cannot start '/nonexistent/binary'" in record.cause.message


@pytest.mark.slow
def test_a_run_that_stalls_is_ended_on_both_nodes(tmp_path: Path) -> None:
    limits = MeasureConfig(window=[2, 5], timeout_s=60.0, stall_s=0.5)
    record = measured(tmp_path, written(tmp_path, STAYS, "3"), measure=limits)

    assert record.status == "stalled"
    assert process.members(None, str(run_dir(tmp_path))) == []


class When(Silent):
    """An observer that does something once, when steps are seen."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def progress(self, steps_seen: int, elapsed_s: float) -> None:
        del elapsed_s
        if steps_seen and self._act is not None:
            act, self._act = self._act, None
            act()


def test_a_node_that_is_lost_fails_the_run_by_name_and_ends_the_lane_which_can_be_resumed(tmp_path: Path) -> None:
    with two_nodes(tmp_path, ("a", config(written(tmp_path, STAYS, "3")))) as (held, plan):
        agent = psutil.Process(held.others[0]._agent.pid)
        with pytest.raises(NodeLostError, match=r"node n1 is lost: .*000-r1-a failed by it.*resume goes on"):
            execute(replace(held, observer=When(agent.kill)), plan)

    (attempt,) = attempts(held.sweep_dir, plan.runs[0])
    assert attempt.record is not None
    assert (attempt.record.status, attempt.record.node) == ("failed", held.node)
    assert attempt.record.cause is not None
    assert attempt.record.cause.code == "node_lost"
    assert "node n1 is lost" in attempt.record.cause.message
    assert remaining(held.sweep_dir, plan) == list(plan.runs)
    assert process.members(None, str(held.sweep_dir.runs) + "/") == []


def test_ctrl_c_ends_the_run_on_both_nodes_and_records_it(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with two_nodes(tmp_path, ("a", config(written(tmp_path, STAYS, "3")))) as (held, plan):
        with pytest.raises(KeyboardInterrupt):
            execute(replace(held, observer=When(interrupt)), plan)
        (attempt,) = attempts(held.sweep_dir, plan.runs[0])

        assert attempt.record is not None
        assert attempt.record.status == "interrupted"
        assert process.members(None, str(run_dir(tmp_path))) == []


def test_ranks_that_a_killed_lane_left_on_another_node_are_ended_by_the_next(tmp_path: Path) -> None:
    with two_nodes(tmp_path, ("a", config(written(tmp_path, STAYS, "3")))) as (held, plan):
        run = held.sweep_dir.run(plan.runs[0].id, 1)
        run.mkdir(parents=True)
        argv = [sys.executable, "-c", "import time; time.sleep(120)"]
        left = process.start(argv, {process.MARKER: str(run)}, tmp_path, tmp_path / "o", tmp_path / "e")
        until(lambda: process.members(None, str(run)) != [], "the kernel to show its environment")

        (cut,) = close_cut_runs(held.sweep_dir, plan, held.others)

        assert process.reap(left) == -15
        assert cut.cause is not None
        assert cut.cause.code == "cut"


def path_with_smi(folder: Path, used_mib: int) -> str:
    """Write a stand-in nvidia-smi with one GPU; return a PATH on which it is found."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"""#!/bin/sh
case "$1" in
  --query-gpu=driver_version*) echo 550.54.15;;
  --query-gpu=index*)
    echo "index, uuid, pci.bus_id, name, memory.total [MiB], mig.mode.current"
    echo "0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 143771 MiB, Disabled";;
  --query-gpu=*)
    echo "uuid, memory.used [MiB], utilization.gpu [%], clocks.current.sm [MHz], temperature.gpu, power.draw [W]," \\
      "clocks_event_reasons.active"
    echo "GPU-1, {used_mib} MiB, 0 %, 1980 MHz, 41, 112.50 W, 0x0000000000000001";;
  *) echo "gpu_uuid, pid, used_gpu_memory [MiB], process_name";;
esac
""")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("used_mib", [3, 5000])
def test_gpus_and_the_gate_are_those_of_every_node_and_are_named(tmp_path: Path, used_mib: int) -> None:
    gate = GateConfig("fail", cpu_busy_pct=100.0)
    arm = config(written(tmp_path, TRAINER, "0.01", "0.01"), gate=gate)
    with two_nodes(tmp_path, ("a", arm), PATH=path_with_smi(tmp_path / "bin", used_mib)) as (held, plan):
        (record,) = execute(held, plan)

    seen = json.loads((run_dir(tmp_path) / "gate.json").read_text())
    assert [len(one["evidence"]["gpus"]) for one in seen["nodes"]] == [0, 1]
    assert seen["nodes"][1]["node"] == "n1"
    if used_mib == 3:
        assert record.status == "ok"
        assert [(gpu.node, gpu.uuid, gpu.baseline_mib) for gpu in record.gpus] == [("n1", "GPU-1", 3.0)]
        ranks = json.loads((run_dir(tmp_path) / "placement.json").read_text())
        assert [(rank["binding"]["gpu"] or {}).get("uuid") for rank in ranks] == [None, "GPU-1"]
    else:
        assert record.status == "disturbed"
        assert record.cause is not None
        assert "n1: GPU 0: 5000 MiB in use" in record.cause.message


def test_two_nodes_are_another_machine_than_one_in_the_history_of_noise(tmp_path: Path) -> None:
    folder = lane(tmp_path, ("a", config("true")))[0].sweep_dir
    folder.node.write_text('{"hostname": "n0"}')
    alone = machine_key(folder)
    folder.nodes.mkdir()
    (folder.nodes / "n1.json").write_text('{"hostname": "n1"}')
    both = machine_key(folder)
    folder.node.write_text('{"hostname": "n1"}')
    (folder.nodes / "n1.json").write_text('{"hostname": "n0"}')

    assert both != alone
    assert machine_key(folder) == both
