"""The only place that turns what people write (branch, tag, short sha, range) into commits."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.errors import SourceError
from interlace.source.git import git_text, printable, run_git
from interlace.source.repository import Repository, open_repository

if TYPE_CHECKING:
    from pathlib import Path

_LOG_OPTIONS = ("--no-show-signature", "--encoding=UTF-8", "--format=%H%x00%ct%x00%s")
_SHOWN = 5
_FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class Commit:
    """One commit. `sha` is full (40 or 64 hex digits), `revision` what was written.

    `committed_at` is in seconds since the epoch.
    """

    sha: str
    revision: str
    subject: str
    committed_at: float


def has_file(repo: Path, sha: str, place: str) -> bool:
    """Tell whether a commit has a file of this name, given from the top of the repository."""
    return run_git(repo, "cat-file", "-e", f"{sha}:{place}").ok


def resolve_commit(repo: Path, revision: str) -> Commit:
    """Return the commit that a revision names; a tag gives the commit it points to.

    Raises `SourceError` when it names none, more than one, or something that is not a commit.
    """
    return _resolve(open_repository(repo), revision)


def expand_range(repo: Path, text: str) -> tuple[Commit, ...]:
    """Return A, the unmodified code, then every commit of `A..B`, oldest first, along first parents.

    `A..` ends at HEAD. Raises `SourceError` for an empty range, for `A...B`, and when A is not an ancestor
    of B.
    """
    repository = open_repository(repo)
    first_text, last_text = _ends(text)
    first, last = _resolve(repository, first_text), _resolve(repository, last_text)
    _check_ancestor(repository, first, last)
    listed = git_text(
        repository.top, "log", "--first-parent", "--reverse", *_LOG_OPTIONS, f"{first.sha}..{last.sha}", "--",
    )  # fmt: skip
    return first, *(_commit(line, None) for line in listed.split("\n") if line)


def _ends(text: str) -> tuple[str, str]:
    if "..." in text:
        raise SourceError(
            f"commits={text}: three dots mean both sides of a fork; a ladder needs two, "
            f"commits={text.replace('...', '..', 1)}"
        )
    first, dots, last = text.strip().partition("..")
    if not dots:
        raise SourceError(f"commits={text} is not a range A..B; for single commits write commit={text},...")
    if not first:
        raise SourceError(f"commits={text} has no start: write commits=A{text.strip()}, A being the unmodified code")
    return first, last or "HEAD"


def _check_ancestor(repository: Repository, first: Commit, last: Commit) -> None:
    ends = f"{first.revision} ({first.sha[:12]}) .. {last.revision} ({last.sha[:12]})"
    if first.sha == last.sha:
        raise SourceError(f"commits={ends} is empty: both ends are the same commit; start from an older one")
    if _is_ancestor(repository, first.sha, last.sha):
        return
    if _is_ancestor(repository, last.sha, first.sha):
        raise SourceError(
            f"commits={ends} is empty: the start is newer than the end; write commits={last.revision}..{first.revision}"
        )
    base = run_git(repository.top, "merge-base", first.sha, last.sha).stdout.strip()
    hint = f"start where they part: commits={base[:12]}..{last.revision}" if base else "they share no history"
    raise SourceError(f"commits={ends}: the start is not an ancestor of the end; {hint}")


def _is_ancestor(repository: Repository, older: str, newer: str) -> bool:
    return run_git(repository.top, "merge-base", "--is-ancestor", older, newer).ok


def _resolve(repository: Repository, revision: object) -> Commit:
    text = _checked_text(revision)
    sha = _sha_of(repository, text)
    described = git_text(repository.top, "log", "-1", *_LOG_OPTIONS, sha, "--")
    return _commit(described.removesuffix("\n"), text)


def _checked_text(revision: object) -> str:
    if not isinstance(revision, str):
        raise SourceError(f"commit={revision!r} is a number, not text: a short sha such as 5e81234 must be quoted")
    text = revision.strip()
    if not text:
        raise SourceError("commit= is empty; give a branch, a tag or a sha")
    if text.startswith("-"):
        raise SourceError(f"commit={text}: a revision cannot start with '-'")
    if not text.isprintable():
        raise SourceError(f"commit={text!r} has characters that no revision can have")
    if ".." in text and not text.startswith(":/"):
        raise SourceError(f"commit={text} is a range; write commits={text}")
    return text


def _sha_of(repository: Repository, revision: str) -> str:
    # `:/words` searches messages to the end of the text: ^{commit} would become part of what is searched.
    first = revision if revision.startswith(":/") else f"{revision}^{{commit}}"
    asked = run_git(repository.top, "rev-parse", "--verify", first)
    if "is ambiguous" in asked.stderr:
        _refuse_ambiguous(repository, revision, asked.stdout.strip())
    sha = asked.stdout.strip()
    # `^main` is a valid argument of rev-parse and answers `^sha`: not a commit to measure.
    if not asked.ok or not _FULL_SHA.fullmatch(sha):
        raise SourceError(_unknown(repository, revision))
    return sha


def _refuse_ambiguous(repository: Repository, revision: str, found: str) -> None:
    """Raise unless every reading of the name gives the commit that git would take."""
    readings = {**_references(repository, revision), **_shas(repository, revision)}
    if found and set(readings.values()) <= {found}:
        return
    names = ", ".join(list(readings)[:_SHOWN])
    raise SourceError(f"commit={revision} is ambiguous in {repository.top}: write one of {names}")


def _references(repository: Repository, revision: str) -> dict[str, str]:
    names = [f"refs/{revision}", *(f"refs/{kind}/{revision}" for kind in ("tags", "heads", "remotes"))]
    found = {name: run_git(repository.top, "rev-parse", "--verify", f"{name}^{{commit}}") for name in names}
    return {name: asked.stdout.strip() for name, asked in found.items() if asked.ok}


def _shas(repository: Repository, revision: str) -> dict[str, str]:
    if not re.fullmatch(r"[0-9a-f]{4,64}", revision):
        return {}
    objects = run_git(repository.top, "rev-parse", f"--disambiguate={revision}").stdout
    kinds = git_text(repository.top, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=objects)
    shas = [line.partition(" ")[2] for line in kinds.splitlines() if line.startswith("commit ")]
    return {sha[:16]: sha for sha in shas}


def _unknown(repository: Repository, revision: str) -> str:
    where = f"in {repository.top}"
    kind = run_git(repository.top, "cat-file", "-t", revision)
    if kind.ok and kind.stdout.strip() in {"blob", "tree"}:
        return f"commit={revision} is a {kind.stdout.strip()} {where}, not a commit"
    if not run_git(repository.top, "rev-parse", "--verify", "HEAD^{commit}").ok and revision == "HEAD":
        return f"commit=HEAD: {repository.top} has no commit yet; commit something first"
    near = _near_matches(repository, revision)
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    return f"commit={revision}: no such revision {where}{meant} {_fetch_hint(repository)}"


def _fetch_hint(repository: Repository) -> str:
    shallow = run_git(repository.top, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
    if shallow:
        return "(the clone is shallow: run `git fetch --unshallow --tags` there)"
    return "(if it is on the server, run `git fetch --all --tags` there)"


def _near_matches(repository: Repository, revision: str) -> list[str]:
    listed = git_text(
        repository.top, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"
    )
    names = listed.splitlines()
    same_end = [name for name in names if name.endswith(f"/{revision}")]
    close = difflib.get_close_matches(revision, names, n=3)
    return list(dict.fromkeys([*same_end[:3], *close]))[:3]


def _commit(line: str, revision: str | None) -> Commit:
    sha, committed_at, subject = line.split("\0", 2)
    return Commit(sha, revision or sha[:12], printable(subject), float(committed_at))
