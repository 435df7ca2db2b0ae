"""The only place that runs git: no hooks, no prompts, no optional locks, nothing of a calling hook."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import SourceError
from interlace.source.child import WORKTREE_TAG, run_child

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 120.0
"""Limit of a git call that reads; those that check out files have their own."""

CHECKOUT_TIMEOUT_S = 3600.0
"""Limit of a git call that writes files or fetches: large trees, LFS and submodules take their time."""

_REPOSITORY_VARIABLES = frozenset(
    {
        # `git rev-parse --local-env-vars`, less GIT_CONFIG_COUNT: that one is how people pass safe.directory.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
        # These change what a call means or prints.
        "GIT_ATTR_SOURCE",
        "GIT_DEFAULT_HASH",
        "GIT_DIFF_OPTS",
        "GIT_EXTERNAL_DIFF",
        "GIT_GLOB_PATHSPECS",
        "GIT_ICASE_PATHSPECS",
        "GIT_LITERAL_PATHSPECS",
        "GIT_NAMESPACE",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_QUARANTINE_PATH",
        "GIT_REFLOG_ACTION",
    }
)

_SETTINGS = {
    "core.hooksPath": os.devnull,  # a post-checkout hook of the user is not ours to run
    "core.fsmonitor": "false",  # starts a daemon or a hook in the user's repository
    "core.warnAmbiguousRefs": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}


@dataclass(frozen=True)
class GitResult:
    """How one git call ended. Text is UTF-8 with undecodable bytes kept as surrogates, as in file names."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether git said 0."""
        return self.returncode == 0

    @property
    def reason(self) -> str:
        """Why git failed, in its own words: its `fatal:` and `error:` lines, or else its last line."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        named = [line for line in lines if line.startswith(("fatal:", "error:"))]
        return printable(" ".join((named or lines)[-2:]) or f"exit code {self.returncode}")


def without_git_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what ties git to one repository (GIT_DIR, GIT_INDEX_FILE ...).

    A hook or `git rebase --exec` sets these; git, and a set-up command that asks git for a version, would
    then read the wrong repository.
    """
    return {name: value for name, value in environ.items() if name not in _REPOSITORY_VARIABLES}


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what git itself runs with: untranslated messages, no prompt, no lock it can do without."""
    kept = without_git_variables(environ)
    kept.pop("LANGUAGE", None)
    # GIT_OPTIONAL_LOCKS=0: not even `git status` refreshes the user's index.
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat"}


def run_git(
    directory: Path,
    *args: str,
    config: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    worktree: Path | None = None,
) -> GitResult:
    """Run git in a folder and say how it ended; a failure of git's is the caller's to judge.

    `worktree` is given by calls that write in one (see `end_orphans`). Raises `SourceError` when git is not
    installed or does not end in time.
    """
    settings = [f"{name}={value}" for name, value in {**_SETTINGS, **(config or {})}.items()]
    options = [part for setting in settings for part in ("-c", setting)]
    argv = ["git", "--no-pager", *options, "-C", str(directory), *args]
    tag = {WORKTREE_TAG: str(worktree)} if worktree else {}
    try:
        ended = run_child(
            argv,
            cwd=Path("/"),
            env={**git_environment(os.environ), **tag},
            timeout_s=timeout_s,
            stdin=stdin.encode("utf-8", "surrogateescape"),
        )
    except FileNotFoundError as error:
        raise SourceError("git is not on PATH; commits of a repository need it: install git") from error
    if ended.timed_out:
        raise SourceError(f"git {args[0]} in {directory} did not end within {timeout_s:g} s and was stopped")
    return GitResult(ended.returncode, _text(ended.stdout), _text(ended.stderr))


def git_text(
    directory: Path,
    *args: str,
    config: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Return the output of a git call that has to succeed. Raises `SourceError` with git's own reason."""
    result = run_git(directory, *args, config=config, stdin=stdin, timeout_s=timeout_s)
    if not result.ok:
        raise SourceError(f"git {args[0]} failed in {directory}: {result.reason}")
    return result.stdout


def printable(text: str) -> str:
    """Text that can be written anywhere: bytes that were no UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
