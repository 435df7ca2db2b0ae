"""How every lane of a submitted sweep stands: from its records first, then from the queue."""

from __future__ import annotations

import contextlib
import glob
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.errors import ReadError, UsageError
from interlace.files import is_locked, read_json
from interlace.lanes import LaneJob, lane_dir, other_environment, read_lanes, sessions
from interlace.records import attempts, is_finished, read_plan, remaining
from interlace.slurm.outcome import ENDED, WAITING, JobFolder, job_outcome
from interlace.slurm.queue import job_states
from interlace.slurm.waiting import waits_for

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.lanes import Lanes, Session
    from interlace.slurm.states import JobState


@dataclass(frozen=True)
class LaneState:
    """One lane: its last job in the queue (None before it has one), what that job told, and its runs.

    `waits` and `runs`: as the lane tells of itself, and where it tells nothing, SLURM. `given_up`: SLURM calls its job
    over, yet it is at work. `silent_s`: how long ago it wrote the last file, while it runs. `other`: how its
    environment differs from the submitting side's.
    """

    lane: LaneJob
    job: JobState | None
    session: Session | None
    done: int
    total: int
    left: int
    waits: bool = False
    runs: bool = False
    given_up: bool = False
    now: str | None = None
    silent_s: float | None = None
    other: str | None = None

    @property
    def alive(self) -> bool:
        """Whether its job waits or runs, or will come again."""
        return self.waits or self.runs


def lane_states(sweep_dir: SweepDir) -> list[LaneState]:
    """Look at every lane. Raises UsageError for a sweep without lanes."""
    lanes = read_lanes(sweep_dir)
    if lanes is None:
        raise UsageError(f"{sweep_dir.path} was measured where it was started; it has no lanes")
    last = {lane.job_ids[-1]: lane.submitted_at[-1] for lane in lanes.lanes if lane.job_ids}
    jobs = job_states(list(last), last, last_seen_at=_last_seen(sweep_dir, lanes)) if last else {}
    return [_state(sweep_dir, lanes, lane, jobs) for lane in lanes.lanes]


def _last_seen(sweep_dir: SweepDir, lanes: Lanes) -> dict[str, float]:
    """Return when each lane's last job was last heard of: the files that it wrote tell."""
    seen = {}
    for lane in lanes.lanes:
        folder = lane_dir(sweep_dir, lane)
        if lane.job_ids and (moments := _written_at(folder)):
            seen[lane.job_ids[-1]] = max(moments)
    return seen


def _written_at(folder: SweepDir) -> list[float]:
    """Return when the files of a lane were last written: its own, its records, and the logs of the run that is on."""
    own = [folder.state, *(folder.path / "sessions").glob("*.json"), *folder.runs.glob("*/record.json")]
    run = glob.escape(_current_run(folder) or "")
    logs = [path for log in ("std*.log", "steps/*") for path in folder.runs.glob(f"{run}*/{log}")] if run else []
    moments = []
    for path in (*own, *logs):
        with contextlib.suppress(FileNotFoundError):  # state.json goes with the lane's end
            moments.append(path.stat().st_mtime)
    return moments


def _current_run(folder: SweepDir) -> str | None:
    """Return the run that is on, or was when its lane was killed."""
    try:
        return str(read_json(folder.state, dict).get("run"))
    except ReadError:  # there is none, or it went while we looked
        return None


def _state(sweep_dir: SweepDir, lanes: Lanes, lane: LaneJob, jobs: dict[str, JobState]) -> LaneState:
    folder, now_s = lane_dir(sweep_dir, lane), time.time()
    plan = read_plan(folder)
    own = [one for one in sessions(folder) if lane.job_ids and one.job_id == lane.job_ids[-1]]
    job, session = jobs.get(lane.job_ids[-1]) if lane.job_ids else None, own[-1] if own else None
    waits, runs = waits_or_runs(job, session, now_s)
    given_up = not waits and not runs and is_locked(folder)
    return LaneState(
        lane,
        job,
        session,
        done=sum(is_finished(attempts(folder, run)) for run in plan.runs if run.round not in plan.repeated),
        total=sum(run.round not in plan.repeated for run in plan.runs),
        left=len(remaining(folder, plan)),
        waits=waits,
        runs=runs or given_up,
        given_up=given_up,
        now=_current_run(folder),
        silent_s=now_s - max(_written_at(folder), default=now_s) if runs and session else None,
        other=other_environment(lanes, session) if session else None,
    )


