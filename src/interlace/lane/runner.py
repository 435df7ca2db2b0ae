"""One run, from the gate to its record on disk."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import InterlaceError, NodeLostError, UsageError
from interlace.files import read_json, write_json
from interlace.lane.accelerate_own import accelerate_notes
from interlace.lane.causes import RETRYABLE, Ending, judge
from interlace.lane.nodes.node import all_of
from interlace.lane.nodes.together import Ranks, end_all, through_the_gates
from interlace.lane.noted import end_of, with_nodes
from interlace.lane.oom import kernel_oom_kills
from interlace.lane.others import disturbed
from interlace.lane.prepared import prepare
from interlace.lane.proof import world_below
from interlace.lane.ranks import read_ranks
from interlace.lane.runlog import (
    STREAMS,
    Found,
    StepCounter,
    find_steps,
    keep_log,
    lost_records,
    refuse_old_log,
    see_anew,
    world_size,
)
from interlace.lane.watch import Limits, Watched, watch
from interlace.launch import applied
from interlace.records import Started, make_run_dir, write_record, write_steps
from interlace.schema import Cause, RunRecord
from interlace.stats import describe
from interlace.stats.run import block_steps
from interlace.steplog import slowest_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from interlace.lane.lane import Lane
    from interlace.lane.nodes.node import Ended, Node
    from interlace.lane.nodes.together import Gates
    from interlace.lane.prepared import Prepared
    from interlace.schema import Arm, Run, StepSummary
    from interlace.settings import SweepConfig
    from interlace.steplog import StepLog

RETRIES = 2
"""How often a run is started anew for a cause that has nothing to do with it (a port that was taken)."""

CANCELLED_S = 2.0
"""A job that is cancelled loses its agents a moment before it is told itself: then it was no node that was lost."""


@dataclass(frozen=True)
class Took:
    """What measuring itself cost around one run: CPU of this process, and wall time outside gate and run."""

    cpu_s: float
    wall_s: float


def measure(lane: Lane, run: Run) -> RunRecord:
    """Measure one run. A run that fails gives a record like any other; only an interrupt is raised."""
    for _ in range(RETRIES):
        with _told_when_unwritable(lane, run):
            record = _attempt(lane, run)
        if record.cause is None or record.cause.code not in RETRYABLE or record.steps_seen:
            return record
        lane.observer.say(f"{run.id}: {record.cause.message}; started anew")
    with _told_when_unwritable(lane, run):
        return _attempt(lane, run)


@contextlib.contextmanager
def _told_when_unwritable(lane: Lane, run: Run) -> Iterator[None]:
    """Turn a disk that is full or gone into one sentence; the run is measured again when it is resumed."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{run.id} cannot be written ({error.strerror or error}); the run was ended. "
            f"When there is room in {lane.sweep_dir.path}: interlace resume {lane.sweep_dir.path}"
        ) from error


@dataclass(frozen=True)
class Outcome:
    """How the programs of a run ended: `codes` of those that ended by themselves, by node, the first to end first.

    `oom_kills` is how many processes this node's kernel ended meanwhile for want of memory.
    """

    watched: Watched
    codes: dict[str, int]
    ended: list[Ended]
    oom_kills: int


def _attempt(lane: Lane, run: Run) -> RunRecord:
    number, run_dir = make_run_dir(lane.sweep_dir, run)
    began_at = time.time()
    try:
        try:
            return _measured(lane, run, number, run_dir)
        except NodeLostError:
            time.sleep(CANCELLED_S)
            raise
    except KeyboardInterrupt:
        cause = Cause("interrupted", "Interlace was asked to stop while this run was on, or waited")
        _cut_off(run_dir, RunRecord(run, number, "interrupted", began_at, 0.0, None, cause))
        raise
    except NodeLostError as lost:
        cause = Cause("node_lost", str(lost))
        _cut_off(run_dir, RunRecord(run, number, "failed", began_at, 0.0, None, cause, node=lane.node))
        raise NodeLostError(
            f"{lost}; {run.id} failed by it, and the lane ends; resume goes on from there, with all its nodes"
        ) from lost


