"""The ACT job under Interlace, for real: two CPU ranks over gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import interlace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]

ROOT = Path(__file__).parents[3]
SHORT = ("workload.steps=24", "measure.window=[5,24]", "stats.block=5", "rounds=1", "burn_in=false", "gate=off")


def only_sweep(tmp_path: Path, name: str) -> Path:
    (folder,) = (tmp_path / "outputs" / name).iterdir()
    return folder


def test_switches_are_measured_and_profiled_and_leave_what_is_trained_as_it_was(tmp_path: Path) -> None:
    sets = [
        ["workload.optimizer.fused=true"],
        ["workload.ddp.broadcast_buffers=false", "workload.losses=device", "workload.ddp.bucket_cap_mb=1024"],
        ["workload.ddp.average=bucket", "workload.ddp.gradient_as_bucket_view=true", "workload.data.workers=1",
         "workload.profile.first=12"],
    ]  # fmt: skip
    arms = ",".join(f"{{name: arm{i}, set: {json.dumps(one)}}}" for i, one in enumerate(sets))
    ended = interlace(
        "sweep", "workload=act_small", "workload.model.dropout=0.0", *SHORT, "cumulative=true",
        f"arms=[{{name: baseline}},{arms}]".replace('"', "'"), cwd=tmp_path, timeout_s=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sweep = only_sweep(tmp_path, "act_small")

    table = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "act_numerics.py", sweep],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip

    rows = [line.split("|") for line in table.splitlines() if line.startswith("| arm")]
    assert [row[1].strip() for row in rows] == ["arm0", "arm1", "arm2"] * 2
    assert all(float(row[-2].strip().removesuffix(" %")) < 0.1 for row in rows), table
    report = json.loads((sweep / "report.json").read_text())
    assert set(report["arms"][0]["phases_s"]) == {"data", "forward", "backward", "optimizer", "read back", "rest"}
    assert "Where the host spends a step" in (sweep / "report.md").read_text()
    assert [trace.name for trace in sweep.glob("runs/*/traces/*")] == ["rank-0.json.gz"]


def test_a_switch_that_cannot_be_used_fails_its_run_and_says_what_can(tmp_path: Path) -> None:
    ended = interlace(
        "sweep", "workload=act_small", *SHORT, "workload.compile.mode=none,reduce-overhead", cwd=tmp_path, timeout_s=300
    )

    assert ended.returncode == 1
    assert "give compile.mode=default or none" in ended.stdout
