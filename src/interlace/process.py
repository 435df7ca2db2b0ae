"""Starting the program of a run in its own session, and ending all of it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import psutil

from interlace.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

MARKER = "INTERLACE_RUN_DIR"
"""Environment variable that every process of a run inherits: it tells ours from everybody else's."""


@dataclass(frozen=True)
class Child:
    """A started program, the moment it started, the marker its descendants carry, and what would not end."""

    popen: subprocess.Popen[bytes]
    started_at: float
    marker: str
    stubborn: list[int] = field(default_factory=list)


@contextlib.contextmanager
def running(argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: Path, stderr: Path) -> Iterator[Child]:
    """Run a program for the length of the block; however the block is left, nothing of the program stays behind.

    A program that is still there then is asked to end, and killed after five seconds.
    """
    child = start(argv, env, cwd, stdout, stderr)
    try:
        yield child
    finally:
        ended = child.popen.poll() is not None
        with undisturbed():
            child.stubborn.extend(end(child.popen.pid, child.marker, 0.0 if ended else 5.0))
            reap(child)


def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: Path, stderr: Path) -> Child:
    """Start argv in a session of its own, output into two files. Raises LaunchError when it cannot start."""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        try:
            popen = subprocess.Popen(
                list(argv), env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            if not cwd.is_dir():
                raise LaunchError(f"cannot start {argv[0]!r}: there is no folder {cwd} (workload.cwd)") from error
            raise LaunchError(f"cannot start {argv[0]!r} in {cwd}: {error.strerror}") from error
    return Child(popen, time.time(), env.get(MARKER, ""))


MOST_ANCESTORS = 64
"""Deeper than any tree of processes that is not a loop."""

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The first pid namespace has this number on every Linux (PROC_PID_INIT_INO)."""

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a polite kill, and a closed terminal: each asks to stop."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and its kin until the end of the block: a second one must not leave ranks behind."""
    came: list[int] = []
    with _handled(STOPS, lambda number, _frame: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stops_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C for the length of the block."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with _handled(STOPS, interrupt):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle signals in another way for a while; only the main thread can, and only it is interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # What was ignored when we were started stays ignored: that is what nohup asks for.
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = [signal.signal(number, handler) for number in heeded]
    try:
        yield
    finally:
        for number, old in zip(heeded, before, strict=True):
            signal.signal(number, old)


def wait(child: Child, timeout_s: float) -> int | None:
    """Sleep until the program ends or the time is over; its return code, or None. Uses no CPU meanwhile."""
    if child.popen.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(child.popen.pid)
            try:
                select.select([descriptor], [], [], timeout_s)
            finally:
                os.close(descriptor)
    return child.popen.poll()


def members(child_pid: int | None, marker: str) -> list[psutil.Process]:
    """List every living process of a run: descendants, members of its session, carriers of its marker.

    Without `child_pid` only the marker counts: after an orchestrator's death the pid may be somebody else's.
    """
    found: dict[int, psutil.Process] = {}
    if child_pid is not None:
        with contextlib.suppress(psutil.Error):
            found = {process.pid: process for process in psutil.Process(child_pid).children(recursive=True)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = os.getsid(process.pid) == child_pid or _carries(process.pid, marker)
            if ours and process.pid != os.getpid():
                found[process.pid] = process
    return [process for process in found.values() if _alive(process)]


def owner_of(pid: int, marker: str) -> Literal["own", "foreign", "unknown"]:
    """Tell whose a process is: ours by descent or by its run's marker; `unknown` where /proc does not have it."""
    ancestor = pid
    for _ in range(MOST_ANCESTORS):
        if ancestor == os.getpid():
            return "own"
        try:
            with open(f"/proc/{ancestor}/stat", "rb") as stream:  # noqa: PTH123 (as in `_carries`)
                ancestor = int(stream.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            if ancestor == pid:
                return "unknown"
            break
        if ancestor <= 1:
            break
    try:
        return "own" if _carries(pid, marker) else "foreign"
    except OSError:
        return "foreign" if os.path.exists(f"/proc/{pid}") else "unknown"  # noqa: PTH110 (as above)


def has_host_pids() -> bool:
    """Tell whether this process lives in the machine's own pid namespace, whose pids the driver speaks of."""
    try:
        return os.readlink("/proc/self/ns/pid") == INITIAL_PID_NAMESPACE  # noqa: PTH115 (the text is no path)
    except OSError:
        return True


def _carries(pid: int, marker: str) -> bool:
    """Read the environment a process started with; another user's cannot be read, and is not ours.

    A marker that ends in a slash stands for every run folder below it.
    """
    if not marker:
        return False
    wanted = f"{MARKER}={marker}".encode()
    with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123 (thousands of times; Path is slower)
        values = stream.read().split(b"\0")
    return any(value == wanted or (marker.endswith("/") and value.startswith(wanted)) for value in values)


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def end(child_pid: int | None, marker: str, grace_s: float = 5.0) -> tuple[int, ...]:
    """End all of a run: ask (SIGTERM), wait, then kill. Returns the pids that would not go (D state)."""
    left = members(child_pid, marker)
    _signal_all(left, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (left := members(child_pid, marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for _ in range(20):
        if not left:
            break
        _signal_all(left, signal.SIGKILL)
        time.sleep(0.1)
        left = members(child_pid, marker)
    return tuple(process.pid for process in left)


def _signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def reap(child: Child, timeout_s: float = 5.0) -> int | None:
    """Collect the return code of a program that has been ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.popen.wait(timeout_s)
    return None
