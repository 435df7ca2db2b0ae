"""One sweep, read from disk; of a sweep of several lanes, their rounds side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interlace.errors import UsageError
from interlace.files import SweepDir, open_sweep_dir
from interlace.history import machine_key
from interlace.lanes import other_environment, read_lanes, sessions
from interlace.loaded.join import Block, join
from interlace.records import TOO_SHORT, attempts, read_plan, read_steps
from interlace.sweepfile import read_sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.analyse import Analysis
    from interlace.lanes import Lanes
    from interlace.records import Attempt
    from interlace.schema import Plan, RunRecord, Sweep


@dataclass(frozen=True)
class LoadedSweep:
    """One sweep, read from disk. `tries` are all attempts of all runs, in the order of the plan.

    `aa` is a sweep of two identical arms of the same session, whose spread is pooled into the intervals; `blocks` are
    the lanes or pooled sweeps that it was put together from; `other_window` replaces the window that the sweep was
    measured for.
    """

    sweep_dir: SweepDir
    sweep: Sweep
    plan: Plan
    tries: tuple[Attempt, ...]
    aa: LoadedSweep | None = None
    blocks: tuple[Block, ...] = ()
    other_window: tuple[int, int] | None = None

    @property
    def window(self) -> tuple[int, int]:
        """First and last step that count."""
        first, last = self.sweep.config.measure.window
        return self.other_window or (first, last)

    def __repr__(self) -> str:
        """Name the folder and what there is."""
        return (
            f"LoadedSweep({str(self.sweep_dir.path)!r}, {len(self.sweep.arms)} arms, {len(self.used)} runs that count)"
        )

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per attempt: run, round, attempt, arm, status, used, times in seconds, cause, notes.

        `used` marks the attempt that counts: of a run the last one that is ok, of a burn-in run (round 0) none.
        """
        used = {id(attempt) for attempt in self.used if attempt.run.round > 0}
        return pd.DataFrame(
            [_row(attempt, id(attempt) in used, self._names) for attempt in self.tries], columns=COLUMNS
        )

    @cached_property
    def steps(self) -> pd.DataFrame:
        """All step series that count: run, round, arm and, from the logs, step, rank, step_s, end_s ..."""
        frames = [self.step_frame(attempt) for attempt in self.used if attempt.run.round > 0]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run", "step", "step_s"])

    @cached_property
    def analysis(self) -> Analysis:
        """Comparisons of every arm with the baseline."""
        from interlace.analyse import analyse  # noqa: PLC0415 (analyse takes what is loaded here)

        return analyse(self)

    @property
    def used(self) -> tuple[Attempt, ...]:
        """The attempts whose steps count: one per run at most, and only those that are ok."""
        last = {attempt.run.id: attempt for attempt in self.tries if self._counts(attempt)}
        return tuple(last.values())

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """Every record there is."""
        return tuple(attempt.record for attempt in self.tries if attempt.record is not None)

    def _counts(self, attempt: Attempt) -> bool:
        """Count a run that is ok and, under another window, one that only the first window called too short."""
        record = attempt.record
        if record is None or record.status == "ok":
            return record is not None
        short = record.cause is not None and record.cause.code in TOO_SHORT
        return self.other_window is not None and short and record.steps_seen >= self.other_window[1]

    def step_frame(self, attempt: Attempt) -> pd.DataFrame:
        """Step series of one attempt, as read from its log."""
        frame = read_steps(attempt.path).drop(columns=["run", "round", "arm"], errors="ignore")
        frame.insert(0, "run", attempt.run.id)
        frame.insert(1, "round", attempt.run.round)
        frame.insert(2, "arm", self._names[attempt.run.arm])
        return frame

    @cached_property
    def _names(self) -> dict[str, str]:
        return self.sweep.names


def _other_environments(lanes: Lanes, loaded: Sequence[LoadedSweep]) -> list[str]:
    """Say which lanes ran under another interpreter, or other packages, than the sweep was submitted with."""
    of_lanes = zip(lanes.lanes, loaded, strict=True)
    told = ((lane, other_environment(lanes, session)) for lane, one in of_lanes for session in sessions(one.sweep_dir))
    return list(dict.fromkeys(f"lane {lane.number} {what}" for lane, what in told if what))


def _lane_block(lane: LoadedSweep) -> Block:
    nodes = dict.fromkeys(record.node for record in lane.records if record.node)
    where = f" on {', '.join(nodes)}" if nodes else ""
    return Block(str(lane.sweep_dir.path), f"lane {lane.sweep_dir.path.name}{where}")


TWO = 2
FEWEST_AA_ROUNDS = 4
"""Fewer rounds of identical arms tell less of the noise than the sweep itself (methodology 4.3)."""
SAME_SESSION_S = 6 * 3600.0
"""An A/A sweep of a quieter day would make intervals too narrow (methodology 3.4): 9.5 % false calls instead of 5."""

OF_STEPS = (
    "stat_s", "median_s", "mean_s", "p90_s", "max_s", "step1_s", "sd_s", "stall_share", "quantum_s", "resolution",
)  # fmt: skip
COLUMNS = [
    "run", "round", "attempt", "arm", "status", "used", "node", "started_at", "wall_s", *OF_STEPS, "steps", "peak_mib",
    "own_cpu_s", "own_wall_s", "cause", "notes",
]  # fmt: skip


