"""Asks Slurm's queue about jobs, and takes jobs out of it: the only module that starts squeue, sacct and scancel."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.slurm.rows import SACCT_FORMAT, SQUEUE_FORMAT, job_ids, parse_squeue
from interlace.slurm.states import GRACE_S, Answer, Answers, JobState, judge, newest
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT_S = 20.0
"""How long one program may take. A controller that is down makes squeue try again for minutes."""

_OTHER_ANSWER = ("SQUEUE_", "SACCT_")
_SITES_CHOICE = ("SQUEUE_CLUSTERS",)
"""The user's formats and filters would change the answer; which cluster is meant is theirs to say."""


def job_states(
    ids: Sequence[str],
    submitted_at: Mapping[str, float],
    *,
    last_seen_at: Mapping[str, float] | None = None,
    grace_s: float = GRACE_S,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, JobState]:
    """Return the state of each job: from squeue, and from sacct for those that squeue no longer knows.

    Moments are seconds since the epoch; a job is missing since it was last seen, or since its submission. Never
    raises for what Slurm's programs do: missing, slow or refusing ones are notes on the states.
    """
    _check(ids)
    if not ids:
        return {}
    joined = ",".join(ids)
    queue = ask(["squeue", "--noheader", "--states=all", "-j", joined, "-o", SQUEUE_FORMAT], timeout_s)
    rows = parse_squeue(queue.stdout)
    absent = [one for one in ids if not newest([r for r in rows if r.job_id == one], submitted_at.get(one))]
    accounts = _ask_accounts(absent, timeout_s) if absent else None
    now = time.time()
    seen_at = {**submitted_at, **(last_seen_at or {})}
    return {
        one: judge(
            one,
            Answers(queue, accounts if one in absent else None),
            submitted_at=submitted_at.get(one),
            missing_s=now - seen_at.get(one, now),
            grace_s=grace_s,
        )
        for one in ids
    }


def cancel(ids: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """Cancel jobs with scancel; return those that Slurm no longer knew (they ended long ago).

    A job that has already ended is no error. Raises UsageError when scancel is missing or refuses.
    """
    _check(ids)
    if not ids:
        return ()
    # Without --verbose it says nothing of jobs that it does not know.
    answer = ask(["scancel", "--verbose", *ids], timeout_s)
    lines = [line for line in answer.stderr.splitlines() if line.strip()]
    unknown = [line for line in lines if "invalid job id" in line.lower()]
    # One that is just ending, or has ended, is where it was wanted.
    done = [line for line in lines if re.search(r"already (completing|completed|finished)", line, re.IGNORECASE)]
    problems = [line for line in lines if line not in unknown + done and "error" in line.lower()]
    if problems or (answer.rc != 0 and not unknown + done):
        what = problems[0].strip() if problems else answer.unusable
        raise UsageError(
            f"cannot cancel {_named(ids)}: {what}; see what still runs with: squeue --me, then: scancel {ids[0]}"
        )
    return tuple(one for one in ids if any(re.search(rf"\b{re.escape(one)}\b", line) for line in unknown))


def ask(argv: Sequence[str], timeout_s: float) -> Answer:
    """Start a program of Slurm and return what it said; after `timeout_s` it is killed, children and all."""
    program = argv[0]
    try:
        child = subprocess.Popen(
            list(argv), env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        return Answer(program, "", f"cannot start {program}: {error.strerror}", None)
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Answer(program, "", f"{program} did not answer within {timeout_s:g} s", None)
    finally:
        _end(child)
    return Answer(program, stdout, stderr, child.returncode)


def _end(child: subprocess.Popen[str]) -> None:
    """Leave nothing of a program that is still there, however we came here."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _ask_accounts(ids: Sequence[str], timeout_s: float) -> Answer:
    return ask(["sacct", "-n", "-X", "-P", "-o", SACCT_FORMAT, "-j", ",".join(ids)], timeout_s)


def _environment() -> dict[str, str]:
    """Let nothing of the user's change the form of an answer: times, cut array ids, formats, filters."""
    kept = {k: v for k, v in os.environ.items() if k in _SITES_CHOICE or not k.startswith(_OTHER_ANSWER)}
    return {**kept, "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}


def _check(ids: Sequence[str]) -> None:
    """Let only ids onto a command line: `-u` there would be another command."""
    odd = [one for one in ids if job_ids(one) != (one,)]
    if odd:
        raise UsageError(f"{odd[0]!r} is not the id of a Slurm job; it has the form 4242 or 4242_3")


def _named(ids: Sequence[str]) -> str:
    return f"job {ids[0]}" if len(ids) == 1 else f"jobs {first_of(ids, 3)}"
