"""What the arms of an ACT sweep computed: loss and gradient norm of the first steps, against the baseline's.

    python benchmarks/act_numerics.py outputs/act_ladder/DATE_TIME [STEPS]

Reads the `values/` that the workload leaves in each run; prints a Markdown table for loss and one for gradient norm.
A row's difference is the largest over these steps, ranks and runs, relative to the first run of the baseline; the
baseline's own row says how far its other runs are from that one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

import interlace

if TYPE_CHECKING:
    from interlace.loaded import LoadedSweep

SHOWN = (1, 2, 5, 10, 20)


def values_of(loaded: LoadedSweep, steps: int) -> pd.DataFrame:
    """Return one row a run, rank and step: arm, run, rank, step, loss, l1, kl, grad_norm."""
    runs, sweep = loaded.runs, loaded.sweep_dir.path
    ran_well = runs[runs["status"] == "ok"].sort_values("round", kind="stable")
    frames = []
    for arm, run in zip(ran_well["arm"].astype(str), ran_well["run"].astype(str), strict=True):
        for path in sorted((sweep / "runs" / run / "values").glob("rank-*.jsonl")):
            rows = pd.DataFrame(json.loads(line) for line in path.read_text().splitlines()[:steps])
            frames.append(rows.assign(arm=arm, run=run, rank=int(path.stem.partition("-")[2])))
    if not frames:
        raise SystemExit(f"{sweep}: no run left values/; this script is for sweeps of workload=act")
    return pd.concat(frames, ignore_index=True)


def differences(values: pd.DataFrame, name: str) -> pd.Series[float]:
    """Return for each arm the largest relative difference of `name` to the baseline's first run, in %."""
    first_run = values["run"].iloc[0]
    reference = values[values["run"] == first_run].set_index(["rank", "step"])[name]
    others = values[values["run"] != first_run]
    known = reference.reindex(pd.MultiIndex.from_frame(others[["rank", "step"]])).to_numpy()
    apart_pct = ((others[name] - known) / known).abs() * 100
    largest: pd.Series[float] = apart_pct.groupby(others["arm"], sort=False).max()
    return largest


def table(values: pd.DataFrame, name: str) -> str:
    """Write one Markdown table: rank 0 of each arm's first run at some steps, and the largest difference."""
    steps = [step for step in SHOWN if step <= values["step"].max()]
    lines = [f"| {name} | {' | '.join(f'step {step}' for step in steps)} | largest difference |"]
    lines.append(f"|---|{'---:|' * (len(steps) + 1)}")
    apart = differences(values, name)
    for arm, rows in values[values["rank"] == 0].groupby("arm", sort=False):
        first = rows[rows["run"] == rows["run"].iloc[0]].set_index("step")[name]
        shown = " | ".join(f"{first[step]:.6g}" for step in steps)
        lines.append(f"| {arm} | {shown} | {f'{apart[arm]:.2g} %' if arm in apart else '-'} |")
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    sweep, steps = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    loaded = interlace.load(sweep)
    values = values_of(loaded, steps)
    order = [arm.name for arm in loaded.sweep.arms]
    values = values.sort_values("arm", key=lambda names: names.map(order.index), kind="stable")
    print(f"{table(values, 'loss')}\n\n{table(values, 'grad_norm')}")


if __name__ == "__main__":
    main()
