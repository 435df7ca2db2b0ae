"""The embedded quickstart under the real launchers: accelerate and torchrun over gloo, on two CPU ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import interlace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]


TOO_NOISY = 0.15
"""Of a step, half of what the fused optimizer saves: no verdict is the right answer above it."""


def report_of(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return loaded


def only_sweep(tmp_path: Path, name: str) -> Path:
    (folder,) = (tmp_path / "outputs" / name).iterdir()
    return folder


def quickstart_arms(tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], Path, str]:
    """Run the quickstart; its candidate, its copy, its folder and what it printed."""
    tmp_path.mkdir()
    ended = interlace("sweep", cwd=tmp_path, timeout_s=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sweep = only_sweep(tmp_path, "quickstart")
    _, fused, copy = report_of(sweep)["arms"]
    return fused["comparison"], copy["comparison"], sweep, ended.stdout


def test_the_quickstart_needs_nothing_and_tells_the_faster_arm_from_the_copy(tmp_path: Path) -> None:
    # One identical pair in twenty is called different by construction, and another tenant of the machine may have been
    # at work, for minutes: three times in a row is neither.
    for attempt in ("one", "two", "three"):
        fused, copy, sweep, printed = quickstart_arms(tmp_path / attempt)
        if (fused["verdict"], copy["verdict"]) == ("faster", "within noise"):
            break
    if fused["verdict"] == "within noise" and fused["noise_floor"] > TOO_NOISY:
        pytest.skip(f"this machine is too busy for a verdict: noise floor +-{100 * fused['noise_floor']:.0f} %")

    assert fused["verdict"] == "faster", printed
    assert copy["verdict"] == "within noise", printed
    assert "interlace report" in printed
    run = sweep / "runs" / "001-r1-baseline"
    assert [rank["world_size"] for rank in json.loads((run / "placement.json").read_text())] == [2, 2]
    assert json.loads((run / "record.json").read_text())["world_size_found"] == 2


def test_torchrun_starts_the_ranks_as_well(tmp_path: Path) -> None:
    ended = interlace("sweep", "launchers=torchrun", "rounds=1", "burn_in=false", cwd=tmp_path, timeout_s=300)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = [record["world_size_found"] for record in report_of(only_sweep(tmp_path, "quickstart"))["runs"]]
    assert found == [2, 2, 2]


def test_one_process_where_two_were_asked_for_fails_the_run_and_names_the_flag(tmp_path: Path) -> None:
    """A configuration of the user's that starts one process: accelerate does so silently and exits 0."""
    own = tmp_path / "own.yaml"
    own.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nuse_cpu: true\nnum_machines: 1\n"
        "num_processes: 2\nmixed_precision: 'no'\n"
    )

    ended = interlace(
        "sweep", "rounds=1", "burn_in=false", f"ranks.config_file={own}", cwd=tmp_path, timeout_s=300
    )  # fmt: skip

    assert ended.returncode == 1
    causes = [record["cause"]["code"] for record in report_of(only_sweep(tmp_path, "quickstart"))["runs"]]
    assert causes == ["world_size"] * 3
    assert "asked for 2 ranks, found 1" in ended.stdout
    assert "--multi_gpu" in ended.stdout


def test_the_users_default_accelerate_configuration_does_not_leak_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "hf"
    (home / "accelerate").mkdir(parents=True)
    (home / "accelerate" / "default_config.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nmixed_precision: bf16\n"
        "num_processes: 1\nnum_machines: 1\n"
    )
    monkeypatch.setenv("HF_HOME", str(home))

    ended = interlace("sweep", "rounds=1", "burn_in=false", cwd=tmp_path, timeout_s=300)

    assert ended.returncode == 0, ended.stdout
    run = only_sweep(tmp_path, "quickstart") / "runs" / "000-r1-baseline"
    assert json.loads((run / "record.json").read_text())["world_size_found"] == 2


def test_command_sh_repeats_a_run_by_hand(tmp_path: Path) -> None:
    interlace("sweep", "rounds=1", "burn_in=false", cwd=tmp_path, timeout_s=300)
    run = only_sweep(tmp_path, "quickstart") / "runs" / "000-r1-baseline"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    ended = subprocess.run(
        ["bash", str(run / "command.sh")],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("last loss") == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_the_harness_against_itself_gives_a_noise_floor(tmp_path: Path) -> None:
    ended = interlace("aa", "rounds=2", "burn_in=false", cwd=tmp_path, timeout_s=300)

    assert ended.returncode == 0, ended.stdout
    assert "noise floor" in ended.stdout


def test_the_workload_runs_by_itself_as_any_trainer_would(tmp_path: Path) -> None:
    config = {"workload": {"steps": 3, "settings": {"batch_size": 2, "width": 8, "layers": 2, "fused": True}}}
    (tmp_path / "config.json").write_text(json.dumps(config))

    ended = subprocess.run(
        [sys.executable, "-m", "interlace.workloads.quickstart"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
        env={**os.environ, "INTERLACE_CONFIG": str(tmp_path / "config.json"), "INTERLACE_STEP_DIR": str(tmp_path)},
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in Path(tmp_path / "rank-0.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines[1:-1]] == [1, 2, 3]
    assert lines[-1] == {"end": True, "steps": 3}
