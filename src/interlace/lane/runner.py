"""One run, from the gate to its record on disk."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace import process
from interlace.errors import InterlaceError, LaunchError, UsageError
from interlace.files import read_json, write_json, write_text
from interlace.gate import wait_until_idle
from interlace.lane.causes import RETRYABLE, Ending, judge
from interlace.lane.others import (
    children_cpu_s,
    crowded,
    disturbed,
    foreigners_of,
    others_cpu_pct,
    with_those_at_the_gate,
)
from interlace.lane.proof import Proof, doubts
from interlace.lane.runlog import (
    Found,
    find_steps,
    keep_log,
    read_ranks,
    refuse_old_log,
    step_counter,
    tail_text,
    world_size,
)
from interlace.lane.watch import Limits, Watched, watch
from interlace.launch import applied, build_launch, command_script
from interlace.monitor.foreign import Sightings
from interlace.monitor.sampler import Monitor
from interlace.monitor.samples import write_samples
from interlace.node import node_name
from interlace.records import Started, make_run_dir, write_record, write_steps
from interlace.schema import Cause, RunRecord
from interlace.stats import describe
from interlace.stats.run import block_steps
from interlace.steplog import slowest_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from interlace.gate import GateResult
    from interlace.lane.lane import Lane
    from interlace.launch import Launch
    from interlace.monitor.sampler import MonitorResult
    from interlace.schema import Arm, Run, StepSummary
    from interlace.settings import SweepConfig
    from interlace.steplog import StepLog

RETRIES = 2
"""How often a run is started anew for a cause that has nothing to do with it (a port that was taken)."""


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


def _attempt(lane: Lane, run: Run) -> RunRecord:
    began_s, own_began_s, children_s = time.monotonic(), time.process_time(), children_cpu_s()
    number, run_dir = make_run_dir(lane.sweep_dir, run)
    arm = lane.arm(run)
    started_at = time.time()
    try:
        gate = _through_the_gate(lane, arm, run_dir)
        if not gate.ok:
            return _refused(run, number, run_dir, gate)
        launch = _prepare(lane, arm, run_dir)
        if why := refuse_old_log(launch.log):
            return _not_started(run, number, run_dir, why)
        started_at, started_s = time.time(), time.monotonic()
        proof = Proof(run_dir, arm.config.measure.window)
        watched, returncode, stubborn, seen = _run(lane, run, number, run_dir, launch, gate, proof)
    except KeyboardInterrupt:
        keep_log(_log_of(run_dir), run_dir)
        write_record(run_dir, _interrupted(run, number, started_at))
        raise
    wall_s = time.monotonic() - started_s
    record = _read(arm, run, run_dir, launch, watched, returncode)
    record = replace(
        record, attempt=number, started_at=started_at, wall_s=wall_s, gate_wait_s=gate.waited_s, node=node_name()
    )
    others_pct = others_cpu_pct(record, seen, children_cpu_s() - children_s)
    record = _with_node(replace(record, others_cpu_pct=others_pct), run_dir, proof, seen)
    record = replace(record, foreign=with_those_at_the_gate(record.foreign, gate))
    record = replace(record, notes=(*record.notes, *_gate_notes(gate, stubborn)))
    record = disturbed(record, arm.config.gate)
    own = Took(time.process_time() - own_began_s, time.monotonic() - began_s - wall_s - gate.waited_s)
    return _persist(run_dir, record, seen, own)


def _through_the_gate(lane: Lane, arm: Arm, run_dir: Path) -> GateResult:
    """Wait for an empty node and write down the evidence; remember how little memory an empty GPU shows."""
    config = arm.config.gate
    gate = wait_until_idle(config, lane.gpus, on_wait=lane.observer.waiting, empty_mib=lane.empty_mib)
    if gate.evidence is not None:
        write_json(run_dir / "gate.json", asdict(gate))
    if gate.ok and not gate.reasons:
        for uuid, used_mib in gate.idle_mib.items():
            if used_mib is not None:
                lane.empty_mib[uuid] = min(used_mib, lane.empty_mib.get(uuid, used_mib))
    return gate


def _log_of(run_dir: Path) -> Path | None:
    """Return the log that a run was writing when it was stopped; None where it had not started, or writes none."""
    started = run_dir / "started.json"
    log = read_json(started, Started).log if started.is_file() else None
    return Path(log) if log else None


def _refused(run: Run, number: int, run_dir: Path, gate: GateResult) -> RunRecord:
    message = f"the node was not empty after {gate.waited_s:.0f} s: {'; '.join(gate.reasons)}"
    record = RunRecord(
        run, number, "disturbed", time.time(), 0.0, None, Cause("gate", message), gate_wait_s=gate.waited_s
    )
    write_record(run_dir, record)
    return record


def _prepare(lane: Lane, arm: Arm, run_dir: Path) -> Launch:
    """Write down all that the run is made of, before it starts."""
    launch = build_launch(arm, run_dir, lane.worktrees[arm.slug], lane.environ)
    for name, text in launch.files.items():
        write_text(run_dir / name, text)
    write_text(run_dir / "command.sh", command_script(launch), executable=True)
    write_json(run_dir / "env.json", launch.env)
    write_json(run_dir / "config.json", arm.config)
    return launch


def _run(
    lane: Lane, run: Run, number: int, run_dir: Path, launch: Launch, gate: GateResult, proof: Proof
) -> tuple[Watched, int | None, list[int], MonitorResult]:
    """Run and watch, with the monitor on: how it ended, its return code, what would not end, what was sampled."""
    config = lane.arm(run).config
    limits = Limits(config.measure.timeout_s, config.measure.stall_s, config.measure.grace_s, config.workload.steps)
    count = step_counter(run_dir, config.measure, launch.log)
    env = applied(lane.environ, launch.env)
    sightings = Sightings(lambda pid: process.owner_of(pid, str(run_dir)))
    source = lane.monitors.get(config.monitor.source, lane.gpus)
    monitor = Monitor(source, config.monitor.interval_s, idle_mib=gate.idle_mib or None, sightings=sightings)

    def progress(steps_seen: int, elapsed_s: float) -> None:
        proof.at(steps_seen)
        lane.observer.progress(steps_seen, elapsed_s)

    monitor.start()
    try:
        with process.running(launch.argv, env, launch.cwd, run_dir / "stdout.log", run_dir / "stderr.log") as child:
            log = str(launch.log) if launch.log else None
            write_json(run_dir / "started.json", Started(run, number, child.popen.pid, child.started_at, log))
            watched = watch(child, limits, count, progress)
    except LaunchError as error:
        return Watched("itself", cannot_start=str(error)), None, [], monitor.stop()
    finally:
        seen = monitor.stop()
    return watched, child.popen.returncode, child.stubborn, seen


def _not_started(run: Run, number: int, run_dir: Path, why: str) -> RunRecord:
    record = RunRecord(run, number, "failed", time.time(), 0.0, None, Cause("old_log", why))
    write_record(run_dir, record)
    return record


def _interrupted(run: Run, number: int, started_at: float) -> RunRecord:
    cause = Cause("interrupted", "Interlace was asked to stop while this run was on, or waited")
    return RunRecord(run, number, "interrupted", started_at, time.time() - started_at, None, cause)


def _read(arm: Arm, run: Run, run_dir: Path, launch: Launch, watched: Watched, returncode: int | None) -> RunRecord:
    """Read what the run left, and judge it. What the record says of time and the node is filled in afterwards."""
    log = keep_log(launch.log, run_dir)
    found = find_steps(run_dir, arm.config.measure, log)
    ranks = read_ranks(run_dir)
    ending = _ending(arm.config, run_dir, watched, returncode, found, ranks)
    status, cause, notes = judge(ending)
    steps, step_notes = _summary(arm.config, found.log, wanted=status == "ok")
    if found.log is not None:
        write_steps(run_dir, found.log.frame)
        notes = (*notes, *step_notes, *_told(found.log, ending.world_found), *found.log.errors)
    if status == "ok" and steps is None:
        status, cause = "incomplete", Cause("window", "; ".join(step_notes) or "no step summary")
    return RunRecord(
        run, 1, status, 0.0, 0.0, returncode, cause, steps, ending.steps_seen,
        found.log.reader if found.log is not None else None, ending.world_asked, ending.world_found, notes=notes,
    )  # fmt: skip


def _ending(
    config: SweepConfig, run_dir: Path, watched: Watched, returncode: int | None, found: Found,
    ranks: list[dict[str, Any]],
) -> Ending:  # fmt: skip
    log = found.log
    return Ending(
        returncode=returncode,
        ended_by=watched.ended_by,
        text=watched.cannot_start or tail_text(run_dir),
        steps_seen=int(log.frame["step"].nunique()) if log is not None else 0,
        last_step=int(slowest_rank(log.frame)["step"].max()) if log is not None and len(log.frame) else 0,
        steps_asked=config.workload.steps,
        window_last=config.measure.window[1],
        end_marker=log is not None and log.ended,
        world_asked=config.ranks.nproc_per_node or None,
        world_found=world_size(ranks, log),
        launcher=config.ranks.kind,
        limit_s=watched.limit_s,
        unreadable=found.why_not,
    )


def _told(log: StepLog, world: int | None) -> list[str]:
    """Leave out that a log does not say whose times it has where there is one rank only."""
    return [note for note in log.notes if world != 1 or not note.startswith("rank_unknown")]


def _with_node(record: RunRecord, run_dir: Path, proof: Proof, seen: MonitorResult) -> RunRecord:
    """Add what the monitor saw and where the ranks were found; a run that failed has other worries than its place."""
    placements = proof.placements(seen.sightings)
    write_json(run_dir / "placement.json", placements)
    notes = (*seen.notes, *crowded(seen), *(doubts(placements) if record.status == "ok" else ()))
    return replace(
        record, gpus=seen.gpus, foreign=foreigners_of(seen, placements), cpu_busy_pct=seen.cpu_busy_pct,
        notes=(*record.notes, *notes),
    )  # fmt: skip


def _gate_notes(gate: GateResult, stubborn: Sequence[int]) -> list[str]:
    notes = [f"gate passed over: {reason}" for reason in gate.reasons]
    if stubborn:
        notes.append(f"processes that could not be ended: {', '.join(map(str, stubborn))}")
    return notes


def _summary(config: SweepConfig, log: StepLog | None, *, wanted: bool) -> tuple[StepSummary | None, Sequence[str]]:
    if log is None or not wanted:
        return None, ()
    try:
        block = block_steps(config.stats.block, config.measure.period)
        seen = describe(log.frame, config.measure.window, block)
    except InterlaceError as error:
        return None, (str(error),)
    return seen.summary, seen.notes


def _persist(run_dir: Path, record: RunRecord, seen: MonitorResult, own: Took) -> RunRecord:
    """Persist before anything is shown; the record comes last and makes the run finished."""
    write_samples(run_dir / "monitor.parquet", seen)
    final = replace(record, own_cpu_s=round(own.cpu_s, 4), own_wall_s=round(own.wall_s, 4))
    write_record(run_dir, final)
    return final
