"""The only place of `source` that starts programs: each in its own session, so a time-out ends all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKTREE_TAG = "INTERLACE_WORKTREE"
"""Environment variable of what works on a worktree: when we are killed, its processes can still be found."""

GRACE_S = 5.0
"""How long a group has between SIGTERM and SIGKILL."""


@dataclass(frozen=True)
class Ended:
    """How a program ended. `stdout` and `stderr` are empty where they went to a file."""

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool


def run_child(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    log: IO[bytes] | None = None,
) -> Ended:
    """Run a program to its end, or end its whole process group after `timeout_s` or on an interrupt.

    With `log`, both its streams go there. Raises `OSError` when it cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if log is None else log,
        stderr=subprocess.PIPE if log is None else subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            out, err = _end_group(process)
            return Ended(process.returncode, out, err, timed_out=True)
        except BaseException:
            _end_group(process)
            raise
    return Ended(process.returncode, out or b"", err or b"", timed_out=False)


def end_orphans(worktree: Path) -> None:
    """End programs that a killed Interlace left writing in a worktree: git, or a set-up command."""
    deadline = time.monotonic() + GRACE_S
    while (orphans := _tagged(worktree)) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _tagged(worktree: Path) -> list[int]:
    entry = os.fsencode(f"{WORKTREE_TAG}={worktree}")
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has just ended, or it is another user's
            if entry in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def _end_group(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """SIGTERM, a moment, SIGKILL; what was still written comes back."""
    _signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(subprocess.TimeoutExpired):
        # A descendant that left the session may hold the pipes open: do not wait for it.
        out, err = process.communicate(timeout=1.0)
        return out or b"", err or b""
    return b"", b""


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
