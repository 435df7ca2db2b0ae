"""Real sweeps out of repeated identical runs: any consecutive runs of one session, labelled as an order says."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.verdicts.arms import STEPS, Runs

from interlace.stats import summarise

if TYPE_CHECKING:
    from pathlib import Path

    Log = dict[str, str]

WINDOW = (51, 300)
FEWEST_RUNS = 4
LONGEST_PAUSE = timedelta(minutes=30)
"""From one start to the next; what lies further apart is another session (methodology, section 2)."""


def load_groups(folder: Path) -> dict[str, list[Runs]]:
    """Read the sessions of every group, each with runs in the order of their start: (1, runs), (1, runs, steps).

    `folder` holds `runs.csv` (run, group, started, steps) and `step_ms.npz`, differences of a cumulative clock in
    whole milliseconds. A session ends at a pause, and where the number of steps of the next run differs: that is
    another configuration, whatever the group is called. Sessions too short for two rounds are left out.
    """
    times = np.load(folder / "step_ms.npz")
    with (folder / "runs.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["started"])
    by_group: dict[str, list[Log]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)
    found = {}
    for group, logs in by_group.items():
        long = [session for session in sessions(logs) if len(session) >= FEWEST_RUNS]
        if long:
            found[group] = [_joined([_run(times[log["run"]].astype(np.float64) / 1e3) for log in one]) for one in long]
    return found


def sessions(logs: list[Log]) -> list[list[Log]]:
    """Cut the runs of one group, in the order of their start, where a session ends."""
    found = [logs[:1]]
    for before, after in pairwise(logs):
        pause = datetime.fromisoformat(after["started"]) - datetime.fromisoformat(before["started"])
        if pause > LONGEST_PAUSE or after["steps"] != before["steps"]:
            found.append([])
        found[-1].append(after)
    return found


def windows(session: Runs, runs: int) -> Runs:
    """All stretches of `runs` consecutive runs of a session, as sweeps; they overlap."""
    count = max(0, session.run_s.shape[1] - runs + 1)
    rows = np.arange(count)[:, None] + np.arange(runs)
    return Runs(session.run_s[0][rows], session.step_s[0][rows])


def sweeps_of_group(group: list[Runs], runs: int) -> Runs | None:
    """All stretches of `runs` runs of a group, no session mixed with another; None where none is that long."""
    parts = [windows(session, runs) for session in group if session.run_s.shape[1] >= runs]
    if not parts:
        return None
    return Runs(np.concatenate([part.run_s for part in parts]), np.concatenate([part.step_s for part in parts]))


def _run(step_s: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Runs:
    """Reduce one log to its window, with the statistic that Interlace takes from its clock."""
    window_s = step_s[WINDOW[0] - 1 : WINDOW[1]]
    assert window_s.size == STEPS, "every log reaches beyond the window"
    assert np.isfinite(window_s).all(), "no step of the window is missing"
    arrays = (np.arange(WINDOW[0], WINDOW[1] + 1), window_s, np.cumsum(window_s))
    return Runs(np.array([[summarise(arrays, WINDOW).stat_s]]), window_s[None, None].astype(np.float32))


def _joined(runs: list[Runs]) -> Runs:
    """Put runs beside each other, in one sweep."""
    run_s, step_s = [run.run_s for run in runs], [run.step_s for run in runs]
    return Runs(np.concatenate(run_s, axis=1), np.concatenate(step_s, axis=1))
