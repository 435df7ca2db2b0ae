from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from interlace import process
from interlace.lane import watch
from interlace.lane.watch import Limits

if TYPE_CHECKING:
    from pathlib import Path

LONG = Limits(timeout_s=60.0, stall_s=60.0, grace_s=60.0, steps=None)


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.05)


def sleeper(tmp_path: Path, seconds: float) -> process.Child:
    env = {**os.environ, process.MARKER: str(tmp_path)}
    argv = [sys.executable, "-c", f"import time; time.sleep({seconds})"]
    return process.start(argv, env, tmp_path, tmp_path / "out", tmp_path / "err")


def watched(tmp_path: Path, limits: Limits, count: int = 0, seconds: float = 60.0) -> watch.Watched:
    return watch.watch(sleeper(tmp_path, seconds), limits, lambda: count, lambda _n, _s: None)


def test_a_run_that_ends_by_itself_is_left_alone(tmp_path: Path) -> None:
    assert watched(tmp_path, LONG, seconds=0.1) == watch.Watched("itself", 0, 0.0)


def test_a_run_longer_than_its_limit_is_ended(tmp_path: Path) -> None:
    ended = watched(tmp_path, Limits(0.3, 60.0, 60.0, None))

    assert (ended.ended_by, ended.returncode, ended.limit_s) == ("timeout", -15, 0.3)


def test_a_run_with_no_new_step_is_ended(tmp_path: Path) -> None:
    assert watched(tmp_path, Limits(60.0, 0.3, 60.0, None), count=5).ended_by == "stall"


def test_a_run_that_stays_after_its_last_step_is_ended_when_the_grace_is_over(tmp_path: Path) -> None:
    assert watched(tmp_path, Limits(60.0, 60.0, 0.3, steps=5), count=5).ended_by == "grace"


def test_an_interrupt_ends_the_run_before_it_goes_on(tmp_path: Path) -> None:
    child = sleeper(tmp_path, 60.0)
    began_s = time.monotonic()

    def interrupt(_steps: int, elapsed_s: float) -> None:
        if elapsed_s > 0.1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch.watch(child, LONG, lambda: 0, interrupt)

    assert child.popen.returncode == -15
    assert time.monotonic() - began_s < 20.0
