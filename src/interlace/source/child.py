"""The only place of `source` that starts programs: each in its own session, so a time-out ends all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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