def waits_or_runs(job: JobState | None, session: Session | None, now_s: float) -> tuple[bool, bool]:
    """Tell whether a job waits, and whether it runs, by SLURM's state and what the job wrote of itself. Pure.

    A job whose lane has ended is over, though SLURM may call it running for a moment more; unless it began after that
    end, or waits: then it was requeued, and comes again.
    """
    if job is None or job.final:
        return False, False
    # While one that was requeued is still completing, its time is 0 already.
    waits = job.state in WAITING or (job.state == "COMPLETING" and job.elapsed_s == 0)
    if waits or session is None or session.ended_at is None:
        return waits, not waits
    return False, job.state == "RUNNING" and now_s - (job.elapsed_s or 0.0) > session.ended_at


TAIL_CHARS = 2000
SILENT_S = 120.0
"""Longer than most trainers are silent; a compilation may be longer, so this is said and nothing follows from it."""
UNHEARD_S = 60.0
"""A lane writes of itself within seconds of its job's start."""


def _unheard(state: LaneState) -> str:
    """Say that a running job has not written into the sweep's folder: its node may not see it."""
    job = state.job
    if state.session is not None or job is None or job.state != "RUNNING" or (job.elapsed_s or 0.0) < UNHEARD_S:
        return ""
    return f"; it has written nothing yet: is the sweep's folder visible on {job.node}? see {state.lane.folder}/slurm"


def _silent(state: LaneState) -> str:
    """Say that a running lane has written nothing for long: a node that died runs on for Slurm, for minutes."""
    if state.session is None or state.silent_s is None or state.silent_s < SILENT_S:
        return ""
    node = state.job.node if state.job is not None and state.job.node else state.session.node
    return f"; it has written nothing for {state.silent_s // 60:.0f} min: does its node answer? (sinfo -n {node})"


def told(state: LaneState, step: int | None = None) -> str:
    """Write one lane in a line: job, where, how far, and what is odd; `step` is that of the run that is on."""
    job = f"job {state.lane.job_ids[-1]}" if state.lane.job_ids else "not submitted"
    runs = f"{state.done} of {state.total} runs done"
    now = f", now {state.now}" if state.now and state.runs else ""
    steps = "" if step is None else f", step {step}"
    other = f"; it {state.other}" if state.other else ""
    odd = f"{_unheard(state)}{_silent(state)}{other}"
    return f"lane {state.lane.number}: {job}{_stands(state)}; {runs}{now}{steps}{odd}"


def _stands(state: LaneState) -> str:
    """Say how a lane's job stands, and where."""
    where = f" on {state.session.node}" if state.session else ""
    if state.job is None:
        return ""
    if state.given_up:
        return f" is over for Slurm ({state.job.state}), but the lane is still at work{where}"
    if state.waits:
        reason = waits_for(state.job.reason)
        again = f", to go on after it {_ended(state)}{where}" if state.session else ""
        return f" {state.job.state.lower()}{f' ({reason})' if reason else ''}{again}"
    if state.runs:
        return f" {state.job.state.lower()}{where}"
    if state.session is not None and state.session.ended is not None:
        return f" {state.session.ended}{where}"
    meaning = ENDED.get(state.job.state, ("", "it was killed, or ended before it could write"))[1]
    where = where or (f" on {state.job.node}" if state.job.node else "")
    return f" ended without a word: {meaning} (Slurm: {state.job.state}){where}"


def _ended(state: LaneState) -> str:
    ended = state.session.ended if state.session is not None else None
    return f"was {ended}" if ended == "interrupted" else f"ended ({ended})" if ended else "was killed"


def ending(sweep_dir: SweepDir, state: LaneState) -> str | None:
    """Show the ends of the logs of a lane's job that ended without a word; None for any other lane."""
    silent = state.session is None or state.session.ended is None
    if state.alive or state.job is None or not silent:
        return None
    job_id, folder = state.lane.job_ids[-1], lane_dir(sweep_dir, state.lane).path / "slurm"
    logs = [path for path in folder.glob(f"{job_id}*") if path.suffix in (".out", ".err")]
    tails = {path.name: path.read_text(errors="replace")[-TAIL_CHARS:] for path in logs}
    return job_outcome(
        job_id, JobFolder(tuple(path.name for path in folder.iterdir()), None, tails), state.job
    ).sentence
