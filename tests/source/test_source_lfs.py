from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import add_worktree, lfs_pointers, list_worktrees, resolve_commit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"


def add(repo: Repo, cache: Path, revision: str = "HEAD") -> Path:
    return add_worktree(repo.path, resolve_commit(repo.path, revision), cache)


def with_pointers(repo: Repo, count: int) -> None:
    files = {f"data/{number}.bin": POINTER for number in range(count)}
    repo.commit("pointers", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", **files})


def test_lfs_pointers_are_named_with_what_to_run(repo: Repo, cache: Path) -> None:
    with_pointers(repo, 7)

    with pytest.raises(SourceError) as caught:
        add(repo, cache)

    message = str(caught.value)
    assert "data/0.bin, data/1.bin, data/2.bin, data/3.bin, data/4.bin and 2 more" in message
    assert f"git -C {repo.path} lfs fetch origin" in message
    assert list_worktrees(repo.path, cache) == []


def test_lfs_pointers_can_be_accepted_and_are_remembered(repo: Repo, cache: Path) -> None:
    with_pointers(repo, 1)
    commit = resolve_commit(repo.path, "HEAD")

    path = add_worktree(repo.path, commit, cache, pointers="ignore")

    assert lfs_pointers(path) == ("data/0.bin",)
    assert add_worktree(repo.path, commit, cache, pointers="ignore") == path
    with pytest.raises(SourceError, match="are pointers, not content"):
        add_worktree(repo.path, commit, cache)


def test_lfs_content_and_files_outside_lfs_are_no_pointers(repo: Repo, cache: Path) -> None:
    repo.commit("no pointers", {".gitattributes": "*.bin filter=lfs\n", "a.bin": "content", "b.txt": POINTER})

    assert lfs_pointers(add(repo, cache)) == ()


def test_lfs_pointers_in_a_submodule_are_found(repo: Repo, other: Repo, cache: Path) -> None:
    with_pointers(other, 1)
    repo.add_submodule(other, "libs/a")
    repo.commit("with libs/a", {})

    with pytest.raises(SourceError, match=r"libs/a/data/0\.bin"):
        add(repo, cache)


def test_an_lfs_filter_that_is_missing_gets_the_lfs_hint(repo: Repo, cache: Path) -> None:
    with_pointers(repo, 1)
    repo.git("config", "filter.lfs.smudge", "git-lfs-that-is-missing smudge -- %f")
    repo.git("config", "filter.lfs.required", "true")

    with pytest.raises(SourceError, match="Git LFS content is missing: install git-lfs"):
        add(repo, cache)
    assert list_worktrees(repo.path, cache) == []
    assert not (repo.path / ".git/worktrees").exists()
