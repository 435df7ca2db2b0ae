"""Real sweeps out of repeated identical runs: any consecutive runs of one group, labelled as an order says."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.verdicts.arms import STEPS, Runs

from interlace.stats import summarise

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = (51, 300)


def load_groups(folder: Path) -> dict[str, Runs]:
    """Runs of every group in the order of their start, shapes (1, runs) and (1, runs, steps).

    `folder` holds `runs.csv` (run, group, started) and `step_ms.npz`, differences of a cumulative clock in whole
    milliseconds.
    """
    times = np.load(folder / "step_ms.npz")
    with (folder / "runs.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["started"])
    found: dict[str, list[tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]]] = {}
    for row in rows:
        window_s = times[row["run"]][WINDOW[0] - 1 : WINDOW[1]].astype(np.float64) / 1e3
        if window_s.size < STEPS or not np.isfinite(window_s).all():
            continue
        arrays = (np.arange(WINDOW[0], WINDOW[1] + 1), window_s, np.cumsum(window_s))
        found.setdefault(row["group"], []).append((summarise(arrays, WINDOW).stat_s, window_s))
    return {
        group: Runs(np.array([[stat for stat, _ in runs]]), np.array([[steps for _, steps in runs]], dtype=np.float32))
        for group, runs in found.items()
    }


def windows(group: Runs, runs: int) -> Runs:
    """All stretches of `runs` consecutive runs of a group, as sweeps; they overlap."""
    count = group.run_s.shape[1] - runs + 1
    rows = np.arange(count)[:, None] + np.arange(runs)
    return Runs(group.run_s[0][rows], group.step_s[0][rows])
