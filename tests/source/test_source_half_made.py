from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from interlace.source import add_worktree, list_worktrees, remove_worktrees, resolve_commit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


def add(repo: Repo, cache: Path, revision: str = "HEAD") -> Path:
    return add_worktree(repo.path, resolve_commit(repo.path, revision), cache)


def two_commits(repo: Repo) -> tuple[str, str]:
    return repo.commit("one", {"a.py": "a = 1\n"}), repo.commit("two", {"a.py": "a = 2\n"})


def half_made(repo: Repo, path: Path, kind: str) -> None:
    """Leave behind what a kill -9 leaves at different moments of `git worktree add`."""
    record = repo.path / ".git/worktrees" / path.name
    marker = path.with_name(f"{path.name}.json")
    marker.write_text(marker.read_text().replace('"complete": true', '"complete": false'))
    if kind == "only the marker":
        repo.git("worktree", "remove", "--force", str(path))
    elif kind == "a record without a path":
        (record / "gitdir").unlink()
        (record / "locked").write_text("initializing")
    elif kind == "a locked record, no folder":
        (record / "locked").write_text("initializing")
        shutil.rmtree(path)
    elif kind == "no index, half the files":
        (record / "index").unlink()
        (record / "index.lock").write_text("")
        (path / "a.py").unlink()
    elif kind == "no git file":
        (path / ".git").unlink()


@pytest.mark.parametrize(
    "kind",
    [
        "only the marker",
        "a record without a path",
        "a locked record, no folder",
        "no index, half the files",
        "no git file",
    ],
)
def test_a_half_made_worktree_is_made_again_and_leaves_no_trace(repo: Repo, cache: Path, kind: str) -> None:
    two_commits(repo)
    before = repo.digest()
    path = add(repo, cache)
    half_made(repo, path, kind)

    assert add(repo, cache) == path
    assert (path / "a.py").read_text() == "a = 2\n"
    assert [item.name for item in (repo.path / ".git/worktrees").iterdir()] == [path.name]
    remove_worktrees(repo.path, cache)
    assert repo.digest() == before


@pytest.mark.parametrize("kind", ["a record without a path", "a locked record, no folder", "no git file"])
def test_a_half_made_worktree_can_be_removed(repo: Repo, cache: Path, kind: str) -> None:
    two_commits(repo)
    before = repo.digest()
    path = add(repo, cache)
    half_made(repo, path, kind)

    assert list_worktrees(repo.path, cache)[0].complete is False
    assert remove_worktrees(repo.path, cache) == [path]
    assert repo.digest() == before


def test_what_a_kill_leaves_before_the_first_marker_is_removed(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    shelf = add(repo, cache).parent
    remove_worktrees(repo.path, cache)
    shelf.mkdir()
    (shelf / ".lock").write_text("")
    (shelf / ".0123456789ab.json.x1y2").write_text('{"sha": ')

    assert remove_worktrees(repo.path, cache) == []
    assert not any(cache.iterdir())