def _measured(lane: Lane, run: Run, number: int, run_dir: Path) -> RunRecord:
    began_s, own_began_s = time.monotonic(), time.process_time()
    arm, nodes = lane.arm(run), lane.nodes()
    gates = through_the_gates(nodes, arm.config.gate, lane.observer.waiting)
    if (evidence := gates.evidence) is not None:
        write_json(run_dir / "gate.json", evidence)
    if not gates.ok:
        return _refused(run, number, run_dir, gates)
    prepared = prepare(lane, arm, run_dir, nodes)
    if why := refuse_old_log(prepared.log):
        return _not_started(run, number, run_dir, why)
    started_at, started_s = time.time(), time.monotonic()
    outcome = _run(lane, run, number, run_dir, prepared, nodes)
    wall_s = time.monotonic() - started_s
    record = _read(arm, run, run_dir, prepared.log, nodes, outcome)
    record = replace(
        record, attempt=number, started_at=started_at, wall_s=wall_s, gate_wait_s=gates.waited_s, node=lane.node
    )
    record = disturbed(with_nodes(record, run_dir, nodes, gates, outcome.ended), arm.config.gate)
    own = Took(time.process_time() - own_began_s, time.monotonic() - began_s - wall_s - gates.waited_s)
    return _persist(run_dir, record, nodes, own)


def _cut_off(run_dir: Path, record: RunRecord) -> None:
    """Keep the log and write the record of a run that was cut off, unless it had one already."""
    path = run_dir / "started.json"
    started = read_json(path, Started) if path.is_file() else None
    if started is not None:
        keep_log(Path(started.log) if started.log else None, run_dir)
        record = replace(record, started_at=started.started_at)
    if not (run_dir / "record.json").exists():
        write_record(run_dir, replace(record, wall_s=time.time() - record.started_at))


def _refused(run: Run, number: int, run_dir: Path, gates: Gates) -> RunRecord:
    message = f"the node was not empty after {gates.waited_s:.0f} s: {'; '.join(gates.reasons)}"
    record = RunRecord(
        run, number, "disturbed", time.time(), 0.0, None, Cause("gate", message), gate_wait_s=gates.waited_s
    )
    write_record(run_dir, record)
    return record


def _run(lane: Lane, run: Run, number: int, run_dir: Path, prepared: Prepared, nodes: Sequence[Node]) -> Outcome:
    """Run and watch, with the monitors on; however it ends, nothing of the run stays on any node."""
    ranks, oom_kills_before = Ranks(nodes), kernel_oom_kills()
    try:
        begun = all_of([node.start(spec) for node, spec in zip(nodes, prepared.specs, strict=True)])
        refused = [f"{node.name}: {one.cannot_start}" for node, one in zip(nodes, begun, strict=True) if not one.pid]
        if refused:
            text = refused[0] if len(nodes) > 1 else str(begun[0].cannot_start)
            watched = Watched("itself", cannot_start=text)
        else:
            log = str(prepared.log) if prepared.log else None
            write_json(run_dir / "started.json", Started(run, number, begun[0].pid or 0, begun[0].started_at, log))
            watched = _watch(lane, run, run_dir, prepared, ranks, nodes)
    except BaseException:
        end_all(nodes)
        raise
    ended, lost = end_all(nodes)
    if lost is not None:
        raise lost
    return Outcome(watched, ranks.codes, ended, kernel_oom_kills() - oom_kills_before)


def _watch(
    lane: Lane, run: Run, run_dir: Path, prepared: Prepared, ranks: Ranks, nodes: Sequence[Node]
) -> Watched:  # fmt: skip
    config = lane.arm(run).config
    limits = Limits(config.measure.timeout_s, config.measure.stall_s, config.measure.grace_s, config.workload.steps)

    def progress(steps_seen: int, elapsed_s: float) -> None:
        for node in nodes:
            node.look(steps_seen)
        lane.observer.progress(steps_seen, elapsed_s)

    return watch(ranks.over, limits, StepCounter(run_dir, config.measure, prepared.log), progress)


