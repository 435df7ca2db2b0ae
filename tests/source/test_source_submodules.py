from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import (
    Submodules,
    add_worktree,
    parse_submodule_status,
    remove_worktrees,
    resolve_commit,
)
from interlace.source.submodules import resolve_url

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly

SHA = "0123456789012345678901234567890123456789"


def test_each_flag_of_submodule_status_is_read() -> None:
    text = f" {SHA} libs/a (v1.0)\n-{SHA} libs/b\n+{SHA} libs/c (heads/main)\nU{SHA} libs/d\n"

    assert parse_submodule_status(text) == Submodules(("libs/a",), ("libs/b",), ("libs/c",), ("libs/d",))
    assert not parse_submodule_status(text).complete


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f" {SHA} with space (v1-3-gabc)", "with space"),
        (f" {SHA} lib (old) (heads/fix-(1))", "lib (old)"),
        (f" {SHA} undescribed", "undescribed"),
        (f" {SHA}{'0' * 24} sha256 (v1)", "sha256"),
    ],
)
def test_a_path_is_told_from_its_description(line: str, path: str) -> None:
    assert parse_submodule_status(line) == Submodules(ok=(path,))


def test_an_uninitialised_path_may_end_in_parentheses() -> None:
    assert parse_submodule_status(f"-{SHA} lib (old)") == Submodules(uninitialized=("lib (old)",))


def test_no_submodules_are_complete() -> None:
    assert parse_submodule_status("").complete


def test_a_line_without_its_first_column_is_an_error() -> None:
    with pytest.raises(SourceError, match="was its first column cut off"):
        parse_submodule_status(f"{SHA} libs/a (v1.0)")


@pytest.mark.parametrize(
    ("base", "url", "expected"),
    [
        ("https://host/team/repo.git", "../lib.git", "https://host/team/lib.git"),
        ("https://host/team/repo.git/", "../../x/lib", "https://host/x/lib"),
        ("git@host:team/repo.git", "../lib", "git@host:team/lib"),
        ("git@host:repo.git", "../lib", "git@host:lib"),
        ("/srv/repo", "./lib", "/srv/repo/lib"),
        ("/srv/repo", "https://host/lib", "https://host/lib"),
        ("/srv/repo", "/srv/lib", "/srv/lib"),
    ],
)
def test_a_relative_address_is_relative_to_the_code_around_it(base: str, url: str, expected: str) -> None:
    assert resolve_url(base, url) == expected


def nested(repo: Repo, other: Repo, third: Repo) -> None:
    """`repo` has `other` at libs/a, which has `third` at deep."""
    third.commit("third", {"c.py": "c = 1\n"})
    other.commit("other", {"b.py": "b = 1\n"})
    other.add_submodule(third, "deep")
    other.commit("with deep", {})
    repo.commit("one", {"a.py": "a = 1\n"})
    repo.add_submodule(other, "libs/a")
    repo.commit("with libs/a", {})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")


@pytest.fixture
def third(repo: Repo) -> Repo:
    return repo.new("third")


def test_submodules_are_filled_at_all_levels_from_the_users_copies(
    repo: Repo, other: Repo, third: Repo, cache: Path
) -> None:
    nested(repo, other, third)
    shutil.rmtree(other.path)
    shutil.rmtree(third.path)

    worktree = add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)

    assert (worktree / "libs/a/b.py").read_text() == "b = 1\n"
    assert (worktree / "libs/a/deep/c.py").read_text() == "c = 1\n"


def test_each_commit_gets_the_submodule_commit_it_asks_for(repo: Repo, other: Repo, cache: Path) -> None:
    other.commit("b1", {"b.py": "b = 1\n"})
    repo.add_submodule(other, "libs/a")
    repo.commit("old", {})
    other.commit("b2", {"b.py": "b = 2\n"})
    sub = repo.path / "libs/a"
    repo.git("-C", str(sub), "pull", "--quiet")
    repo.commit("new", {})

    old, new = (add_worktree(repo.path, resolve_commit(repo.path, name), cache) for name in ("HEAD~1", "HEAD"))

    assert (old / "libs/a/b.py").read_text() == "b = 1\n"
    assert (new / "libs/a/b.py").read_text() == "b = 2\n"


def test_a_submodule_that_cannot_be_had_is_named_with_what_to_run(
    repo: Repo, other: Repo, cache: Path, tmp_path: Path
) -> None:
    other.commit("b1", {"b.py": "b = 1\n"})
    repo.add_submodule(other, "libs/a")
    repo.commit("with libs/a", {})
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", str(repo.path), str(clone))
    shutil.rmtree(other.path)

    with pytest.raises(SourceError) as caught:
        add_worktree(clone, resolve_commit(clone, "HEAD"), cache)

    assert "submodule libs/a at " in str(caught.value)
    assert f"git -C {clone} submodule update --init --recursive" in str(caught.value)
    assert not (clone / ".git/worktrees").exists()
    assert remove_worktrees(clone, cache) == []


def test_a_submodule_that_the_user_switched_off_stays_empty(repo: Repo, other: Repo, cache: Path) -> None:
    other.commit("b1", {"b.py": "b = 1\n"})
    repo.add_submodule(other, "libs/a")
    repo.commit("with libs/a", {})
    repo.git("config", "submodule.libs/a.active", "false")

    worktree = add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)

    assert list((worktree / "libs/a").iterdir()) == []


def test_a_link_without_gitmodules_is_left_empty_as_in_every_clone(repo: Repo, cache: Path) -> None:
    repo.commit("one", {"a.py": "1"})
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{SHA},stray")
    repo.git("commit", "--quiet", "-m", "a stray link")

    worktree = add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)

    assert sorted(path.name for path in worktree.iterdir()) == [".git", "a.py", "stray"]
