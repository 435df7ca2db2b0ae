"""The lane loop: every run of a plan that is not finished yet, one after the other."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import psutil

from interlace import process
from interlace.errors import UsageError
from interlace.files import write_json
from interlace.lane.runner import measure
from interlace.records import attempts, close_cut, free_mib, remaining

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.files import SweepDir
    from interlace.lane.lane import Lane
    from interlace.schema import Plan, Run, RunRecord

LONG_PAUSE_S = 600.0
"""After a pause longer than this the node has cooled: a burn-in run comes first again."""

LEAST_FREE_MIB = 50.0
"""With less disk than this a run's files could not be written."""


def execute(lane: Lane, plan: Plan, extend: Callable[[Plan], Plan] = lambda plan: plan) -> list[RunRecord]:
    """Measure what is left of the plan. A failed run is data: the loop goes on to its end.

    `extend` is asked after the last run whether rounds are to be added; the longer plan is written down before
    any of its runs starts. Raises KeyboardInterrupt, after the running run has been ended and recorded, on Ctrl-C.
    """
    records: list[RunRecord] = []
    while True:
        records += _measure_left(lane, plan)
        longer = extend(plan)
        if longer == plan:
            return records
        for extension in longer.extensions[len(plan.extensions) :]:
            lane.observer.say(f"round {extension.round} is added: {extension.reason}")
        plan = longer
        write_json(lane.sweep_dir.plan, plan)


def _measure_left(lane: Lane, plan: Plan) -> list[RunRecord]:
    left = _with_burn_in(lane.sweep_dir, plan, remaining(lane.sweep_dir, plan))
    total = len(plan.runs)
    records = []
    for position, run in enumerate(left):
        _check_disk(lane)
        number = total - (len(left) - position) + 1
        steps = lane.arm(run).config.workload.steps or lane.arm(run).config.measure.window[1]
        _write_state(lane.sweep_dir, run, number, total)
        lane.observer.run_starts(run, number, total, steps)
        record = measure(lane, run)
        records.append(record)
        lane.observer.run_ends(record)
    return records


def close_cut_runs(sweep_dir: SweepDir, plan: Plan) -> list[RunRecord]:
    """End what earlier runs left behind, and give every run that its orchestrator's death cut its record.

    Left-over ranks are known by the marker in their environment, whatever their run's record says.
    """
    marker = f"{sweep_dir.runs}/"
    left: dict[str, int] = {}
    for found in process.members(None, marker):
        with contextlib.suppress(psutil.Error):
            path = found.environ().get(process.MARKER, "")
            left[path] = left.get(path, 0) + 1
    with process.undisturbed():
        process.end(None, marker)
    tries = [attempt for run in plan.runs for attempt in attempts(sweep_dir, run)]
    return [close_cut(one, left.get(str(one.path), 0)) for one in tries if one.record is None]


def _with_burn_in(sweep_dir: SweepDir, plan: Plan, left: list[Run]) -> list[Run]:
    """Put the burn-in run in front again when the last run lies long back."""
    done = [attempt.record for run in plan.runs for attempt in attempts(sweep_dir, run) if attempt.record]
    burn_in = [run for run in plan.runs if run.round == 0]
    if not left or not done or not burn_in or left[0] in burn_in:
        return left
    pause_s = time.time() - max(record.started_at + record.wall_s for record in done)
    return [*burn_in, *left] if pause_s > LONG_PAUSE_S else left


def _check_disk(lane: Lane) -> None:
    free = free_mib(lane.sweep_dir.path)
    if free < LEAST_FREE_MIB:
        raise UsageError(
            f"{free:.0f} MiB are left on the disk of {lane.sweep_dir.path}; free some, then: "
            f"interlace resume {lane.sweep_dir.path}"
        )


def _write_state(sweep_dir: SweepDir, run: Run, number: int, total: int) -> None:
    write_json(
        sweep_dir.state,
        {"pid": os.getpid(), "run": run.id, "number": number, "total": total, "since": time.time()},
    )
