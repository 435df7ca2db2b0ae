"""Commits of a repository made runnable, without touching the user's repository.

The only package that speaks to git. In the order of a sweep: `resolve_commit` or `expand_range`,
`refuse_dirty`, `hold_worktrees`, then per commit `add_worktree`, `run_setup`, `pythonpath`, `prove_import`.
"""

from __future__ import annotations

from interlace.source.dirty import (
    Dirty,
    check_dirty,
    dirty_message,
    parse_porcelain,
    parse_porcelain_z,
    refuse_dirty,
)
from interlace.source.git import without_git_variables
from interlace.source.imports import prove_import, pythonpath
from interlace.source.lfs import lfs_pointers
from interlace.source.place import default_cache_dir
from interlace.source.repository import Repository, open_repository
from interlace.source.revisions import Commit, expand_range, has_file, resolve_commit
from interlace.source.setup import changed_by_setup, run_setup
from interlace.source.submodules import Submodules, parse_submodule_status
from interlace.source.worktrees import (
    Worktree,
    add_worktree,
    hold_worktrees,
    list_worktrees,
    remove_worktrees,
)

__all__ = [
    "Commit",
    "Dirty",
    "Repository",
    "Submodules",
    "Worktree",
    "add_worktree",
    "changed_by_setup",
    "check_dirty",
    "default_cache_dir",
    "dirty_message",
    "expand_range",
    "has_file",
    "hold_worktrees",
    "lfs_pointers",
    "list_worktrees",
    "open_repository",
    "parse_porcelain",
    "parse_porcelain_z",
    "parse_submodule_status",
    "prove_import",
    "pythonpath",
    "refuse_dirty",
    "remove_worktrees",
    "resolve_commit",
    "run_setup",
    "without_git_variables",
]
