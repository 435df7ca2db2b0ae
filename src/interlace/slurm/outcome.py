"""How a job ended, from what lies in its folder and what Slurm says of it. Pure.

Only a result on disk that says so is a success: a job whose state is COMPLETED or FINISHED may have been killed
before it wrote anything, and a function that returns its child's exit code returns 3 as readily as 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from interlace.slurm.rows import state_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.slurm.states import JobState

TAIL_LINES = 5
"""How much of each log goes into a sentence."""

ENDED = {
    "TIMEOUT": ("time_limit", "Slurm ended it at its time limit"),
    "DEADLINE": ("time_limit", "Slurm ended it at its deadline"),
    "OUT_OF_MEMORY": ("host_oom", "it used more memory than it had asked for and was killed"),
    "CANCELLED": ("cancelled", "it was cancelled"),
    "PREEMPTED": ("preempted", "another job took its nodes (preempted)"),
    "NODE_FAIL": ("node_failed", "its node failed"),
    "BOOT_FAIL": ("node_failed", "its node did not boot"),
    "LAUNCH_FAILED": ("node_failed", "its node could not start it"),
    "RECONFIG_FAIL": ("node_failed", "its node could not be set up"),
    "REVOKED": ("cancelled", "another cluster took it"),
    "lost": ("lost", "Slurm no longer knows it"),
}
"""What Slurm's last word on a job means where the job itself left none."""

WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
FINISHED_NAMES = frozenset({"FINISHED", "INTERRUPTED"})
"""What submitit makes of states it cannot explain; says only that there is nothing more to come."""


@dataclass(frozen=True)
class JobFolder:
    """What lies in a job's folder: names of files, submitit's result as read, the ends of its logs by file name.

    `result` is submitit's pair: ("success", value) or ("error", traceback); None where there is none to read.
    """

    files: tuple[str, ...]
    result: tuple[str, object] | None = None
    tails: Mapping[str, str] | None = None
    steps_seen: int | None = None


@dataclass(frozen=True)
class JobOutcome:
    """How a job stands. `reason` is a code, `sentence` says it with the ends of the logs; both None in a success."""

    status: Literal["ok", "failed", "running", "waiting", "unknown"]
    reason: str | None = None
    sentence: str | None = None
    returncode: int | None = None
    steps_seen: int | None = None
    notes: tuple[str, ...] = ()


def job_outcome(job_id: str, folder: JobFolder, state: JobState | str | None = None) -> JobOutcome:
    """Say how a job ended: its own result first, then Slurm's state.

    `state` may be a bare word of submitit's, which hands on what sacct printed (`CANCELLED by 1000`, `OUT_OF_ME+`).
    """
    name = state_of(state)[0] if isinstance(state, str) else "unknown" if state is None else state.state
    final = name in FINISHED_NAMES | ENDED.keys() if isinstance(state, str) else state is not None and state.final
    if folder.result is not None:
        return _of_result(job_id, folder, folder.result, name)
    if (final or name in ("COMPLETED", "FAILED")) and name != "unknown":
        return _without_result(job_id, folder, name, state)
    return JobOutcome(_going_on(name), None, f"job {job_id} is {name.lower()}", None, folder.steps_seen)


def _of_result(job_id: str, folder: JobFolder, result: tuple[str, object], state: str) -> JobOutcome:
    kind, value = result
    if kind != "success":
        last = next((line for line in reversed(str(value).splitlines()) if line.strip()), str(value))
        return _failed(job_id, folder, "exception", f"raised {last.strip()[:300]}")
    if isinstance(value, bool) or not isinstance(value, int):
        return _failed(job_id, folder, "no_exit_code", f"returned {str(value)[:100]!r}, which is no exit code")
    if value != 0:
        return _failed(job_id, folder, "nonzero_exit", f"ended with exit code {value}", value)
    notes = (f"Slurm says {state} of a job that had finished",) if state in ENDED or state == "FAILED" else ()
    return JobOutcome("ok", None, None, 0, folder.steps_seen, notes)


def _without_result(job_id: str, folder: JobFolder, name: str, state: JobState | str | None) -> JobOutcome:
    """Nothing is known of the end but what Slurm says, and it is a failure whatever that is."""
    code = None if isinstance(state, str) or state is None else state.exit_code
    reason, what = ENDED.get(name, ("no_result", "it was killed, or it exited before it could write its result"))
    if reason == "no_result":
        reason, what = _not_begun(folder, state) or (reason, what)
    if any(file.endswith("_result.pkl") for file in folder.files):
        reason, what = "unreadable_result", "its result file cannot be read"
    elif not _logs(folder):
        what += "; it left no log either: is its folder on a file system that the nodes share"
        what += "?" if reason in ("no_result", "not_launched") else ", if it ever ran?"
    exited = f", exit code {code}" if code and code != "0:0" else ""
    return _failed(job_id, folder, reason, f"ended without a result (Slurm: {name}{exited}): {what}")


_NO_INTERPRETER = re.compile(
    r"^(?:.*: )?(/\S*): (?:exec: )?(No such file or directory|not found|Permission denied|[Cc]annot execute.*)$",
    re.MULTILINE,
)
_NO_MODULE = re.compile(r"No module named '?([\w.]+)'?")


def _not_begun(folder: JobFolder, state: JobState | str | None) -> tuple[str, str] | None:
    """Recognise a job that never came to its function: no interpreter there, another environment, not launched."""
    text = "\n".join((folder.tails or {}).values())
    if found := _NO_INTERPRETER.search(text):
        return "no_interpreter", f"its node has no {found[1]} that could be run ({found[2]}): is it on a shared disk?"
    if found := _NO_MODULE.search(text):
        return (
            "other_environment",
            f"the Python of its node has no {found[1]}: is it the environment that submitted it?",
        )
    if state is not None and not isinstance(state, str) and state.reason == "JobLaunchFailure":
        return "not_launched", "its node could not launch it (JobLaunchFailure)"
    return None


def _failed(job_id: str, folder: JobFolder, reason: str, what: str, returncode: int | None = None) -> JobOutcome:
    steps = "" if folder.steps_seen is None else f"; {folder.steps_seen} steps were seen"
    sentence = "\n".join([f"job {job_id} {what}{steps}", *_ends(folder)])
    return JobOutcome("failed", reason, sentence, returncode, folder.steps_seen)


def _ends(folder: JobFolder) -> list[str]:
    """Show the end of each log, or that there is nothing in it."""
    shown = []
    for name in _logs(folder):
        lines = [line.rstrip() for line in (folder.tails or {}).get(name, "").splitlines() if line.strip()]
        shown.append(f"  {name}: {'nothing' if not lines else ''}".rstrip())
        shown.extend(f"    {line[:300]}" for line in lines[-TAIL_LINES:])
    return shown


def _logs(folder: JobFolder) -> Sequence[str]:
    names = [*folder.files, *(folder.tails or {})]
    return sorted({name for name in names if name.endswith((".out", ".err", ".log"))}, reverse=True)


def _going_on(name: str) -> Literal["running", "waiting", "unknown"]:
    if name in WAITING:
        return "waiting"
    return "unknown" if name in ("unknown", "UNKNOWN") else "running"
