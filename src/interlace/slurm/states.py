"""In which state a job is, from what squeue and sacct answered and what lies on disk. Pure.

Order of trust: the job's own result, then squeue, then sacct. A job that is nowhere is `unknown` for a time of grace,
then `lost`: squeue forgets jobs minutes after their end, and accounting is often off.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from interlace.slurm.rows import Row, parse_sacct, parse_squeue

if TYPE_CHECKING:
    from collections.abc import Iterable

GRACE_S = 300.0
"""How long a job may be nowhere: accounting lags, and so does a shared folder."""

SKEW_S = 60.0
"""The controller's clock may be behind ours by this much. An older job of the same id is older by days."""

SUPERSEDED = frozenset({"PREEMPTED", "REQUEUED", "REQUEUE_FED", "NODE_FAIL", "REVOKED"})
"""States of a record after which Slurm may have begun another of the same job."""


@dataclass(frozen=True)
class JobState:
    """The state of one job: Slurm's word, or `unknown` or `lost`. `node` is a node list as Slurm compresses it."""

    state: str
    final: bool
    node: str | None
    reason: str | None
    source: Literal["record", "squeue", "sacct", "none"]
    notes: tuple[str, ...] = ()
    elapsed_s: float | None = None
    left_s: float | None = None
    exit_code: str | None = None


@dataclass(frozen=True)
class Answer:
    """How a program of Slurm answered. `rc` is None when it is missing or said nothing in time; stderr says which."""

    program: str
    stdout: str
    stderr: str
    rc: int | None

    @property
    def unusable(self) -> str | None:
        """Why the answer says nothing about any job; None when it does."""
        silent = not self.stdout.strip() and "error:" in self.stderr  # sacct without its database ends with 0, too
        if (self.rc == 0 and not silent) or "invalid job id" in self.stderr.lower():
            return None
        lines = [line.strip() for line in f"{self.stderr}\n{self.stdout}".splitlines() if line.strip()]
        return lines[0][:200] if lines else f"exit code {self.rc}"


@dataclass(frozen=True)
class Answers:
    """Both programs' answers; `accounts` is None where sacct was not asked."""

    queue: Answer
    accounts: Answer | None = None


def judge(
    job_id: str,
    answers: Answers,
    *,
    submitted_at: float | None,
    missing_s: float,
    grace_s: float = GRACE_S,
    own: str | None = None,
) -> JobState:
    """Return the state of a job. `missing_s`: how long ago it was last heard of; `own`: the state in its own result."""
    if own is not None:
        return JobState(own, final=True, node=None, reason=None, source="record")
    notes: list[str] = []
    for source, answer in (("squeue", answers.queue), ("sacct", answers.accounts)):
        if answer is None:
            continue
        if answer.unusable is not None:
            notes.append(f"{answer.program} says nothing of jobs: {answer.unusable}")
        rows = [row for row in _parsed(answer) if row.job_id == job_id]
        row = newest(rows, submitted_at)
        if row is not None:
            return _from_row(row, "squeue" if source == "squeue" else "sacct", tuple(notes))
        if rows:
            notes.append(f"{answer.program} knows only an older job {job_id}{_since(rows)}")
    return _nowhere(answers, missing_s, grace_s, tuple(notes))


def newest(rows: Iterable[Row], submitted_at: float | None = None) -> Row | None:
    """Return the last record of one job that is not older than our submission; None when there is none.

    Of records submitted in the same second, one that Slurm replaces (PREEMPTED, REQUEUED) comes before the others.
    """
    ours = [row for row in rows if submitted_at is None or not _older(row, submitted_at)]
    return max(
        enumerate(ours),
        key=lambda one: (one[1].submitted_at or 0.0, one[1].state not in SUPERSEDED, one[0]),
        default=(0, None),
    )[1]


def _older(row: Row, submitted_at: float) -> bool:
    return row.submitted_at is not None and row.submitted_at < submitted_at - SKEW_S


def _parsed(answer: Answer) -> tuple[Row, ...]:
    return parse_squeue(answer.stdout) if answer.program == "squeue" else parse_sacct(answer.stdout)


def _from_row(row: Row, source: Literal["squeue", "sacct"], notes: tuple[str, ...]) -> JobState:
    return JobState(row.state, row.final, row.node, row.reason, source, notes, row.elapsed_s, row.left_s, row.exit_code)


def _nowhere(answers: Answers, missing_s: float, grace_s: float, notes: tuple[str, ...]) -> JobState:
    """Judge a job that nobody knows; a queue that could not be asked cannot have lost it."""
    if answers.queue.unusable is not None or missing_s <= grace_s:
        return JobState("unknown", final=False, node=None, reason=None, source="none", notes=notes)
    gone = f"neither in the queue nor in the accounts for {missing_s:.0f} s, and it left no result"
    return JobState("lost", final=True, node=None, reason=gone, source="none", notes=notes)


def _since(rows: Iterable[Row]) -> str:
    moments = [row.submitted_at for row in rows if row.submitted_at is not None]
    return f" (submitted {datetime.fromtimestamp(max(moments)).astimezone():%Y-%m-%d %H:%M})" if moments else ""
