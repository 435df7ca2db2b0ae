from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from interlace.checkout import own_environments
from interlace.environments import versions
from interlace.schema import Arm, Sweep
from interlace.settings import RanksConfig, SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = SweepConfig("s", WorkloadConfig("w", command="x", python=sys.executable), RanksConfig("plain"))
HERE = f"Python {platform.python_version()}, torch {metadata.version('torch')}"


def test_another_interpreter_is_asked_what_it_has_installed() -> None:
    assert versions(sys.executable, os.environ, ["torch", "no-such-package"]) == HERE


def test_an_interpreter_that_does_not_answer_is_no_trouble(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)

    unknown = "an environment whose versions could not be asked for"
    assert versions(str(silent), os.environ) == f"{unknown} (CalledProcessError)"
    assert versions(str(tmp_path / "none"), os.environ) == f"{unknown} (FileNotFoundError)"


def test_arms_that_share_an_environment_of_their_own_are_told_once(tmp_path: Path) -> None:
    own, none = Arm("own", "own", (), CONFIG), replace(CONFIG, workload=replace(CONFIG.workload, python=None))
    missing = replace(CONFIG, workload=replace(CONFIG.workload, python=str(tmp_path / "none")))

    def told(*arms: Arm) -> list[str]:
        return own_environments(Sweep("s", arms, "own", CONFIG))

    full = f"{HERE}, accelerate {metadata.version('accelerate')}"
    assert told(own, replace(own, name="two")) == [f"ranks ran under {full}"]
    assert told(own, Arm("here", "here", (), none)) == [f"ranks of own ran under {full}"]
    assert told(Arm("here", "here", (), none)) == []
    assert told(own, replace(own, name="other", config=missing)) == [
        f"ranks of own ran under {full}",
        "ranks of other ran under an environment whose versions could not be asked for (FileNotFoundError)",
    ]
