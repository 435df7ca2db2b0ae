"""How loading and analysing grows with the number of runs: 8 ranks x 300 steps each, time and peak memory.

    python benchmarks/analyse.py [RUNS ...]        (default: 100 1000 3000)

Each size is analysed in a process of its own. The last column is time per run beside that of the smallest size: it
stays near 1 while the growth is linear.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from interlace.files import SweepDir, write_json
from interlace.plan import make_plan
from interlace.records import write_record
from interlace.schema import Arm, RunRecord, Sweep
from interlace.settings import MeasureConfig, RanksConfig, SweepConfig, WorkloadConfig
from interlace.stats import summarise
from interlace.sweepfile import write_sweep

RANKS = 8
STEPS = 300
ARMS = 10

CHILD = """
import json, resource, sys, time
began = time.perf_counter()
import interlace
loaded = interlace.load(sys.argv[1])
arms = len(loaded.analysis.arms)
seconds = time.perf_counter() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, arms]))
"""


def write_runs(folder: Path, runs: int) -> None:
    """Write a finished sweep of ten arms."""
    config = SweepConfig(
        "s", WorkloadConfig("w", command="x"), RanksConfig("plain"), rounds=runs // ARMS, burn_in=False,
        measure=MeasureConfig(window=[51, 300]),
    )  # fmt: skip
    sweep = Sweep("s", tuple(Arm(f"arm{k}", f"arm{k}", (), config) for k in range(ARMS)), "arm0", config)
    plan = make_plan(sweep)
    sweep_dir = SweepDir(folder)
    write_sweep(sweep_dir, sweep, plan, "benchmark")
    write_json(sweep_dir.plan, plan)
    random = np.random.default_rng(0)
    for run in plan.runs:
        path = sweep_dir.run(run.id, 1)
        path.mkdir(parents=True)
        step_s = 0.02 * np.exp(0.002 * random.standard_normal() + 0.03 * random.standard_normal((RANKS, STEPS)))
        frame = pd.DataFrame(
            {
                "step": np.tile(np.arange(1, STEPS + 1), RANKS),
                "rank": np.repeat(np.arange(RANKS), STEPS),
                "step_s": step_s.ravel(),
                "end_s": step_s.cumsum(axis=1).ravel(),
            }
        )
        frame.to_parquet(path / "steps.parquet", index=False)
        write_record(path, RunRecord(run, 1, "ok", float(run.index), 10.0, 0, steps=summarise(frame, [51, 300])))


def main() -> None:
    """Write, analyse and print, size by size."""
    sizes = [int(text) for text in sys.argv[1:]] or [100, 1000, 3000]
    print(f"{'runs':>6}{'seconds':>10}{'peak MiB':>10}{'ms per run':>12}{'vs smallest':>13}")
    first: float | None = None
    for runs in sizes:
        with tempfile.TemporaryDirectory() as name:
            write_runs(Path(name), runs)
            ended = subprocess.run([sys.executable, "-c", CHILD, name], capture_output=True, text=True, check=True)
        seconds, peak_mib, _ = json.loads(ended.stdout)
        each_ms = 1000.0 * seconds / runs
        first = first or each_ms
        print(f"{runs:6d}{seconds:10.2f}{peak_mib:10.0f}{each_ms:12.2f}{each_ms / first:13.2f}")


if __name__ == "__main__":
    main()
