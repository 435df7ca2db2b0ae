"""The lanes of a sweep that was submitted: where each lies, its jobs, and what each job told of itself.

Every lane is a sweep folder of its own (`lanes/0`, `lanes/1` ...): plan, lock, node and runs are one node's, and no two
nodes ever write the same file. `lanes.json` stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlace.files import SweepDir, read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

LANES_FORMAT_VERSION = 1
"""Version of lanes.json and of session files. 1: first."""


@dataclass(frozen=True)
class LaneJob:
    """One lane: its folder below the sweep's, and the jobs submitted for it, the last one last."""

    number: int
    folder: str
    job_ids: tuple[str, ...] = ()
    submitted_at: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lanes:
    """What `lanes.json` holds. `python` and `versions` are those of the submitting side."""

    lanes: tuple[LaneJob, ...]
    python: str
    versions: dict[str, str] = field(default_factory=dict)
    format_version: int = LANES_FORMAT_VERSION


@dataclass(frozen=True)
class Session:
    """What one job wrote of itself: where it ran, until when it may, and how it ended.

    Times are unix seconds. `ended` is None while it runs, and stays so where the job was killed. A job that SLURM
    requeued keeps its id and writes another session; `restart` counts them.
    """

    job_id: str
    node: str
    python: str
    versions: dict[str, str]
    started_at: float
    ends_at: float | None = None
    ended_at: float | None = None
    ended: str | None = None
    restart: int = 0
    format_version: int = LANES_FORMAT_VERSION


def lanes_path(sweep_dir: SweepDir) -> Path:
    """Return where lanes.json lies."""
    return sweep_dir.path / "lanes.json"


def read_lanes(sweep_dir: SweepDir) -> Lanes | None:
    """Read lanes.json; None for a sweep that was measured where it was started."""
    path = lanes_path(sweep_dir)
    return read_json(path, Lanes) if path.is_file() else None


def write_lanes(sweep_dir: SweepDir, lanes: Lanes) -> None:
    """Write lanes.json."""
    write_json(lanes_path(sweep_dir), lanes)


def lane_dir(sweep_dir: SweepDir, lane: LaneJob) -> SweepDir:
    """Return the folder of a lane."""
    return SweepDir(sweep_dir.path / lane.folder)


def session_path(lane: SweepDir, job_id: str, restart: int = 0) -> Path:
    """Return where a job writes of itself; each time that it was requeued, into another file."""
    return lane.path / "sessions" / (f"{job_id}-{restart}.json" if restart else f"{job_id}.json")


def sessions(lane: SweepDir) -> list[Session]:
    """Read all sessions of a lane, oldest first."""
    found = [read_json(path, Session) for path in (lane.path / "sessions").glob("*.json")]
    return sorted(found, key=lambda one: one.started_at)


def other_environment(lanes: Lanes, session: Session) -> str | None:
    """Say what differs between a job's interpreter and packages and those of the submitting side; None if nothing."""
    names = sorted({*session.versions, *lanes.versions})
    pairs = ((name, session.versions.get(name), lanes.versions.get(name)) for name in names)
    parts = [
        f"{name} {there or 'missing'} (submitted with {here or 'none'})" for name, there, here in pairs if there != here
    ]
    if session.python != lanes.python:
        parts.insert(0, f"{session.python} (submitted with {lanes.python})")
    return f"ran under another environment on {session.node}: {', '.join(parts)}" if parts else None
