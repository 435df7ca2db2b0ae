"""The only place that knows Git LFS: which files of a checkout are pointers instead of their content."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from interlace.source.git import git_text, printable
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_POINTER_START = b"version https://git-lfs"
_POINTER_MAX_BYTES = 1024
"""The pointer specification's own limit (git-lfs/docs/spec.md)."""
_SHOWN = 5


def lfs_pointers(tree: Path) -> tuple[str, ...]:
    """Files of a checkout with `filter=lfs` whose content was not fetched, in git's order.

    The files' own first bytes decide, so it does not matter whether git-lfs is installed.
    """
    names = git_text(tree, "ls-files", "-z")
    fields = git_text(tree, "check-attr", "-z", "--stdin", "filter", stdin=names).split("\0")
    filtered = [path for path, value in zip(fields[::3], fields[2::3], strict=False) if value == "lfs"]
    return tuple(path for path in filtered if _is_pointer(tree / path))


def pointer_message(repo: Path, sha: str, pointers: Sequence[str]) -> str:
    """Say that files are LFS pointers, naming up to five, and what to run."""
    named = first_of([printable(path) for path in pointers], _SHOWN)
    return (
        f"Git LFS files of {sha[:12]} in {repo} are pointers, not content: {named}; install git-lfs, "
        f"run `git lfs install` and `git -C {repo} lfs fetch origin {sha[:12]}`, then start again with "
        "GIT_LFS_SKIP_SMUDGE unset"
    )


def _is_pointer(path: Path) -> bool:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _POINTER_MAX_BYTES:
            return False
        return path.read_bytes().startswith(_POINTER_START)
    except OSError:
        return False
