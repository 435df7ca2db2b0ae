"""Finished sweeps of two arms whose records are written by hand, so that every spread can be tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.files import SweepDir, write_json
from interlace.loaded import load
from interlace.plan import add_round, make_plan
from interlace.records import write_record
from interlace.schema import Arm, Cause, RunRecord, Sweep
from interlace.settings import AdaptiveConfig, MeasureConfig, RanksConfig, SweepConfig, WorkloadConfig
from interlace.stats import summarise
from interlace.sweepfile import write_sweep

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.loaded import LoadedSweep
    from interlace.schema import Plan

CONFIG = SweepConfig(
    "s", WorkloadConfig("w", command="x"), RanksConfig("plain"), rounds=4, burn_in=False,
    measure=MeasureConfig(window=[1, 20]),
)  # fmt: skip
ADAPTIVE = replace(CONFIG, adaptive=AdaptiveConfig(enabled=True, max_rounds=8, target_pct=1.0))

BROKE = Cause("x", "it broke")


def on_disk(
    folder: Path,
    config: SweepConfig,
    spread: float,
    failed: dict[str, set[int]] | None = None,
    extra: int = 0,
    node: str = "n",
    plan: Plan | None = None,
    cause: Cause = BROKE,
    slower: float = 1.0,
    apart: float = 1.0,
    arms: str = "ab",
    noisy: float = 1.0,
) -> LoadedSweep:
    """Write a finished sweep of arms a and b whose runs differ by `spread`; `failed` maps an arm to its bad rounds.

    All runs are `slower` by that factor, those of b by `apart` as well; the last arm varies `noisy` times as much.
    """
    sweep = Sweep("s", tuple(Arm(name, name, (), config) for name in arms), "a", config)
    plan = plan or make_plan(sweep)
    for _ in range(extra):
        plan = add_round(plan, "wide")
    sweep_dir = SweepDir(folder / "sweep")
    write_sweep(sweep_dir, sweep, plan, "test")
    write_json(sweep_dir.plan, plan)
    write_json(sweep_dir.node, {"hostname": node})
    random = np.random.default_rng(3)
    for run in plan.runs:
        path = sweep_dir.run(run.id, 1)
        path.mkdir(parents=True)
        record = RunRecord(run, 1, "ok", 100.0 + run.index, 5.0, 0)
        if run.round in (failed or {}).get(run.arm, set()):
            write_record(path, replace(record, status="failed", cause=cause))
            continue
        varies = spread * (noisy if run.arm == arms[-1] else 1.0)
        step_s = slower * (apart if run.arm == "b" else 1.0) * 0.1 * float(np.exp(varies * random.standard_normal()))
        times = step_s * (1.0 + 1e-6 * np.arange(1, 21))  # a clock that ticks finely
        frame = pd.DataFrame({"step": range(1, 21), "rank": 0, "step_s": times, "end_s": np.cumsum(times)})
        frame.to_parquet(path / "steps.parquet")
        write_record(path, replace(record, steps=summarise(frame, [1, 20])))
    return load(sweep_dir.path)
