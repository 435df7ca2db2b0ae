from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import open_repository, resolve_commit
from interlace.source.git import run_git

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


def refused(repo: Path, revision: str) -> str:
    with pytest.raises(SourceError) as caught:
        resolve_commit(repo, revision)
    return str(caught.value)


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    assert f"source.repo={tmp_path} is not a git repository" in refused(tmp_path, "main")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "there is no such folder" in refused(tmp_path / "nowhere", "main")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert "is a file" in refused(tmp_path / "file", "main")


def test_a_linked_worktree_is_a_repository_although_its_git_is_a_file(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit("one", {"a": "1"})
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))

    assert (tmp_path / "linked" / ".git").is_file()
    assert resolve_commit(tmp_path / "linked", "HEAD").sha == sha
    assert open_repository(tmp_path / "linked").common_dir == repo.path / ".git"


def test_a_submodule_is_a_repository_although_its_git_is_a_file(repo: Repo, other: Repo) -> None:
    sha = other.commit("of the submodule", {"a": "1"})
    repo.commit("one", {"b": "1"})
    repo.add_submodule(other, "libs/a")

    assert (repo.path / "libs/a/.git").is_file()
    assert resolve_commit(repo.path / "libs/a", "HEAD").sha == sha


def test_a_git_file_that_points_nowhere_says_so(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {tmp_path}/gone/.git/worktrees/x\n")

    message = refused(tmp_path, "HEAD")

    assert "points to a repository that is not there" in message
    assert "git worktree repair" in message


def test_a_bare_repository_resolves(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit("one", {"a": "1"})
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "bare.git"))

    assert resolve_commit(tmp_path / "bare.git", "main").sha == sha
    assert open_repository(tmp_path / "bare.git").bare


def test_the_git_folder_itself_is_refused(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})

    assert "give the folder that holds it" in refused(repo.path / ".git", "HEAD")


def test_a_folder_inside_a_repository_is_not_taken_for_it(repo: Repo) -> None:
    repo.commit("one", {"sub/a": "1"})

    assert f"give source.repo={repo.path}" in refused(repo.path / "sub", "HEAD")


def test_a_repository_of_somebody_else_names_safe_directory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit("one", {"a": "1"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    assert f"git config --global --add safe.directory '{repo.path}'" in refused(repo.path, "HEAD")


def test_git_that_is_not_installed_is_said(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit("one", {"a": "1"})
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    assert "git is not on PATH" in refused(repo.path, "HEAD")


def test_a_git_that_hangs_is_stopped(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text("#!/bin/sh\nsleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    with pytest.raises(SourceError, match=r"git status in .* did not end within 0\.2 s"):
        run_git(repo.path, "status", timeout_s=0.2)


def test_what_a_calling_hook_sets_does_not_lead_to_another_repository(
    repo: Repo, other: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = repo.commit("one", {"a": "1"})
    other.commit("other", {"b": "1"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git/index"))

    assert resolve_commit(repo.path, "HEAD").sha == sha
