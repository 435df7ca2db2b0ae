from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import (
    Worktree,
    add_worktree,
    hold_worktrees,
    list_worktrees,
    remove_worktrees,
    resolve_commit,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


def add(repo: Repo, cache: Path, revision: str = "HEAD") -> Path:
    return add_worktree(repo.path, resolve_commit(repo.path, revision), cache)


def two_commits(repo: Repo) -> tuple[str, str]:
    return repo.commit("one", {"a.py": "a = 1\n"}), repo.commit("two", {"a.py": "a = 2\n"})


def test_a_worktree_is_the_commit_detached(repo: Repo, cache: Path) -> None:
    one, _ = two_commits(repo)

    path = add(repo, cache, "HEAD~1")

    assert (path / "a.py").read_text() == "a = 1\n"
    assert path.parent.parent == cache
    assert path.parent.name.startswith("repo-")
    assert path.name == one[:12]
    assert repo.at(path).git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


def test_nothing_in_the_users_repository_changes(repo: Repo, other: Repo, cache: Path) -> None:
    other.commit("b1", {"b.py": "b = 1\n"})
    two_commits(repo)
    repo.add_submodule(other, "libs/a")
    repo.commit("three", {})
    # The submodule was never initialised here: `submodule init` would write to the shared configuration.
    repo.git("config", "--remove-section", "submodule.libs/a")
    hook = repo.path / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntouch "$(git rev-parse --git-common-dir)/hook-ran"\n')
    hook.chmod(0o755)
    repo.write("a.py", "edited\n")
    repo.write("untracked.txt", "mine\n")
    (repo.path / "libs/a/b.py").touch()
    before = repo.digest()

    for revision in ("HEAD~2", "HEAD~1", "HEAD"):
        add(repo, cache, revision)
    during = repo.digest()
    removed = remove_worktrees(repo.path, cache)

    own = {name: value for name, value in during.items() if not name.startswith(".git/worktrees")}
    assert own == before
    assert any(name.startswith(".git/worktrees/") for name in during)
    assert repo.digest() == before
    assert len(removed) == 3
    assert not any(cache.iterdir())


def test_a_worktree_is_used_again(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    (path / "built.so").write_text("built once")

    assert add(repo, cache) == path
    assert (path / "built.so").read_text() == "built once"


def test_a_worktree_with_edited_files_is_refused_with_what_to_do(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    (path / "a.py").write_text("edited\n")

    with pytest.raises(SourceError) as caught:
        add(repo, cache)

    assert f"tracked files of the worktree {path} were changed: a.py" in str(caught.value)
    assert f"interlace clean repo={repo.path} --yes" in str(caught.value)


def test_a_worktree_that_was_moved_to_another_commit_is_refused(repo: Repo, cache: Path) -> None:
    one, two = two_commits(repo)
    path = add(repo, cache)
    repo.at(path).git("checkout", "--quiet", one)

    with pytest.raises(SourceError, match=f"was moved to {one[:12]} from {two}"):
        add(repo, cache)


def test_a_folder_that_interlace_did_not_make_is_never_touched(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    remove_worktrees(repo.path, cache)
    path.mkdir(parents=True)
    (path / "mine").write_text("precious")

    with pytest.raises(SourceError, match="was not made by Interlace"):
        add(repo, cache)
    assert remove_worktrees(repo.path, cache) == []
    assert (path / "mine").read_text() == "precious"


def test_a_worktree_that_git_forgot_is_made_again(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    shutil.rmtree(repo.path / ".git/worktrees")

    assert add(repo, cache) == path
    assert repo.at(path).git("status", "--porcelain") == ""


def test_other_worktrees_of_the_user_stay(repo: Repo, cache: Path, tmp_path: Path) -> None:
    two_commits(repo)
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "unplugged"))
    (tmp_path / "unplugged").rename(tmp_path / "elsewhere")

    add(repo, cache)
    remove_worktrees(repo.path, cache)

    assert str(tmp_path / "unplugged") in repo.git("worktree", "list")


def _add_in_child(repo: Path, cache: Path, found: multiprocessing.Queue[str]) -> None:
    found.put(str(add_worktree(repo, resolve_commit(repo, "HEAD"), cache)))


def test_two_sweeps_that_add_at_the_same_time_share_the_worktree(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    fork = multiprocessing.get_context("fork")
    found: multiprocessing.Queue[str] = fork.Queue()
    children = [fork.Process(target=_add_in_child, args=(repo.path, cache, found)) for _ in range(4)]
    for child in children:
        child.start()
    paths = {found.get(timeout=60) for _ in children}
    for child in children:
        child.join()

    assert paths == {str(add(repo, cache))}
    assert len(repo.git("worktree", "list").splitlines()) == 2


def test_a_sparse_checkout_of_the_user_leaves_nothing_out(repo: Repo, cache: Path) -> None:
    repo.commit("one", {"src/a.py": "1", "docs/b.md": "2"})
    repo.git("sparse-checkout", "set", "src")
    before = repo.digest()

    path = add(repo, cache)

    assert (path / "docs/b.md").read_text() == "2"
    assert add(repo, cache) == path
    remove_worktrees(repo.path, cache)
    assert repo.digest() == before


def test_the_settings_of_a_calling_hook_do_not_leak(
    repo: Repo, other: Repo, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_commits(repo)
    other.commit("other", {"b.py": "1"})
    before = other.digest()
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git/index"))

    path = add(repo, cache)

    assert (path / "a.py").read_text() == "a = 2\n"
    assert other.digest() == before


@pytest.mark.parametrize("kind", ["bare", "linked", "submodule", "odd name"])
def test_every_kind_of_repository_gives_worktrees(repo: Repo, cache: Path, tmp_path: Path, kind: str) -> None:
    two_commits(repo)
    source = tmp_path / {"bare": "bare.git", "odd name": "-odd näme"}.get(kind, kind)
    if kind == "bare":
        repo.git("clone", "--quiet", "--bare", str(repo.path), str(source))
    elif kind == "linked":
        repo.git("worktree", "add", "--quiet", "--detach", str(source))
    elif kind == "submodule":
        around = repo.new("around")
        around.add_submodule(repo, "libs/a")
        source = around.path / "libs/a"
    else:
        repo.git("clone", "--quiet", str(repo.path), str(source))

    path = add(repo.at(source), cache, "HEAD~1")

    assert (path / "a.py").read_text() == "a = 1\n"
    assert add(repo.at(source), cache, "HEAD~1") == path
    assert remove_worktrees(source, cache) == [path]
    assert not path.exists()


def test_a_cache_folder_behind_a_link_works(repo: Repo, tmp_path: Path) -> None:
    two_commits(repo)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    path = add(repo, tmp_path / "link")

    assert path.is_relative_to(tmp_path / "real")
    assert add(repo, tmp_path / "link") == path


def test_a_cache_folder_that_cannot_be_made_is_said(repo: Repo, tmp_path: Path) -> None:
    two_commits(repo)
    (tmp_path / "file").write_text("")

    with pytest.raises(SourceError, match=r"cannot use the cache folder .*; set source\.cache_dir"):
        add(repo, tmp_path / "file")


def test_a_commit_that_cannot_be_checked_out_leaves_no_trace(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    before = repo.digest()
    missing = replace(resolve_commit(repo.path, "HEAD"), sha="1" * 40)

    with pytest.raises(SourceError, match=r"commit 111111111111 of .* could not be checked out"):
        add_worktree(repo.path, missing, cache)

    assert repo.digest() == before
    assert list_worktrees(repo.path, cache) == []


def test_only_the_asked_repositorys_worktrees_are_listed_and_removed(repo: Repo, other: Repo, cache: Path) -> None:
    _, two = two_commits(repo)
    other.commit("other", {"b.py": "1"})
    mine, theirs = add(repo, cache), add(other, cache)

    assert list_worktrees(repo.path, cache) == [Worktree(mine, two, repo.path, complete=True)]
    assert {worktree.path for worktree in list_worktrees(None, cache)} == {mine, theirs}
    assert remove_worktrees(repo.path, cache) == [mine]
    assert theirs.is_dir()


def test_worktrees_of_a_repository_that_is_gone_can_be_removed(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    shutil.rmtree(repo.path)

    assert remove_worktrees(repo.path, cache) == [path]
    assert not path.exists()


def test_what_a_build_made_read_only_can_be_removed(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)
    (path / "modules/deep").mkdir(parents=True)
    (path / "modules/deep/file").write_text("")
    (path / "modules/deep").chmod(0o500)
    (path / "modules").chmod(0o500)

    assert remove_worktrees(repo.path, cache) == [path]
    assert not path.exists()


def test_a_link_in_a_worktree_is_removed_and_not_followed(repo: Repo, cache: Path, tmp_path: Path) -> None:
    two_commits(repo)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/set.bin").write_text("precious")
    (add(repo, cache) / "data").symlink_to(tmp_path / "data")

    remove_worktrees(repo.path, cache)

    assert (tmp_path / "data/set.bin").read_text() == "precious"


def test_worktrees_that_a_sweep_holds_are_not_removed(repo: Repo, cache: Path) -> None:
    two_commits(repo)
    path = add(repo, cache)

    with hold_worktrees(repo.path, cache), hold_worktrees(repo.path, cache):
        with pytest.raises(SourceError, match="is in use by a running sweep"):
            remove_worktrees(repo.path, cache)
        assert (path / "a.py").is_file()

    assert remove_worktrees(repo.path, cache) == [path]
