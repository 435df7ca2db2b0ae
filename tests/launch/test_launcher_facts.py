"""What launchers do by themselves, which Interlace has to know; with the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlace.launch import applied, build_launch
from interlace.schema import Arm
from interlace.settings import RanksConfig, SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clean_env")]

TELL = """
import os
os.write(1, f"{os.environ.get('WORLD_SIZE')} {os.environ.get('OMP_NUM_THREADS')}\\n".encode())
"""
"""One write a line: the ranks share a pipe, and where Python does not buffer, print() writes word by word."""

MEET = """
import os
import torch.distributed as dist
dist.init_process_group("gloo")
os.write(1, f"met {dist.get_rank()}\\n".encode())
dist.destroy_process_group()
os._exit(0)
"""
ACCELERATE = (sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


def by_itself(tmp_path: Path, *launcher: str) -> list[str]:
    """Start a launcher without Interlace, no configuration of the user's in sight; what its ranks printed."""
    (tmp_path / "program.py").write_text(TELL)
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [*launcher, str(tmp_path / "program.py")],
        env={**kept, "HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.parametrize("flags", [(), ("--cpu",)], ids=["no flag", "--cpu"])
def test_accelerate_asked_for_two_processes_without_gpus_starts_one_and_says_nothing(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Why a run's world size is compared with the one asked for; `--multi_gpu` is what Interlace gives."""
    assert by_itself(tmp_path, *ACCELERATE, *flags, "--num_processes=2") == ["None 1"]


@pytest.mark.parametrize(
    "launcher",
    [
        (*ACCELERATE, "--multi_gpu", "--num_processes=2", "--main_process_port=0"),
        (*TORCHRUN, "--standalone", "--nproc-per-node=2"),
    ],
    ids=["accelerate", "torchrun"],
)
def test_launchers_set_one_thread_a_rank_where_nothing_is_set(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """Why Interlace sets OMP_NUM_THREADS itself and writes down who decided it."""
    assert by_itself(tmp_path, *launcher) == ["2 1", "2 1"]


def test_a_port_of_zero_which_makes_torchrun_hang_does_no_harm_under_interlace(tmp_path: Path) -> None:
    """Alone, its ranks are told port 0 and wait for each other for ever; --standalone has a port of its own."""
    (tmp_path / "program.py").write_text(MEET)
    run_dir = tmp_path / "sweep" / "runs" / "000-r1-a"
    (run_dir / "ranks").mkdir(parents=True)
    workload = WorkloadConfig("w", command=f"python {tmp_path}/program.py")
    config = SweepConfig("s", workload, RanksConfig("torchrun", 2, args=["--master-port=0"]))
    launch = build_launch(Arm("a", "a", (), config), run_dir, None, os.environ)

    done = subprocess.run(
        launch.argv, env=applied(os.environ, launch.env), capture_output=True, text=True, check=True, timeout=120
    )

    assert sorted(done.stdout.splitlines()) == ["met 0", "met 1"]
