"""The lane loop: every run of a plan that is not finished yet, one after the other."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.files import write_json
from interlace.lane.nodes.local import end_left
from interlace.lane.nodes.node import all_of
from interlace.lane.runner import measure
from interlace.records import attempts, close_cut, free_mib, read_plan, remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlace.files import SweepDir
    from interlace.lane.lane import Lane
    from interlace.lane.nodes.node import Node
    from interlace.schema import Plan, Run, RunRecord

LONG_PAUSE_S = 600.0
"""After a pause longer than this the node has cooled: a burn-in run comes first again."""

MARGIN = 1.1
LAST_S = 20.0
"""What a lane needs at its end: processes that go, records and reports that are written."""

LEAST_FREE_MIB = 50.0
"""With less disk than this a run's files could not be written."""


def execute(lane: Lane, plan: Plan, extend: Callable[[Plan], Plan] = lambda plan: plan) -> list[RunRecord]:
    """Measure what is left of the plan. A failed run is data: the loop goes on to its end.

    `extend` is asked after the last run whether rounds are to be added; the longer plan is written down before
    any of its runs starts. Where the lane's time does not suffice for the next round, the loop ends before it.
    Raises KeyboardInterrupt, after the running run has been ended and recorded, on Ctrl-C.
    """
    records: list[RunRecord] = []
    while True:
        measured, in_time = _measure_left(lane, plan)
        records += measured
        longer = extend(plan) if in_time else plan
        if longer == plan:
            return records
        for extension in longer.extensions[len(plan.extensions) :]:
            lane.observer.say(f"round {extension.round} is added: {extension.reason}")
        plan = longer
        write_json(lane.sweep_dir.plan, plan)


def _measure_left(lane: Lane, plan: Plan) -> tuple[list[RunRecord], bool]:
    """Measure until nothing is left, or the lane's time does not suffice (False)."""
    left = _with_burn_in(lane, plan, remaining(lane.sweep_dir, plan))
    total = len(plan.runs)
    records: list[RunRecord] = []
    for position, run in enumerate(left):
        if why := out_of_time(lane, left[position:]):
            lane.observer.say(why)
            return records, False
        _check_disk(lane)
        number = total - (len(left) - position) + 1
        steps = lane.arm(run).config.workload.steps or lane.arm(run).config.measure.window[1]
        _write_state(lane.sweep_dir, run, number, total)
        lane.observer.run_starts(run, number, total, steps)
        record = measure(lane, run)
        records.append(record)
        lane.observer.run_ends(record)
    return records, True


def out_of_time(lane: Lane, left: Sequence[Run]) -> str | None:
    """Say why the rest of the round must not be begun any more; None where there is time, or no limit.

    A run takes as long as the longest of its arm did, else of any arm.
    """
    if lane.ends_at is None:
        return None
    rest = [run for run in left if run.round == left[0].round]
    took = _durations_s(lane.sweep_dir)
    of_any = [seconds for of_arm in took.values() for seconds in of_arm]
    need_s = sum(max(took.get(run.arm, of_any), default=0.0) for run in rest)
    have_s = lane.ends_at - time.time()
    if need_s * MARGIN + LAST_S <= have_s or need_s == 0:
        return None
    return (
        f"{have_s:.0f} s are left of this job's time, and what is left of round {left[0].round} takes about "
        f"{need_s:.0f} s: it is not begun; interlace resume {lane.sweep_dir.path} goes on with it in another job"
    )


def _durations_s(sweep_dir: SweepDir) -> dict[str, list[float]]:
    """Return arm -> how long each of its runs took so far, the wait at the gate included."""
    took: dict[str, list[float]] = {}
    for run in read_plan(sweep_dir).runs:
        if done := [one.record for one in attempts(sweep_dir, run) if one.record is not None]:
            took.setdefault(run.arm, []).append(done[-1].wall_s + done[-1].gate_wait_s)
    return took


def close_cut_runs(sweep_dir: SweepDir, plan: Plan, others: Sequence[Node] = ()) -> list[RunRecord]:
    """End what earlier runs left behind, and give every run that its orchestrator's death cut its record.

    Left-over ranks are known by the marker in their environment, whatever their run's record says; `others` are the
    lane's nodes beside this one.
    """
    marker = f"{sweep_dir.runs}/"
    left: dict[str, int] = {}
    for here in (end_left(marker), *all_of([node.end_left(marker) for node in others])):
        left |= {path: left.get(path, 0) + count for path, count in here.items()}
    tries = [attempt for run in plan.runs for attempt in attempts(sweep_dir, run)]
    return [close_cut(one, left.get(str(one.path), 0)) for one in tries if one.record is None]


def _with_burn_in(lane: Lane, plan: Plan, left: list[Run]) -> list[Run]:
    """Put the burn-in run in front again when the last run lies long back, or on another node."""
    done = [attempt.record for run in plan.runs for attempt in attempts(lane.sweep_dir, run) if attempt.record]
    burn_in = [run for run in plan.runs if run.round == 0]
    if not left or not done or not burn_in or left[0] in burn_in:
        return left
    last = max(done, key=lambda record: record.started_at)
    pause_s = time.time() - (last.started_at + last.wall_s)
    places = [record.node for record in sorted(done, key=lambda record: record.started_at) if record.node]
    moved = bool(places) and places[-1] != lane.node
    return [*burn_in, *left] if pause_s > LONG_PAUSE_S or moved else left


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