def load(
    directory: str | Path,
    aa: str | Path | None = None,
    window: tuple[int, int] | None = None,
    baseline: str | None = None,
) -> LoadedSweep:
    """Load a sweep folder, and the folder of an A/A sweep (`interlace aa`) to pool the spread with.

    `window` (first and last step) replaces the one that the sweep was measured for, `baseline` (the name of an arm)
    the arm that the others are compared with.

    Raises UsageError or ReadError naming what is missing or broken, or why the A/A sweep does not belong to it.
    """
    loaded = replace(_load(Path(directory)), other_window=window)
    asked = loaded.sweep if baseline is None else with_baseline(loaded.sweep, baseline)
    asked = asked if window is None else with_window(asked, window)
    if asked != loaded.sweep:
        loaded = replace(loaded, sweep=replace(asked, notes=(*asked.notes, AFTERWARDS)))
    if aa is None:
        return loaded
    identical = replace(_load(Path(aa)), other_window=window)
    refuse_other_session(loaded, identical)
    return replace(loaded, aa=identical)


def with_baseline(sweep: Sweep, name: str) -> Sweep:
    """Compare with another arm than the sweep was measured for. Raises UsageError where no such arm was measured."""
    measured = {arm.name: arm.slug for arm in sweep.arms if arm.measure}
    if name not in measured:
        raise UsageError(f"baseline {name}: no arm that was measured is called so; they are {', '.join(measured)}")
    if measured[name] == sweep.baseline:
        return sweep
    note = f"compared with {name}, as asked for; the sweep was set up to compare with {sweep.names[sweep.baseline]}"
    return replace(sweep, baseline=measured[name], notes=(*sweep.notes, note))


def with_window(sweep: Sweep, window: tuple[int, int]) -> Sweep:
    """Note that other steps count than the sweep was measured for."""
    first, last = sweep.config.measure.window
    if window == (first, last):
        return sweep
    asked = f"counted from steps {window[0]} to {window[1]}, as asked for"
    return replace(sweep, notes=(*sweep.notes, f"{asked}; the sweep was set up for steps {first} to {last}"))


AFTERWARDS = (
    "chosen after the runs: to try windows or baselines until one says faster or slower is no evidence; "
    "what the sweep was set up for is written again by: interlace report DIR"
)
"""`DIR` stays in the files, which are read anywhere; a terminal shows the folder."""


def _load(directory: Path) -> LoadedSweep:
    sweep_dir = open_sweep_dir(directory)
    if (lanes := read_lanes(sweep_dir)) is not None:
        loaded = [_load(sweep_dir.path / lane.folder) for lane in lanes.lanes]
        sweep = read_sweep(sweep_dir)
        sweep = replace(sweep, notes=(*sweep.notes, *_other_environments(lanes, loaded)))
        whole = replace(join(loaded), sweep_dir=sweep_dir, sweep=sweep)
        return replace(whole, blocks=tuple(_lane_block(one) for one in loaded))
    plan = read_plan(sweep_dir)
    tries = tuple(attempt for run in plan.runs for attempt in attempts(sweep_dir, run))
    return LoadedSweep(sweep_dir, read_sweep(sweep_dir), plan, tries)


def refuse_other_session(loaded: LoadedSweep, aa: LoadedSweep) -> None:
    """Raise UsageError where an A/A sweep is of another node, workload, window or day: its spread says nothing here."""
    one, two = loaded.sweep.config, aa.sweep.config
    reasons = []
    if len(aa.sweep.arms) != TWO or aa.sweep.arms[0].config != aa.sweep.arms[1].config:
        reasons.append("its arms are not two identical ones")
    program = loaded.sweep.arm(loaded.sweep.baseline).config.workload
    if (program, one.measure.window, one.ranks) != (two.workload, two.measure.window, two.ranks):
        reasons.append("its workload, window or ranks are others")
    if machine_key(loaded.sweep_dir) != machine_key(aa.sweep_dir):
        reasons.append("it was measured on another node")
    if (rounds := len(aa.analysis.rounds)) < FEWEST_AA_ROUNDS:
        reasons.append(f"it has {rounds} complete rounds; {FEWEST_AA_ROUNDS} are needed")
    starts = [[r.started_at for r in each.records] for each in (loaded, aa)]
    if not all(starts) or abs(min(starts[0]) - max(starts[1])) > SAME_SESSION_S:
        reasons.append("it is not of the same session (within six hours)")
    if reasons:
        raise UsageError(f"{aa.sweep_dir.path} cannot be pooled with {loaded.sweep_dir.path}: {'; '.join(reasons)}")


def _row(attempt: Attempt, used: bool, names: dict[str, str]) -> dict[str, object]:
    run, record = attempt.run, attempt.record
    row: dict[str, object] = {
        "run": run.id, "round": run.round, "attempt": attempt.number, "arm": names[run.arm], "used": used,
        "status": "running or cut",
    }  # fmt: skip
    if record is None:
        return row
    peaks = [gpu.peak_mib for gpu in record.gpus if gpu.peak_mib is not None]
    row |= {
        "status": record.status, "started_at": record.started_at, "wall_s": record.wall_s,
        "node": record.node, "steps": record.steps_seen, "peak_mib": max(peaks, default=None),
        "own_cpu_s": record.own_cpu_s, "own_wall_s": record.own_wall_s,
        "cause": record.cause.message if record.cause else None, "notes": "; ".join(record.notes),
    }  # fmt: skip
    if record.steps is not None:
        row |= {name: getattr(record.steps, name) for name in OF_STEPS}
    return row
