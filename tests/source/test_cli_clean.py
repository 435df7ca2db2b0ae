from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.cli import clean
from interlace.errors import UsageError
from interlace.source import add_worktree, resolve_commit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


@pytest.fixture
def worktree(repo: Repo, cache: Path) -> Path:
    repo.commit("one", {"a.bin": "x" * 3 * 1024 * 1024})
    return add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)


def test_clean_lists_and_removes_nothing(
    repo: Repo, worktree: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clean.run([f"cache_dir={cache}"]) == 0

    out = capsys.readouterr().out.splitlines()
    assert out == [
        f"       3.0 MiB  {worktree.name}  of {repo.path}  {worktree}",
        "1 worktree, 3.0 MiB; --yes removes them",
    ]
    assert worktree.is_dir()


def test_clean_removes_with_yes(repo: Repo, worktree: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clean.run([f"repo={repo.path}", "--yes", f"cache_dir={cache}"]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "removed 1 worktree, 3.0 MiB"
    assert not worktree.exists()


def test_clean_has_a_default_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))

    assert clean.run([]) == 0
    assert capsys.readouterr().out == "0 worktrees, 0.0 MiB\n"


@pytest.mark.parametrize("argument", ["--force", "repo=", "sweep=x", "PATH"])
def test_clean_refuses_what_it_does_not_know(argument: str) -> None:
    with pytest.raises(UsageError, match="it takes repo=PATH, cache_dir=PATH and --yes"):
        clean.run([argument])


@pytest.mark.parametrize("argument", ["repo=/nowhere/at/all", "cache_dir=/nowhere/at/all"])
def test_clean_refuses_a_folder_that_is_not_there(argument: str) -> None:
    with pytest.raises(UsageError, match="/nowhere/at/all: there is no such folder"):
        clean.run([argument])


def test_clean_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert clean.run(["--help"]) == 0
    assert "interlace clean [repo=PATH] [cache_dir=PATH] [--yes]" in capsys.readouterr().out
