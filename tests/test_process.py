from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from interlace import process
from interlace.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.costly


def begun(tmp_path: Path, code: str) -> process.Child:
    env = {**os.environ, process.MARKER: str(tmp_path)}
    return process.start([sys.executable, "-c", code], env, tmp_path, tmp_path / "out", tmp_path / "err")


def eventually(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def runs(pid: int) -> bool:
    """A zombie whose new parent has not collected it is gone all the same."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_program_has_its_output_in_two_files_and_its_return_code(tmp_path: Path) -> None:
    child = begun(tmp_path, "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)")

    assert process.wait(child, 20.0) == 3
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("a\n", "b\n")


def test_a_program_that_does_not_exist_is_a_launch_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="cannot start '/nonexistent/binary'"):
        process.start(["/nonexistent/binary"], {}, tmp_path, tmp_path / "out", tmp_path / "err")


def test_waiting_costs_next_to_no_cpu(tmp_path: Path) -> None:
    child = begun(tmp_path, "import time; time.sleep(1)")
    before_s = time.process_time()

    assert process.wait(child, 20.0) == 0
    assert time.process_time() - before_s < 0.1


def test_a_waits_time_limit_returns_without_ending_the_program(tmp_path: Path) -> None:
    child = begun(tmp_path, "import time; time.sleep(30)")

    assert process.wait(child, 0.05) is None
    assert child.popen.poll() is None
    process.end(child.popen.pid, child.marker)
    process.reap(child)


def test_ending_takes_the_whole_tree_also_what_left_the_session_or_lost_its_parent(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "sleeper = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "a = subprocess.Popen(sleeper, start_new_session=True)\n"
        "b = subprocess.run([sys.executable, '-c', 'import subprocess, sys; "
        'print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],'
        " start_new_session=True, stdout=-3, stderr=-3).pid)'], capture_output=True, text=True)\n"
        "print(a.pid, b.stdout.strip(), flush=True)\n"
        "time.sleep(60)\n"
    )
    child = begun(tmp_path, code)
    assert eventually(lambda: len((tmp_path / "out").read_text().split()) == 2)
    pids = [int(pid) for pid in (tmp_path / "out").read_text().split()]

    assert process.end(child.popen.pid, child.marker, grace_s=2.0) == ()
    process.reap(child)

    assert eventually(lambda: not any(runs(pid) for pid in pids))


def test_a_program_that_ignores_being_asked_is_killed(tmp_path: Path) -> None:
    child = begun(
        tmp_path,
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)",
    )
    assert eventually(lambda: (tmp_path / "out").read_text() == "on\n")

    process.end(child.popen.pid, child.marker, grace_s=0.2)

    assert process.reap(child) == -9


def test_after_an_orchestrators_death_its_ranks_are_found_by_their_marker_alone(tmp_path: Path) -> None:
    child = begun(tmp_path, "import time; time.sleep(60)")

    assert eventually(lambda: [p.pid for p in process.members(None, str(tmp_path))] == [child.popen.pid])
    process.end(None, str(tmp_path))
    process.reap(child)

    assert process.members(None, str(tmp_path)) == []


def test_whatever_leaves_the_block_takes_the_program_with_it(tmp_path: Path) -> None:
    env = {**os.environ, process.MARKER: str(tmp_path)}
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]

    with (
        pytest.raises(OSError, match="disk full"),
        process.running(argv, env, tmp_path, tmp_path / "out", tmp_path / "err") as child,
    ):
        raise OSError("disk full")

    assert child.popen.returncode == -15


@pytest.mark.slow
def test_a_second_interrupt_waits_until_the_program_is_ended(tmp_path: Path) -> None:
    env = {**os.environ, process.MARKER: str(tmp_path)}
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    argv = [sys.executable, "-c", code]

    def interrupted_twice() -> None:
        with process.running(argv, env, tmp_path, tmp_path / "out", tmp_path / "err") as child:
            children.append(child)
            assert eventually(lambda: (tmp_path / "out").read_text() == "on\n")
            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            raise KeyboardInterrupt

    children: list[process.Child] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()

    assert children[0].popen.returncode == -9


def test_an_interrupt_while_a_finished_program_is_cleared_up_is_not_lost() -> None:
    def interrupted() -> None:
        with process.undisturbed():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_a_signal_that_was_ignored_at_the_start_stays_ignored_as_nohup_asks() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with process.stops_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_and_a_polite_kill_are_like_ctrl_c(number: signal.Signals) -> None:
    def stopped() -> None:
        with process.stops_interrupt():
            os.kill(os.getpid(), number)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        stopped()