def _not_started(run: Run, number: int, run_dir: Path, why: str) -> RunRecord:
    record = RunRecord(run, number, "failed", time.time(), 0.0, None, Cause("old_log", why))
    write_record(run_dir, record)
    return record


def _read(
    arm: Arm, run: Run, run_dir: Path, log: Path | None, nodes: Sequence[Node], outcome: Outcome
) -> RunRecord:  # fmt: skip
    """Read what the run left, and judge it. What the record says of time and the node is filled in afterwards."""
    if len(nodes) > 1:
        see_anew(run_dir)
    found = find_steps(run_dir, arm.config.measure, keep_log(log, run_dir))
    ranks = read_ranks(run_dir)
    text, returncode, where = end_of(run_dir, nodes, outcome.codes, outcome.ended)
    if outcome.watched.cannot_start:  # on one node of several, perhaps
        returncode = None
    below = world_below(rank for one in outcome.ended for rank in one.placements)
    ending = _ending(arm.config, len(nodes), outcome.watched, returncode, text, found, ranks, below)
    status, cause, notes = judge(replace(ending, oom_kills=outcome.oom_kills))
    if cause is not None and where is not None:
        cause = replace(cause, message=f"on {where}: {cause.message}", node=where)
    steps, step_notes = _summary(arm.config, found.log, wanted=status == "ok")
    if found.log is not None:
        write_steps(run_dir, found.log.frame)
        notes = (*notes, *step_notes, *_told(found.log, ending.world_found), *found.log.errors)
    if status == "ok" and steps is None:
        status, cause = "incomplete", Cause("window", "; ".join(step_notes) or "no step summary")
    if status == "ok" and found.log is not None and (why := lost_records(found.log, arm.config.measure.window)):
        status, cause, steps = "incomplete", Cause("torn_log", why), None
    environ = applied(os.environ, {**arm.config.workload.env, **arm.config.env})
    notes = (*notes, *accelerate_notes(arm.config, environ, run_dir / STREAMS[0]))
    return RunRecord(
        run, 1, status, 0.0, 0.0, returncode, cause, steps, ending.steps_seen,
        found.log.reader if found.log is not None else None, ending.world_asked, ending.world_found, notes=notes,
    )  # fmt: skip


def _ending(
    config: SweepConfig, nodes: int, watched: Watched, returncode: int | None, text: str, found: Found,
    ranks: list[dict[str, Any]], below: int | None,
) -> Ending:  # fmt: skip
    log = found.log
    return Ending(
        returncode=returncode,
        ended_by=watched.ended_by,
        text=watched.cannot_start or text,
        steps_seen=int(log.frame["step"].nunique()) if log is not None else 0,
        last_step=int(slowest_rank(log.frame)["step"].max()) if log is not None and len(log.frame) else 0,
        steps_asked=config.workload.steps,
        window_last=config.measure.window[1],
        end_marker=log is not None and log.ended,
        world_asked=config.ranks.nproc_per_node * nodes or None,
        world_found=world_size(ranks, log, below),
        launcher=config.ranks.kind,
        limit_s=watched.limit_s,
        unreadable=found.why_not,
        started=len(ranks),
        world_below=below,
        nodes=nodes,
    )


def _told(log: StepLog, world: int | None) -> list[str]:
    """Leave out that a log does not say whose times it has where there is one rank only."""
    return [note for note in log.notes if world != 1 or not note.startswith("rank_unknown")]


def _summary(config: SweepConfig, log: StepLog | None, *, wanted: bool) -> tuple[StepSummary | None, Sequence[str]]:
    if log is None or not wanted:
        return None, ()
    try:
        block = block_steps(config.stats.block, config.measure.period)
        seen = describe(log.frame, config.measure.window, block)
    except InterlaceError as error:
        return None, (str(error),)
    return seen.summary, seen.notes


def _persist(run_dir: Path, record: RunRecord, nodes: Sequence[Node], own: Took) -> RunRecord:
    """Persist before anything is shown; the record comes last and makes the run finished."""
    all_of([node.keep() for node in nodes])
    final = replace(record, own_cpu_s=round(own.cpu_s, 4), own_wall_s=round(own.wall_s, 4))
    write_record(run_dir, final)
    return final
