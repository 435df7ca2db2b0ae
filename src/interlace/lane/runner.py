"""One run, from the gate to its record on disk."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from interlace import process
from interlace.errors import InterlaceError, LaunchError
from interlace.files import write_json, write_text
from interlace.gate import wait_until_idle
from interlace.lane.causes import RETRYABLE, Ending, judge
from interlace.lane.runlog import Found, find_steps, read_ranks, step_counter, tail_text, world_size
from interlace.lane.watch import Limits, Watched, watch
from interlace.launch import build_launch, command_script
from interlace.monitor.sampler import Monitor
from interlace.monitor.samples import write_samples
from interlace.records import Started, make_run_dir, write_record, write_steps
from interlace.schema import Cause, RunRecord
from interlace.stats import describe
from interlace.steplog import slowest_rank

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
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
        record = _attempt(lane, run)
        if record.cause is None or record.cause.code not in RETRYABLE or record.steps_seen:
            return record
        lane.observer.say(f"{run.id}: {record.cause.message}; started anew")
    return _attempt(lane, run)


def _attempt(lane: Lane, run: Run) -> RunRecord:
    began_s, own_began_s = time.monotonic(), time.process_time()
    number, run_dir = make_run_dir(lane.sweep_dir, run)
    arm = lane.arm(run)
    gate = wait_until_idle(arm.config.gate, lane.gpus)
    if not gate.ok:
        return _refused(run, number, run_dir, gate)
    launch = _prepare(lane, arm, run_dir)
    monitor = Monitor(lane.gpus, arm.config.monitor.interval_s, idle_mib=gate.idle_mib or None)
    monitor.start()
    started_at, started_s = time.time(), time.monotonic()
    try:
        watched = _run_and_watch(lane, run, number, run_dir, launch)
    except KeyboardInterrupt:
        write_record(run_dir, _interrupted(run, number, started_at, time.monotonic() - started_s))
        raise
    except LaunchError as error:
        watched = Watched("itself", None, 0.0, cannot_start=str(error))
    finally:
        seen = monitor.stop()
    wall_s = time.monotonic() - started_s
    record = _read(arm, run, number, run_dir, watched, seen, gate, started_at, wall_s)
    own = Took(time.process_time() - own_began_s, time.monotonic() - began_s - wall_s - gate.waited_s)
    return _persist(run_dir, record, seen, own)


def _refused(run: Run, number: int, run_dir: Path, gate: GateResult) -> RunRecord:
    message = f"the node was not empty after {gate.waited_s:.0f} s: {'; '.join(gate.reasons)}"
    record = RunRecord(
        run, number, "disturbed", time.time(), 0.0, None, Cause("gate", message), gate_wait_s=gate.waited_s
    )
    write_json(run_dir / "gate.json", asdict(gate))
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


def _run_and_watch(lane: Lane, run: Run, number: int, run_dir: Path, launch: Launch) -> Watched:
    config = lane.arm(run).config
    env = {**lane.environ, **launch.env}
    child = process.start(launch.argv, env, launch.cwd, run_dir / "stdout.log", run_dir / "stderr.log")
    write_json(run_dir / "started.json", Started(run, number, child.popen.pid, child.started_at))
    limits = Limits(config.measure.timeout_s, config.measure.stall_s, config.measure.grace_s, config.workload.steps)
    return watch(child, limits, step_counter(run_dir, config.measure), lane.observer.progress)


def _interrupted(run: Run, number: int, started_at: float, wall_s: float) -> RunRecord:
    cause = Cause("interrupted", "Interlace was asked to stop while this run was on")
    return RunRecord(run, number, "interrupted", started_at, wall_s, None, cause)


def _read(
    arm: Arm, run: Run, number: int, run_dir: Path, watched: Watched,
    seen: MonitorResult, gate: GateResult, started_at: float, wall_s: float,
) -> RunRecord:  # fmt: skip
    """Read what the run left, and judge it."""
    found = find_steps(run_dir, arm.config.measure)
    ranks = read_ranks(run_dir)
    ending = _ending(arm.config, run_dir, watched, found, ranks)
    status, cause, notes = judge(ending)
    steps, step_notes = _summary(arm.config, found.log, status == "ok")
    write_json(run_dir / "placement.json", ranks)
    if found.log is not None:
        write_steps(run_dir, found.log.frame)
    log_notes = (*found.log.notes, *found.log.errors) if found.log is not None else ()
    stubborn = _stubborn_note(watched)
    gate_notes = tuple(f"gate passed over: {reason}" for reason in gate.reasons)
    if status == "ok" and steps is None:
        status, cause = "incomplete", Cause("window", "; ".join(step_notes) or "no step summary")
    return RunRecord(
        run, number, status, started_at, wall_s, ending.returncode, cause, steps, ending.steps_seen,
        found.log.reader if found.log is not None else None, ending.world_asked, ending.world_found,
        seen.peaks, seen.cpu_busy_pct, gate_wait_s=gate.waited_s,
        notes=(*notes, *step_notes, *gate_notes, *stubborn, *log_notes, *seen.notes),
    )  # fmt: skip


def _ending(
    config: SweepConfig, run_dir: Path, watched: Watched, found: Found,
    ranks: list[dict[str, Any]],
) -> Ending:  # fmt: skip
    log = found.log
    last_step = int(slowest_rank(log.frame)["step"].max()) if log is not None and len(log.frame) else 0
    return Ending(
        returncode=watched.returncode,
        ended_by=watched.ended_by,
        text=watched.cannot_start or tail_text(run_dir),
        steps_seen=int(log.frame["step"].nunique()) if log is not None else 0,
        last_step=last_step,
        steps_asked=config.workload.steps,
        window_last=config.measure.window[1],
        end_marker=log is not None and log.ended,
        world_asked=config.ranks.nproc_per_node or None,
        world_found=world_size(ranks, log),
        launcher=config.ranks.kind,
        limit_s=watched.limit_s,
        unreadable=found.why_not,
    )


def _stubborn_note(watched: Watched) -> tuple[str, ...]:
    if not watched.stubborn:
        return ()
    return (f"processes that could not be ended: {', '.join(map(str, watched.stubborn))}",)


def _summary(config: SweepConfig, log: StepLog | None, wanted: bool) -> tuple[StepSummary | None, Sequence[str]]:
    if log is None or not wanted:
        return None, ()
    try:
        seen = describe(log.frame, config.measure.window, config.stats.block)
    except InterlaceError as error:
        return None, (str(error),)
    summary = replace(seen.summary, sd_s=seen.sd_s, stall_share=seen.stall_share, resolution=seen.resolution)
    return summary, seen.notes


def _persist(run_dir: Path, record: RunRecord, seen: MonitorResult, own: Took) -> RunRecord:
    """Persist before anything is shown; the record comes last and makes the run finished."""
    write_samples(run_dir / "monitor.parquet", seen)
    final = replace(record, own_cpu_s=round(own.cpu_s, 4), own_wall_s=round(own.wall_s, 4))
    write_record(run_dir, final)
    return final
