"""How every lane of a submitted sweep stands: from its records first, then from the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.files import read_json
from interlace.lanes import LaneJob, lane_dir, read_lanes, sessions
from interlace.records import attempts, is_finished, read_plan, remaining
from interlace.slurm.outcome import ENDED, JobFolder, job_outcome
from interlace.slurm.queue import job_states
from interlace.slurm.waiting import waits_for

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.lanes import Lanes, Session
    from interlace.slurm.states import JobState


@dataclass(frozen=True)
class LaneState:
    """One lane: its last job in the queue (None before it has one), what that job told, and its runs."""

    lane: LaneJob
    job: JobState | None
    session: Session | None
    done: int
    total: int
    left: int
    now: str | None = None

    @property
    def alive(self) -> bool:
        """Whether its job waits or runs."""
        if self.job is None or (self.session is not None and self.session.ended_at is not None):
            return False
        return not self.job.final


def lane_states(sweep_dir: SweepDir) -> list[LaneState]:
    """Look at every lane. Raises UsageError for a sweep without lanes."""
    lanes = read_lanes(sweep_dir)
    if lanes is None:
        raise UsageError(f"{sweep_dir.path} was measured where it was started; it has no lanes")
    last = {lane.job_ids[-1]: lane.submitted_at[-1] for lane in lanes.lanes if lane.job_ids}
    jobs = job_states(list(last), last, last_seen_at=_last_seen(sweep_dir, lanes)) if last else {}
    return [_state(sweep_dir, lane, jobs) for lane in lanes.lanes]


def _last_seen(sweep_dir: SweepDir, lanes: Lanes) -> dict[str, float]:
    """Return when each lane's last job was last heard of: the files that it wrote tell."""
    seen = {}
    for lane in lanes.lanes:
        folder = lane_dir(sweep_dir, lane)
        files = [folder.state, *(folder.path / "sessions").glob("*.json"), *folder.runs.glob("*/record.json")]
        moments = [path.stat().st_mtime for path in files if path.is_file()]
        if lane.job_ids and moments:
            seen[lane.job_ids[-1]] = max(moments)
    return seen


def _state(sweep_dir: SweepDir, lane: LaneJob, jobs: dict[str, JobState]) -> LaneState:
    folder = lane_dir(sweep_dir, lane)
    plan = read_plan(folder)
    own = [one for one in sessions(folder) if lane.job_ids and one.job_id == lane.job_ids[-1]]
    done = sum(is_finished(attempts(folder, run)) for run in plan.runs if run.round not in plan.repeated)
    now = str(read_json(folder.state, dict).get("run")) if folder.state.is_file() else None
    job = jobs.get(lane.job_ids[-1]) if lane.job_ids else None
    session = own[-1] if own else None
    total = sum(run.round not in plan.repeated for run in plan.runs)
    return LaneState(lane, job, session, done, total, len(remaining(folder, plan)), now)


TAIL_CHARS = 2000
UNHEARD_S = 60.0
"""A lane writes of itself within seconds of its job's start."""


def _unheard(state: LaneState) -> str:
    """Say that a running job has not written into the sweep's folder: its node may not see it."""
    job = state.job
    if state.session is not None or job is None or job.state != "RUNNING" or (job.elapsed_s or 0.0) < UNHEARD_S:
        return ""
    return f"; it has written nothing yet: is the sweep's folder visible on {job.node}? see {state.lane.folder}/slurm"


def told(state: LaneState) -> str:
    """Write one lane in a line: job, where, how far, and what is odd."""
    job = f"job {state.lane.job_ids[-1]}" if state.lane.job_ids else "not submitted"
    where = f" on {state.session.node}" if state.session else ""
    runs = f"{state.done} of {state.total} runs done"
    if state.alive and state.job is not None:
        now = f", now {state.now}" if state.now else ""
        reason = waits_for(state.job.reason) if state.session is None else None
        why = f" ({reason})" if reason else ""
        return f"lane {state.lane.number}: {job} {state.job.state.lower()}{why}{where}; {runs}{now}{_unheard(state)}"
    if state.session is not None and state.session.ended is not None:
        return f"lane {state.lane.number}: {job} {state.session.ended}{where}; {runs}"
    if state.job is None:
        return f"lane {state.lane.number}: {job}; {runs}"
    meaning = ENDED.get(state.job.state, ("", "it was killed, or ended before it could write"))[1]
    return f"lane {state.lane.number}: {job} ended without a word: {meaning} (Slurm: {state.job.state}){where}; {runs}"


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
