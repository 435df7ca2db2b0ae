"""What a run costs under Interlace, beside the bare `accelerate launch` of the same command, in turn.

    python benchmarks/overhead.py [PAIRS]

Prints, per run: wall time and CPU time (of the whole process tree), bare and under Interlace, and what Interlace
itself recorded of its own cost. Start-up of the orchestrator (Hydra, pandas) comes once per sweep and is shown apart.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {"batch_size": 4, "width": 32, "layers": 12, "fused": False}
STEPS = 300


def timed(argv: list[str], env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    subprocess.run(argv, env=env, cwd=cwd, check=True, capture_output=True)
    wall_s = time.monotonic() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bare(folder: Path) -> tuple[float, float]:
    """Run what a user would type: the same launcher, command and environment, without Interlace."""
    config = folder / "config.json"
    config.write_text(json.dumps({"workload": {"steps": STEPS, "settings": SETTINGS}}))
    steps = folder / f"steps-{time.monotonic_ns()}"
    steps.mkdir()
    env = {
        **os.environ,
        "INTERLACE_CONFIG": str(config),
        "INTERLACE_STEP_DIR": str(steps),
        "OMP_NUM_THREADS": "1",
    }
    launcher = str(Path(sys.executable).parent / "accelerate")
    argv = [launcher, "launch", "--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no"]
    argv += ["--dynamo_backend=no", "--main_process_port=0", "--no_python"]
    return timed([*argv, sys.executable, "-P", "-m", "interlace.workloads.quickstart"], env, folder)


def measured(folder: Path, rounds: int) -> tuple[float, float, list[dict[str, float]]]:
    """Run one sweep of two arms; its wall and CPU seconds, and the records of its runs."""
    name = f"s{time.monotonic_ns()}"
    argv = [sys.executable, "-m", "interlace", "aa", f"name={name}", f"rounds={rounds}", "burn_in=false", "gate=off"]
    wall_s, cpu_s = timed(argv, dict(os.environ), folder)
    (report,) = (folder / "outputs" / name).glob("*/report.json")
    return wall_s, cpu_s, json.loads(report.read_text())["runs"]


def main() -> None:
    """Measure in turn and print the table."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare(folder)  # warms the page cache
        one = measured(folder, 1)
        bares, sweeps = [], []
        for _ in range(pairs):
            bares.append(bare(folder))
            sweeps.append(measured(folder, 1))
            bares.append(bare(folder))
    records = [record for _, _, runs in sweeps for record in runs]
    runs = len(records)
    bare_wall, bare_cpu = (statistics.median(values) for values in zip(*bares, strict=True))
    wall = statistics.median(record["wall_s"] for record in records)
    own_wall = statistics.median(record["own_wall_s"] for record in records)
    own_cpu = statistics.median(record["own_cpu_s"] for record in records)
    total_cpu = statistics.median(cpu / len(found) for _, cpu, found in sweeps)
    print(f"{len(bares)} bare launches, {runs} runs under Interlace, alternating; medians")
    print(f"{'':34}{'bare':>9}{'Interlace':>11}{'ratio':>8}")
    print(f"{'wall of the launch, s':34}{bare_wall:9.2f}{wall:11.2f}{wall / bare_wall:8.3f}")
    print(f"{'wall with all of Interlace, s':34}{bare_wall:9.2f}{wall + own_wall:11.2f}"
          f"{(wall + own_wall) / bare_wall:8.3f}")  # fmt: skip
    print(f"{'CPU of the tree, per run, s':34}{bare_cpu:9.2f}{total_cpu:11.2f}{total_cpu / bare_cpu:8.3f}")
    print(f"Interlace's own cost per run: {own_cpu:.3f} s CPU, {own_wall:.3f} s wall outside launch and gate")
    start_s = one[0] - sum(record["wall_s"] + record["own_wall_s"] for record in one[2])
    print(f"once per sweep (start, composing, report): {start_s:.2f} s wall")


if __name__ == "__main__":
    main()
