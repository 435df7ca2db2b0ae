"""`interlace clean`: the only command that removes worktrees, and only those that Interlace made."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.source.worktrees import list_worktrees, remove_worktrees

if TYPE_CHECKING:
    from interlace.source.worktrees import Worktree

USAGE = """\
usage: interlace clean [repo=PATH] [cache_dir=PATH] [--yes]

Lists the worktrees that sweeps made, with their sizes; removes them with --yes.

  repo=PATH       only those of this repository (default: of all)
  cache_dir=PATH  where source.cache_dir put them (default: $XDG_CACHE_HOME/interlace/worktrees
                  or ~/.cache/interlace/worktrees)
  --yes           remove them
"""

_MIB = 1024 * 1024


def run(argv: list[str]) -> int:
    """List or remove worktrees. Raises `UsageError` for an argument it does not know."""
    if {"-h", "--help"} & set(argv):
        sys.stdout.write(USAGE)
        return 0
    repo, cache_dir, yes = _arguments(argv)
    worktrees = list_worktrees(repo, cache_dir)
    missing = [path for path in (repo, cache_dir) if path is not None and not path.is_dir()]
    if missing and not worktrees:  # those of a repository that was removed are still found by its path
        raise UsageError(f"{missing[0]}: there is no such folder, and no worktree of it")
    sizes_mib = {worktree.path: _size_mib(worktree.path) for worktree in worktrees}
    for worktree in worktrees:
        sys.stdout.write(_line(worktree, sizes_mib[worktree.path]))
    if yes:
        removed = remove_worktrees(repo, cache_dir)
        freed_mib = sum(sizes_mib.get(path, 0.0) for path in removed)
        sys.stdout.write(f"removed {_count(len(removed))}, {freed_mib:.1f} MiB\n")
    else:
        hint = "; --yes removes them" if worktrees else ""
        sys.stdout.write(f"{_count(len(worktrees))}, {sum(sizes_mib.values()):.1f} MiB{hint}\n")
    return 0


def _arguments(argv: list[str]) -> tuple[Path | None, Path | None, bool]:
    paths: dict[str, Path] = {}
    for argument in argv:
        name, _, value = argument.partition("=")
        if name in {"repo", "cache_dir"} and value:
            paths[name] = Path(value).expanduser()
        elif argument != "--yes":
            raise UsageError(f"clean does not know {argument!r}; it takes repo=PATH, cache_dir=PATH and --yes")
    return paths.get("repo"), paths.get("cache_dir"), "--yes" in argv


def _line(worktree: Worktree, size_mib: float) -> str:
    state = "" if worktree.complete else "  (not finished)"
    return f"{size_mib:10.1f} MiB  {worktree.sha[:12]}  of {worktree.repo}  {worktree.path}{state}\n"


def _count(n: int) -> str:
    return f"{n} worktree" if n == 1 else f"{n} worktrees"


def _size_mib(path: Path) -> float:
    sizes = [(Path(folder) / name).lstat().st_size for folder, _, names in os.walk(path) for name in names]
    return sum(sizes) / _MIB
