"""A user of the cluster in the tests: a shell on the login node, and what lies in the folder of a sweep."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.slurm.cluster import SlurmCluster

TRAINER = """
import sys, time
from interlace.recorder import StepRecorder
with StepRecorder() as recorder:
    for _ in range(10):
        time.sleep(float(sys.argv[1]))
        recorder.step()
"""


class User:
    """A shell on the login node, in a folder of its own."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "train.py").write_text(TRAINER)

    def interlace(self, *arguments: str, timeout_s: float = 180.0) -> subprocess.CompletedProcess[str]:
        return self.under((), arguments, timeout_s)

    def sweep(self, *arguments: str, step_s: str = "0.02,0.03") -> subprocess.CompletedProcess[str]:
        submitted = ("launchers=slurm", "launchers.poll_s=0.5", "launchers.timeout_min=10")
        return self.interlace(*self.sweep_here(*submitted, *arguments, step_s=step_s))

    def sweep_here(self, *arguments: str, step_s: str = "0.02,0.03") -> list[str]:
        """Return the arguments of a sweep of two arms, on whatever machine they are given to interlace."""
        commands = ",".join(f"'python {self.folder}/train.py {one}'" for one in step_s.split(","))
        return [
            "sweep", "launchers@ranks=plain", "workload=command", f"workload.command={commands}", "workload.steps=10",
            "measure.window=[2,10]", "gate=off", *arguments,
        ]  # fmt: skip

    def under(
        self, starter: Sequence[str], arguments: Sequence[str], timeout_s: float = 180.0
    ) -> subprocess.CompletedProcess[str]:
        """Start interlace by a program of Slurm: salloc, or srun."""
        return subprocess.run(
            [*starter, sys.executable, "-m", "interlace", *arguments], cwd=self.folder, env=self.cluster.env,
            capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def path(self) -> Path:
        (found,) = (self.folder / "outputs" / "command").iterdir()
        return found

    def lane(self, number: int = 0) -> Path:
        return self.path / "lanes" / str(number)

    def sessions(self, number: int = 0) -> list[dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in (self.lane(number) / "sessions").glob("*.json")]
        return sorted(found, key=lambda one: one["started_at"])

    def until(self, done: Callable[[], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, "it did not come to that in time"
            time.sleep(0.1)


def records(lane: Path) -> int:
    """Count the records of a lane."""
    return len(list(lane.glob("runs/*/record.json")))


def nodes_by_round(lane: Path) -> dict[int, set[str]]:
    """Return round -> the nodes on which its good runs were measured."""
    nodes: dict[int, set[str]] = {}
    for path in lane.glob("runs/*/record.json"):
        record = json.loads(path.read_text())
        if record["status"] == "ok":
            nodes.setdefault(record["run"]["round"], set()).add(record["node"])
    return nodes
