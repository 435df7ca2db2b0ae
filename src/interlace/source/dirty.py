"""The only place that reads `git status`: which files of the user's tree are in no commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from interlace.errors import SourceError
from interlace.source.git import git_text, printable
from interlace.source.repository import open_repository
from interlace.source.revisions import resolve_commit
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from interlace.source.revisions import Commit

_SHOWN = 5
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


@dataclass(frozen=True)
class Dirty:
    """Changes that are in no commit, in git's order; a renamed file has its new name, folders end in `/`."""

    tracked: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()


def check_dirty(repo: Path) -> Dirty:
    """Return what is uncommitted in `repo`; a bare repository has nothing. The index is not refreshed."""
    repository = open_repository(repo)
    if repository.bare:
        return Dirty()
    return parse_porcelain_z(status_z(repository.top, "--untracked-files=normal"))


def status_z(directory: Path, *options: str) -> str:
    """`git status --porcelain=v1 -z`. New files inside a submodule are left out: builds leave them there."""
    return git_text(directory, "status", "--porcelain=v1", "-z", "--ignore-submodules=untracked", *options)


def parse_porcelain(text: str) -> Dirty:
    """Read `git status --porcelain` (version 1). Never strip the text: column one counts."""
    return _sorted_out(_entry(line) for line in text.split("\n") if line.strip())


def parse_porcelain_z(text: str) -> Dirty:
    """Read `git status --porcelain=v1 -z`: names as they are, and after a rename the old name by itself."""
    return _sorted_out(_entries_z(iter(text.split("\0"))))


def dirty_message(dirty: Dirty) -> str:
    """Say that uncommitted changes are in no arm, naming up to five files; empty when there are none."""
    files = (*dirty.tracked, *dirty.untracked)
    if not files:
        return ""
    named = first_of([printable(name) for name in files], _SHOWN)
    return f"commits are measured from clean worktrees, so uncommitted changes are part of no arm: {named}"


def refuse_dirty(repo: Path, commits: Sequence[Commit], policy: Literal["fail", "ignore"]) -> tuple[str, ...]:
    """Return notes about uncommitted changes for the commits of a sweep.

    Raises `SourceError` under `fail` when tracked files differ and HEAD is an arm: its name would then claim
    edits that are not measured.
    """
    dirty = check_dirty(repo)
    message = dirty_message(dirty)
    if not message:
        return ()
    if policy == "fail" and dirty.tracked and _measures_head(repo, commits):
        raise SourceError(f"{message}; commit them, or set source.dirty=ignore to measure HEAD without them")
    return (message,)


def _measures_head(repo: Path, commits: Sequence[Commit]) -> bool:
    if not commits:
        return False
    head = resolve_commit(repo, "HEAD").sha
    return any(commit.sha == head for commit in commits)


def _sorted_out(entries: Iterable[tuple[str, str]]) -> Dirty:
    found = [(code, path) for code, path in entries if code not in {"!!", "##"}]
    return Dirty(
        tracked=tuple(path for code, path in found if code != "??"),
        untracked=tuple(path for code, path in found if code == "??"),
    )


def _entry(line: str) -> tuple[str, str]:
    code, names = line[:2], line[3:]
    if not _is_renamed(code):
        return code, _one_name(names)
    old = _QUOTED.match(names)
    new = names[old.end() :].removeprefix(" -> ") if old else names.partition(" -> ")[2]
    return code, _one_name(new or names)


def _entries_z(fields: Iterator[str]) -> Iterator[tuple[str, str]]:
    for field in fields:
        if not field:
            continue
        if _is_renamed(field[:2]):
            next(fields, "")
        yield field[:2], field[3:]


def _is_renamed(code: str) -> bool:
    return "R" in code or "C" in code


def _one_name(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if not quoted:
        return text
    raw = _ESCAPE.sub(_unescaped, quoted[1].encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    body = match[1]
    if body[:1] in b"01234567":
        return bytes([int(body, 8) & 0xFF])
    return _LETTERS.get(body, body)
