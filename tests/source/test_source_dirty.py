from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import (
    Dirty,
    check_dirty,
    dirty_message,
    parse_porcelain,
    parse_porcelain_z,
    refuse_dirty,
    resolve_commit,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" M src/a.py", Dirty(("src/a.py",))),
        ("M  src/a.py", Dirty(("src/a.py",))),
        ("MM src/a.py", Dirty(("src/a.py",))),
        (" D gone.py", Dirty(("gone.py",))),
        ("AM new.py", Dirty(("new.py",))),
        (" T now_a_link", Dirty(("now_a_link",))),
        ("UU both.py", Dirty(("both.py",))),
        ("DU ours_gone.py", Dirty(("ours_gone.py",))),
        ("R  old.py -> new.py", Dirty(("new.py",))),
        ("RM old.py -> new.py", Dirty(("new.py",))),
        ("C  one.py -> two.py", Dirty(("two.py",))),
        (" R old.py -> new.py", Dirty(("new.py",))),
        ('R  "old name.py" -> "new name.py"', Dirty(("new name.py",))),
        ('R  plain.py -> "a -> b.py"', Dirty(("a -> b.py",))),
        ('R  "a -> b.py" -> plain.py', Dirty(("plain.py",))),
        (' M "caf\\303\\251.py"', Dirty(("café.py",))),
        (' M "a \\"quoted\\" \\\\ name\\t.py"', Dirty(('a "quoted" \\ name\t.py',))),
        ("?? notes.txt", Dirty((), ("notes.txt",))),
        ("?? build/", Dirty((), ("build/",))),
        ('?? "with space/"', Dirty((), ("with space/",))),
        ("!! ignored.o", Dirty()),
        ("## main...origin/main [ahead 1]", Dirty()),
        ("", Dirty()),
    ],
)
def test_each_form_of_a_porcelain_line_is_read(line: str, expected: Dirty) -> None:
    assert parse_porcelain(f"{line}\n") == expected


def test_the_first_line_keeps_its_first_column() -> None:
    text = " M train.py\nA  new.py\n?? notes.txt\n D gone.py"

    assert parse_porcelain(text) == Dirty(("train.py", "new.py", "gone.py"), ("notes.txt",))


def test_the_z_form_has_the_old_name_of_a_rename_by_itself() -> None:
    text = " M a b.py\0R  new.py\0old.py\0?? x -> y\0"

    assert parse_porcelain_z(text) == Dirty(("a b.py", "new.py"), ("x -> y",))


def make_dirty(repo: Repo) -> None:
    repo.commit("one", {"keep.py": "1\n", "old name.py": "two\nlines\n", "gone.py": "3\n", "é.py": "4\n"})
    repo.write("keep.py", "changed\n")
    repo.write("é.py", "changed\n")
    repo.write("new.py", "new\n")
    repo.git("add", "new.py")
    repo.git("mv", "old name.py", "moved to.py")
    (repo.path / "gone.py").unlink()
    repo.write("build/x", "")
    repo.write("notes.txt", "")


def test_a_real_tree_gives_the_same_through_both_forms(repo: Repo) -> None:
    make_dirty(repo)
    expected = {"keep.py", "é.py", "new.py", "moved to.py", "gone.py"}

    found = check_dirty(repo.path)

    assert set(found.tracked) == expected
    assert found.untracked == ("build/", "notes.txt")
    assert parse_porcelain(_status(repo)) == found


def _status(repo: Repo) -> str:
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=repo.path, check=True, capture_output=True, text=True
    ).stdout


def test_the_users_settings_do_not_change_what_is_found(repo: Repo) -> None:
    make_dirty(repo)
    expected = check_dirty(repo.path)
    for name, value in {
        "status.showUntrackedFiles": "no",
        "status.relativePaths": "false",
        "status.short": "true",
        "status.branch": "true",
        "color.status": "always",
        "core.quotePath": "false",
    }.items():
        repo.git("config", name, value)

    assert check_dirty(repo.path) == expected


def test_looking_does_not_refresh_the_users_index(repo: Repo) -> None:
    repo.commit("one", {"a.py": "1\n"})
    (repo.path / "a.py").touch()
    index = repo.path / ".git/index"
    before = (index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino)

    assert check_dirty(repo.path) == Dirty()
    assert (index.read_bytes(), index.stat().st_mtime_ns, index.stat().st_ino) == before


def test_a_bare_repository_is_clean(repo: Repo, tmp_path: Path) -> None:
    repo.commit("one", {"a": "1"})
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "bare.git"))

    assert check_dirty(tmp_path / "bare.git") == Dirty()


def test_the_message_names_five_files_and_counts_the_rest() -> None:
    dirty = Dirty(("a", "b", "c"), ("d", "e", "f", "g"))

    assert dirty_message(dirty) == (
        "commits are measured from clean worktrees, so uncommitted changes are part of no arm: a, b, c, d, e and 2 more"
    )
    assert dirty_message(Dirty()) == ""


def test_a_name_that_is_no_text_can_be_shown(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})
    (repo.path / os.fsdecode(b"bad\xff.py")).write_text("")

    assert "bad\\udcff.py" in dirty_message(check_dirty(repo.path))


def test_edits_are_refused_when_an_arm_is_head(repo: Repo) -> None:
    repo.commit("one", {"a.py": "1"})
    repo.write("a.py", "2")
    commits = [resolve_commit(repo.path, "main")]

    with pytest.raises(SourceError) as caught:
        refuse_dirty(repo.path, commits, "fail")

    assert str(caught.value) == (
        "commits are measured from clean worktrees, so uncommitted changes are part of no arm: a.py; "
        "commit them, or set source.dirty=ignore to measure HEAD without them"
    )


def test_edits_are_a_note_when_ignored_or_when_no_arm_is_head(repo: Repo) -> None:
    repo.commit("one", {"a.py": "1"})
    repo.commit("two", {"a.py": "2"})
    repo.write("a.py", "3")
    note = ("commits are measured from clean worktrees, so uncommitted changes are part of no arm: a.py",)

    assert refuse_dirty(repo.path, [resolve_commit(repo.path, "HEAD~1")], "fail") == note
    assert refuse_dirty(repo.path, [resolve_commit(repo.path, "HEAD")], "ignore") == note


def test_new_files_are_a_note_and_a_clean_tree_is_silent(repo: Repo) -> None:
    repo.commit("one", {"a.py": "1"})
    commits = [resolve_commit(repo.path, "HEAD")]

    assert refuse_dirty(repo.path, commits, "fail") == ()
    repo.write("notes.txt", "")
    assert refuse_dirty(repo.path, commits, "fail") == (
        "commits are measured from clean worktrees, so uncommitted changes are part of no arm: notes.txt",
    )
