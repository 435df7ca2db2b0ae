"""What is decided over several nodes: when all are empty, which of them failed first, whose words are believed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from interlace.gate import GateEvidence, GateResult
from interlace.lane.causes import telling
from interlace.lane.nodes.together import Ranks, through_the_gates
from interlace.lane.runlog import find_steps, see_anew
from interlace.settings import GateConfig, MeasureConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from interlace.lane.nodes.node import Node

EMPTY = GateResult(ok=True, waited_s=0.1, evidence=GateEvidence(0.0))
WAITED = replace(EMPTY, waited_s=9.0)
BUSY = replace(EMPTY, ok=False, waited_s=9.0, reasons=("GPU 0: 5000 MiB in use",))


@dataclass
class Scripted:
    """A node that answers from scripts; the last entry stays."""

    name: str
    gates: list[GateResult] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)
    asked: int = 0

    @property
    def label(self) -> str:
        return self.name

    def gate(self, _config: GateConfig, _on_wait: Callable[[Sequence[str], float], None]) -> Callable[[], GateResult]:
        self.asked += 1
        return lambda: self.gates.pop(0) if len(self.gates) > 1 else self.gates[0]

    def wait(self, _timeout_s: float) -> None:
        pass

    def returncode(self) -> int | None:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]


def gates_of(*nodes: Scripted, action: str = "wait") -> tuple[bool, tuple[str, ...]]:
    config = GateConfig(action)  # type: ignore[arg-type]
    found = through_the_gates(cast("list[Node]", list(nodes)), config, lambda _reasons, _waited_s: None)
    return found.ok, found.reasons


def test_nodes_that_are_all_empty_are_looked_at_once() -> None:
    one, two = Scripted("n0", [EMPTY]), Scripted("n1", [EMPTY])

    assert gates_of(one, two) == (True, ())
    assert (one.asked, two.asked) == (1, 1)


def test_a_node_that_passed_is_looked_at_again_where_another_one_had_to_wait() -> None:
    one, two = Scripted("n0", [EMPTY]), Scripted("n1", [WAITED, EMPTY])

    assert gates_of(one, two) == (True, ())
    assert (one.asked, two.asked) == (2, 2)


def test_one_busy_node_keeps_all_from_starting_and_is_named() -> None:
    assert gates_of(Scripted("n0", [EMPTY]), Scripted("n1", [BUSY])) == (False, ("n1: GPU 0: 5000 MiB in use",))


def test_a_gate_that_only_warns_does_not_look_again() -> None:
    one, two = Scripted("n0", [EMPTY]), Scripted("n1", [WAITED])

    assert gates_of(one, two, action="warn") == (True, ())
    assert one.asked == 1


def test_a_run_is_over_when_every_node_has_ended() -> None:
    ranks = Ranks(cast("list[Node]", [Scripted("n0", codes=[None, 0]), Scripted("n1", codes=[0])]))

    assert [ranks.over(0.0), ranks.over(0.0)] == [False, True]
    assert ranks.codes == {"n1": 0, "n0": 0}


def test_a_run_of_which_one_node_failed_is_over_after_the_others_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlace.lane.nodes.together.FAILED_GRACE_S", -1.0)
    ranks = Ranks(cast("list[Node]", [Scripted("n0", codes=[None]), Scripted("n1", codes=[1])]))

    assert ranks.over(0.0)
    assert ranks.codes == {"n1": 1}


def test_a_node_that_ended_well_ends_nobody_elses_run() -> None:
    ranks = Ranks(cast("list[Node]", [Scripted("n0", codes=[None]), Scripted("n1", codes=[0])]))

    assert [ranks.over(0.0) for _ in range(3)] == [False, False, False]


LOST_PEER = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4711"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, remote process exited: ncclRemoteError"
OWN = "ValueError: batch size must be positive"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
KILLED = """
Root Cause (first observed failure):
  rank      : 2 (local_rank: 0)
  exitcode  : -9 (pid: 4711)
"""


@pytest.mark.parametrize("aftermath", [LOST_PEER, NCCL, "Broken pipe", ""])
@pytest.mark.parametrize("cause", [OWN, OOM, KILLED])
def test_what_ranks_say_that_lost_another_is_no_cause_though_they_ended_first(aftermath: str, cause: str) -> None:
    assert telling([(aftermath, 1), (cause, 1)]) == 1
    assert telling([(cause, 1), (aftermath, 1)]) == 0


def test_of_two_causes_the_first_to_end_tells() -> None:
    assert telling([(OWN, 1), (OWN, 1)]) == 0


def lines(rank: int | None, step_s: float) -> str:
    name = "" if rank is None else f"rank={rank} "
    return "".join(f"{name}step={step} step_s={step_s + step / 1000}\n" for step in range(1, 6))


def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("steps", "ranks", "nodes/n1"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path, tmp_path / "nodes" / "n1"


def test_streams_of_two_nodes_that_name_their_ranks_are_one_log(tmp_path: Path) -> None:
    first, second = folders(tmp_path)
    (first / "stdout.log").write_text(lines(0, 0.1))
    (second / "stdout.log").write_text(lines(1, 0.2))

    log = find_steps(tmp_path, MeasureConfig()).log

    assert log is not None
    assert {rank: len(rows) for rank, rows in log.frame.groupby("rank")} == {0: 5, 1: 5}


def test_a_trainer_that_prints_on_its_last_rank_is_read_on_the_last_node(tmp_path: Path) -> None:
    _, second = folders(tmp_path)
    (second / "stdout.log").write_text(lines(None, 0.2))

    found = find_steps(tmp_path, MeasureConfig())

    assert found.path == second / "stdout.log"
    assert found.log is not None
    assert len(found.log.frame) == 5


def test_streams_that_do_not_name_their_ranks_are_not_added_up(tmp_path: Path) -> None:
    first, second = folders(tmp_path)
    (first / "stdout.log").write_text(lines(None, 0.1))
    (second / "stdout.log").write_text(lines(None, 0.2))

    found = find_steps(tmp_path, MeasureConfig())

    assert found.path == first / "stdout.log"
    assert found.log is not None
    assert len(found.log.frame) == 5


def test_looking_anew_at_a_shared_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    folders(tmp_path)
    (tmp_path / "ranks" / "rank-0.json").write_text(json.dumps({}))

    see_anew(tmp_path)

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "ranks/rank-0.json"
    ]
