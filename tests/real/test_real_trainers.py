"""lerobot, fairchem and OpenTau themselves, from environments of gigabytes that CI does not have.

REAL_LEROBOT, REAL_FAIRCHEM and REAL_OPENTAU each name a folder with `env` (its bin/python has the dependencies),
`data` (the data set; docs/trainers.md says how it is made) and `repo` (a clone). OpenTau's data is made by the test.
HEAD is measured against itself.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import interlace

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.usefixtures("clean_env")]


def folder_of(variable: str) -> Path:
    folder = os.environ.get(variable)
    if folder is None:
        pytest.skip(f"{variable} names no folder with env, data and repo: the real trainer is not installed here")
    return Path(folder)


def measured(tmp_path: Path, folder: Path, workload: str, data: str, *more: str) -> list[dict[str, Any]]:
    """Measure HEAD against itself for one round; the records of both runs. `data` is a setting of the workload."""
    ended = interlace(
        "sweep", f"workload={workload}", f"workload.python={folder}/env/bin/python", f"workload.{data}",
        f"source.repo={folder}/repo", f"source.cache_dir={tmp_path}/trees", "gate=warn", "rounds=1", "burn_in=false",
        "commit=HEAD", "env.COPY='a','b'", *more, cwd=tmp_path, timeout_s=1800.0,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (sweep,) = (tmp_path / "outputs" / workload).iterdir()
    runs = [json.loads(path.read_text()) for path in sorted(sweep.glob("runs/*/record.json"))]
    assert [(run["status"], run["world_size_found"]) for run in runs] == [("ok", 2)] * 2
    return runs


def test_lerobot_is_measured_unmodified(tmp_path: Path) -> None:
    folder = folder_of("REAL_LEROBOT")

    runs = measured(
        tmp_path, folder, "lerobot_act_cpu", f"dataset_root={folder}/data", "workload.steps=24", "measure.window=[5,24]"
    )  # fmt: skip

    assert [(run["reader"], run["steps_seen"]) for run in runs] == [("lerobot", 24)] * 2


def test_fairchem_is_measured_unmodified(tmp_path: Path) -> None:
    folder = folder_of("REAL_FAIRCHEM")

    runs = measured(
        tmp_path, folder, "fairchem_uma_cpu", f"data_root={folder}/data", "workload.steps=4", "measure.window=[2,4]"
    )  # fmt: skip

    assert [(run["reader"], run["steps_seen"]) for run in runs] == [("fairchem_results", 4)] * 2


PHASES = ("dataload_wait", "forward", "bwd", "unscale_clip", "optim_step", "zero_grad_sched", "sync_gather")


def test_opentau_is_measured_unmodified(tmp_path: Path) -> None:
    folder = folder_of("REAL_OPENTAU")
    maker = Path(__file__).parents[2] / "src" / "interlace" / "workloads" / "opentau_small.py"
    subprocess.run(
        [folder / "env" / "bin" / "python", maker, tmp_path / "data"],
        cwd=folder / "repo", env={**os.environ, "PYTHONPATH": "src"}, check=True,
    )  # fmt: skip

    runs = measured(
        tmp_path, folder, "opentau_profile_cpu", f"config_path={tmp_path}/data/config.json", "workload.steps=30",
        "measure.window=[30,30]", "workload.env.PROFILE_STEPS='10'",
    )  # fmt: skip

    assert [(run["reader"], run["steps"]["first"], run["steps"]["last"]) for run in runs] == [("opentau", 30, 30)] * 2
    (sweep,) = (tmp_path / "outputs" / "opentau_profile_cpu").iterdir()
    with (sweep / "tables" / "phases.csv").open() as stream:
        told = {row["phase"]: float(row["mean_s"]) for row in csv.DictReader(stream) if row["arm"] == "COPY=a"}
    assert told.keys() == {*PHASES, "rest"}
    assert told["rest"] < 0.02 * sum(told.values())


def test_opentau_refuses_torchrun_and_the_run_says_why(tmp_path: Path) -> None:
    folder = folder_of("REAL_OPENTAU")

    ended = interlace(
        "sweep", "workload=opentau_profile_cpu", f"workload.python={folder}/env/bin/python", "launchers=torchrun",
        "workload.config_path=never-read.json", f"source.repo={folder}/repo",
        f"source.cache_dir={tmp_path}/trees", "gate=warn", "rounds=1", "burn_in=false",
        "commit=HEAD", "env.COPY='a','b'", cwd=tmp_path, timeout_s=600.0,
    )  # fmt: skip

    assert ended.returncode == 1
    assert "This script should be launched with accelerate" in ended.stdout + ended.stderr
