from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from interlace import process
from interlace.lane import watch
from interlace.lane.watch import Limits

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.costly

LONG = Limits(timeout_s=60.0, stall_s=60.0, grace_s=60.0, steps=None)


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.05)


class Steps:
    """A log that stands where it stands, and may have said that training is over."""

    def __init__(self, steps: int, *, over: bool) -> None:
        self.steps, self.over = steps, over

    def __call__(self) -> int:
        return self.steps

    def ended(self) -> bool:
        return self.over


def watched(
    tmp_path: Path, limits: Limits, count: int = 0, seconds: float = 60.0, *, ended: bool = False
) -> watch.Watched:
    argv = [sys.executable, "-c", f"import time; time.sleep({seconds})"]
    env = {**os.environ, process.MARKER: str(tmp_path)}
    with process.running(argv, env, tmp_path, tmp_path / "out", tmp_path / "err") as child:
        over = lambda timeout_s: process.wait(child, timeout_s) is not None  # noqa: E731
        return watch.watch(over, limits, Steps(count, over=ended), lambda _n, _s: None)


def test_a_run_that_ends_by_itself_is_left_alone(tmp_path: Path) -> None:
    assert watched(tmp_path, LONG, seconds=0.1) == watch.Watched("itself")


def test_a_run_longer_than_its_limit_is_given_up(tmp_path: Path) -> None:
    assert watched(tmp_path, Limits(0.3, 60.0, 60.0, None)) == watch.Watched("timeout", 0.3)


def test_a_run_with_no_new_step_is_given_up(tmp_path: Path) -> None:
    assert watched(tmp_path, Limits(60.0, 0.3, 60.0, None), count=5) == watch.Watched("stall", 0.3)


def test_a_run_that_stays_after_its_last_step_is_given_up_when_the_grace_is_over(tmp_path: Path) -> None:
    assert watched(tmp_path, Limits(60.0, 60.0, 0.3, steps=5), count=5) == watch.Watched("grace", 0.3)


def test_where_the_number_of_steps_is_not_known_the_grace_begins_when_the_log_says_that_it_is_over(
    tmp_path: Path,
) -> None:
    assert watched(tmp_path, Limits(60.0, 60.0, 0.3, None), count=5, ended=True) == watch.Watched("grace", 0.3)
