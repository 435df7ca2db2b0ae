"""The only place that runs the set-up command: once per commit, command and Python, with its output in a log.

What was done is stamped in the worktree's own git folder, so the tree stays clean and the stamp goes with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import ReadError, SourceError
from interlace.files import read_json, write_json
from interlace.source.child import WORKTREE_TAG, end_orphans, run_child
from interlace.source.dirty import parse_porcelain_z, status_z
from interlace.source.git import git_text, printable, without_git_variables
from interlace.source.place import locked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.source.child import Ended

_TAIL_LINES = 5
_TAIL_BYTES = 8192


@dataclass(frozen=True)
class _Stamp:
    """Which commands ran in a worktree, and the state they left its tracked files in ("" is clean).

    `unfinished` stays true when Interlace is killed while a command runs.
    """

    keys: tuple[str, ...] = ()
    state: str = ""
    unfinished: bool = False


def run_setup(
    worktree: Path, command: str, env: Mapping[str, str], timeout_s: float, log_path: Path
) -> tuple[str, ...]:
    """Run the set-up command in a worktree unless it already ran there; returns notes.

    The shell stops at the first command that fails, as CI does. Raises `SourceError` with the exit code, the
    last lines and the log's path; on a time-out the whole process group is ended.
    """
    stamp_path = _stamp_path(worktree)
    with locked(stamp_path.with_suffix(".lock"), timeout_s=timeout_s):
        stamp = _read_stamp(stamp_path)
        key = _key(command, env)
        if key not in stamp.keys:
            if stamp.unfinished:
                end_orphans(worktree)
            write_json(stamp_path, replace(stamp, unfinished=True))
            _run(worktree, command, env, timeout_s, log_path)
            write_json(stamp_path, _Stamp((*stamp.keys, key), tracked_state(worktree)))
    return changed_by_setup(worktree)


def changed_by_setup(worktree: Path) -> tuple[str, ...]:
    """Say which tracked files of a worktree set-up commands have changed, now or in an earlier sweep."""
    changed = parse_porcelain_z(status_z(worktree, "--untracked-files=no")).tracked
    if not changed:
        return ()
    files = ", ".join(printable(name) for name in changed[:5])
    return (f"set-up commands changed files that the commit tracks: {files}",)


def tracked_state(worktree: Path) -> str:
    """Return a fingerprint of how tracked files differ from the commit; empty when none does."""
    diff = git_text(worktree, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--submodule=diff")
    return hashlib.sha256(diff.encode("utf-8", "surrogateescape")).hexdigest() if diff else ""


def accepted_state(worktree: Path) -> str:
    """Return the fingerprint that the last set-up command left; empty without one."""
    return _read_stamp(_stamp_path(worktree)).state


def was_cut_short(worktree: Path) -> bool:
    """Tell whether a set-up command changed tracked files and then failed, or was killed with Interlace."""
    stamp = _read_stamp(_stamp_path(worktree))
    return stamp.unfinished and tracked_state(worktree) != stamp.state


def _run(worktree: Path, command: str, env: Mapping[str, str], timeout_s: float, log_path: Path) -> None:
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        log.write(f"$ {printable(command)}\n".encode())
        log.flush()
        try:
            ended = run_child(
                _shell(command, env),
                cwd=worktree,
                env={**without_git_variables(env), WORKTREE_TAG: str(worktree)},
                timeout_s=timeout_s,
                log=log,
            )
        except OSError as error:
            raise SourceError(f"source.setup could not be started in {worktree}: {error}") from error
    if ended.timed_out or ended.returncode != 0:
        raise SourceError(_failure(worktree, command, timeout_s, log_path, ended))


def _shell(command: str, env: Mapping[str, str]) -> list[str]:
    bash = shutil.which("bash", path=env.get("PATH"))
    return [bash, "-e", "-o", "pipefail", "-c", command] if bash else ["/bin/sh", "-e", "-c", command]


def _failure(worktree: Path, command: str, timeout_s: float, log_path: Path, ended: Ended) -> str:
    how = f"did not end within {timeout_s:g} s" if ended.timed_out else f"failed with {_exit(ended.returncode)}"
    remedy = "raise source.setup_timeout_s or mend source.setup" if ended.timed_out else "mend source.setup"
    with log_path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    last = " | ".join(lines[-_TAIL_LINES:])
    shown = printable(command.strip().replace("\n", "; "))
    return f"set-up `{shown}` {how} in {worktree}: {last}; the log is {log_path}; {remedy}"


def _exit(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"


def _key(command: str, env: Mapping[str, str]) -> str:
    """One command may build for one Python: another virtual environment needs it again."""
    python = shutil.which("python", path=env.get("PATH")) or ""
    return hashlib.sha256(f"{command}\0{python}".encode("utf-8", "surrogateescape")).hexdigest()


def _stamp_path(worktree: Path) -> Path:
    git_dir = git_text(worktree, "rev-parse", "--absolute-git-dir").removesuffix("\n")
    return Path(git_dir) / "interlace-setup.json"


def _read_stamp(path: Path) -> _Stamp:
    try:
        return read_json(path, _Stamp)
    except ReadError:
        return _Stamp()
