"""Fixtures that more than one test folder needs: a trainer in ten lines, and a repository of trainers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pathlib import Path

TRAINER = '''\
"""A trainer without torch: prints a step line and writes Interlace's step log."""
import os, sys, time
from interlace.recorder import StepRecorder
steps, step_s = int(sys.argv[1]), float(sys.argv[2])
with StepRecorder() as recorder:
    for _ in range(steps):
        time.sleep(step_s)
        recorder.step()
'''


# Hypothesis fails an example that takes over 200 ms; on a busy machine any does, and nothing here asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Heed signals again that nohup, or a shell that put the tests into the background, has these processes ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests a second try: they start real programs on a machine that others use, too. It is shown as R."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what tests measure out of the user's history of noise."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    path = tmp_path / "trainer.py"
    path.write_text(TRAINER)
    return path


@pytest.fixture
def clean_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user's fresh shell: nothing of a surrounding run, launcher or git hook."""
    for name in list(os.environ):
        if name.startswith(("INTERLACE_", "GIT_", "SLURM_")) or name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)


def interlace(*arguments: str, cwd: Path, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run the command line as its user would."""
    return subprocess.run(
        [sys.executable, "-m", "interlace", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
