"""Refuses to run the user's working tree in place of the checkouts of arms that are commits."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from interlace import source
from interlace.errors import ConfigError
from interlace.launch import WORKTREE

if TYPE_CHECKING:
    from interlace.schema import Arm

CODE = (".py", ".sh")
FROM_THE_TOP = "its path from the top of the repository, where the command runs"
WITHOUT_CWD = "leave workload.cwd out: each arm runs in its own checkout"


def refuse_working_tree(arm: Arm) -> None:
    """Raise ConfigError where an arm's command names a file of its commit and would find it in the working tree.

    What the commit does not have (data, a harness beside it) may lie anywhere.
    """
    workload, repo = arm.config.workload, arm.config.source.repo
    if arm.config.commit is None or arm.sha is None or repo is None:
        return
    top = Path(repo).resolve()
    folder = Path(workload.cwd) if workload.cwd is not None and not workload.cwd.startswith(WORKTREE) else None
    for word in _code_in(shlex.split(workload.command or "")):
        absolute = Path(word).is_absolute()
        if not absolute and folder is None:
            continue
        path = Path(folder or "/", word).resolve()
        place = path.relative_to(top).as_posix() if path.is_relative_to(top) else None
        if place is not None and source.has_file(top, arm.sha, place):
            where, instead = ("", FROM_THE_TOP) if absolute else (f" in workload.cwd={workload.cwd}", WITHOUT_CWD)
            raise ConfigError(
                f"workload.command runs {word}{where}, a file of the working tree of source.repo: every commit would "
                f"run that one; give {WORKTREE}/{place}, or {instead}"
            )


def _code_in(words: list[str]) -> list[str]:
    """Return the scripts among the words of a command, and as what files a module of `-m` would be looked for."""
    modules = [module.replace(".", "/") for option, module in pairwise(words) if option == "-m"]
    as_files = [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    return [*(word for word in words if word.endswith(CODE)), *as_files]
