"""The only place that adds and removes worktrees: one per commit, in the cache folder.

The one trace in the user's repository is git's own bookkeeping under `.git/worktrees`, gone with the
worktree.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from interlace.errors import SourceError
from interlace.files import write_json
from interlace.source.child import end_orphans
from interlace.source.dirty import parse_porcelain_z, status_z
from interlace.source.git import CHECKOUT_TIMEOUT_S, GitResult, printable, run_git
from interlace.source.lfs import lfs_pointers, pointer_message
from interlace.source.place import Marker, Place, cache_root, locked, read_marker, shelf
from interlace.source.repository import Repository, open_repository
from interlace.source.setup import accepted_state, tracked_state, was_cut_short
from interlace.source.submodules import Level, fill_submodules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.source.revisions import Commit

_SHA_CHARS = 12


@dataclass(frozen=True)
class Worktree:
    """A worktree that Interlace made: where, of which commit and repository, and whether it was finished."""

    path: Path
    sha: str
    repo: Path
    complete: bool


def add_worktree(
    repo: Path, commit: Commit, cache_dir: Path | None = None, *, pointers: Literal["fail", "ignore"] = "fail"
) -> Path:
    """Return a clean checkout of a commit, detached, with its submodules; made once and used again.

    `pointers` says what Git LFS files without their content mean. Raises `SourceError` when the checkout
    cannot be made, is not Interlace's, or was changed since.
    """
    repository = open_repository(repo)
    place = Place(shelf(repository, cache_dir) / commit.sha[:_SHA_CHARS])
    with locked(place.lock_path):
        marker = read_marker(place.marker_path)
        if marker is None and place.path.exists():
            raise SourceError(f"{place.path} is in the way and was not made by Interlace; move it away")
        if marker is None or not marker.complete or not _is_usable(place.path, repository):
            marker = _make(repository, place, commit, pointers)
        _check_unchanged(repository, place.path, commit)
    _check_pointers(repository, commit, marker.pointers, pointers)
    return place.path


def list_worktrees(repo: Path | None = None, cache_dir: Path | None = None) -> list[Worktree]:
    """Worktrees that Interlace made, of one repository or of all, half-made ones included."""
    root = cache_root(cache_dir)
    wanted = None if repo is None else _git_folders(repo)
    found = []
    for path in sorted(root.glob("*/*.json")):
        marker = read_marker(path)
        if marker and (wanted is None or Path(marker.common_dir) in wanted):
            found.append(Worktree(path.with_suffix(""), marker.sha, Path(marker.repo), marker.complete))
    return found


def remove_worktrees(repo: Path | None = None, cache_dir: Path | None = None) -> list[Path]:
    """Remove worktrees that Interlace made, and git's record of them; returns their paths.

    Raises `SourceError` while a sweep holds them (see `hold_worktrees`).
    """
    removed = []
    for folder in _shelves(repo, cache_dir):
        with _unused(folder), locked(folder / ".lock"):
            for path in sorted(folder.glob("*.json")):
                place = Place(path.with_suffix(""))
                if marker := read_marker(path):
                    _discard(place, Path(marker.common_dir))
                    removed.append(place.path)
            _tidy(folder)
    return removed


@contextlib.contextmanager
def hold_worktrees(repo: Path, cache_dir: Path | None = None) -> Iterator[None]:
    """Keep the worktrees of a repository from being removed while a sweep measures from them."""
    with locked(shelf(open_repository(repo), cache_dir) / ".in-use", shared=True):
        yield


# ---------------------------------------------------------------- adding


def _make(repository: Repository, place: Place, commit: Commit, pointers: Literal["fail", "ignore"]) -> Marker:
    _discard(place, repository.common_dir)
    marker = Marker(commit.sha, str(repository.top), str(repository.common_dir), complete=False)
    write_json(place.marker_path, marker)
    try:
        found = _check_out(repository, place.path, commit)
        _check_pointers(repository, commit, found, pointers)
    except SourceError:
        _discard(place, repository.common_dir)
        raise
    marker = replace(marker, complete=True, pointers=found)
    write_json(place.marker_path, marker)
    return marker


def _check_pointers(
    repository: Repository, commit: Commit, found: tuple[str, ...], policy: Literal["fail", "ignore"]
) -> None:
    if found and policy == "fail":
        raise SourceError(pointer_message(repository.top, commit.sha, found))


def _check_out(repository: Repository, path: Path, commit: Commit) -> tuple[str, ...]:
    """Make the worktree with its submodules; returns the LFS files that stayed pointers."""
    # Forced twice: our path may still be registered, even locked, by an add that was killed.
    added = run_git(
        repository.top, "worktree", "add", "--force", "--force", "--detach", str(path), commit.sha,
        # A sparse checkout of the user's would leave files out of the measured tree.
        config={"core.sparseCheckout": "false"}, timeout_s=CHECKOUT_TIMEOUT_S, worktree=path,
    )  # fmt: skip
    if not added.ok:
        raise SourceError(_add_failure(repository, commit, added))
    user_tree = None if repository.bare else repository.top
    git_dirs = tuple(dict.fromkeys((repository.git_dir, repository.common_dir)))
    trees = fill_submodules(Level(path, path, git_dirs, _origin(repository), user_tree))
    names = [(tree / name).relative_to(path) for tree in (path, *trees) for name in lfs_pointers(tree)]
    return tuple(printable(str(name)) for name in names)


def _origin(repository: Repository) -> str:
    """Return what submodule addresses are relative to: origin, or the repository itself without one."""
    asked = run_git(repository.top, "config", "--get", "remote.origin.url")
    return asked.stdout.strip() or str(repository.top)


def _add_failure(repository: Repository, commit: Commit, added: GitResult) -> str:
    hint = "free space or mend what git names, then start again"
    if "lfs" in added.stderr.lower():
        hint = (
            f"Git LFS content is missing: install git-lfs, run `git -C {repository.top} lfs fetch origin "
            f"{commit.sha[:_SHA_CHARS]}`, then start again"
        )
    what = f"commit {commit.sha[:_SHA_CHARS]} of {repository.top}"
    return f"{what} could not be checked out: {added.reason}; {hint}"


def _is_linked(path: Path, repository: Repository) -> bool:
    """Whether git knows the folder as a worktree of this very repository."""
    if path.is_symlink() or not (path / ".git").is_file():
        return False
    asked = run_git(path, "rev-parse", "--show-toplevel", "--git-common-dir", "--verify", "HEAD^{commit}")
    if not asked.ok:
        return False
    top, common_dir = asked.stdout.split("\n")[:2]
    return Path(top) == path and (path / common_dir).resolve() == repository.common_dir


def _is_usable(path: Path, repository: Repository) -> bool:
    return _is_linked(path, repository) and not was_cut_short(path)


def _check_unchanged(repository: Repository, path: Path, commit: Commit) -> None:
    remedy = f"`interlace clean repo={repository.top} --yes` removes it"
    head = run_git(path, "rev-parse", "HEAD").stdout.strip()
    if head != commit.sha:
        raise SourceError(f"the worktree {path} was moved to {head[:_SHA_CHARS]} from {commit.sha}; {remedy}")
    changed = parse_porcelain_z(status_z(path, "--untracked-files=no")).tracked
    # What the set-up command changed is part of the arm; it was noted when it happened.
    if changed and tracked_state(path) != accepted_state(path):
        files = ", ".join(printable(name) for name in changed[:5])
        raise SourceError(f"tracked files of the worktree {path} were changed: {files}; {remedy}")


# ---------------------------------------------------------------- removing


def _discard(place: Place, common_dir: Path) -> None:
    """Remove folder, git's record of it, and marker, in any state that a kill may have left them in."""
    end_orphans(place.path)
    remove_tree(place.path)
    if common_dir.is_dir():
        run_git(common_dir, "worktree", "remove", "--force", "--force", str(place.path))
        _forget(place.path, common_dir / "worktrees")
    place.marker_path.unlink(missing_ok=True)


def _forget(path: Path, records: Path) -> None:
    """Remove what `git worktree add`, killed in its first moments, leaves: a record that names no path yet.

    Files as in gitrepository-layout(5); git calls the record after the last part of the path.
    """
    for record in records.glob(f"{path.name}*"):
        gitdir = record / "gitdir"
        named = gitdir.read_text("utf-8", "surrogateescape").strip() if gitdir.is_file() else ""
        if not named or (record / named) == path / ".git":
            remove_tree(record)
    with contextlib.suppress(OSError):  # other worktrees are there, or none ever were
        records.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a folder and all in it, also what a build made read-only. Links are removed, never followed.

    Raises `SourceError` when something cannot be removed.
    """
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        try:
            _make_writable(path)
            shutil.rmtree(path)
        except OSError as error:
            raise SourceError(f"{path} cannot be removed: {error}; remove it by hand") from error


def _make_writable(path: Path) -> None:
    for folder in (path, *(item for item in path.rglob("*") if item.is_dir() and not item.is_symlink())):
        mode = folder.stat().st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            folder.chmod(mode | stat.S_IRWXU)


@contextlib.contextmanager
def _unused(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".in-use", timeout_s=0))
        except SourceError as error:
            raise SourceError(f"{folder} is in use by a running sweep; wait for its end or stop it") from error
        yield


def _shelves(repo: Path | None, cache_dir: Path | None) -> list[Path]:
    """List folders of the cache with worktrees that Interlace made, or with only what a kill left of one."""
    holding = {worktree.path.parent for worktree in list_worktrees(repo, cache_dir)}
    left = {folder for folder in cache_root(cache_dir).glob("*-*/") if _is_left(folder)}
    if repo is not None:
        left &= {shelf(open_repository(repo), cache_dir)} if repo.exists() else set()
    return sorted(holding | left)


def _is_left(folder: Path) -> bool:
    """Tell whether only our own lock files and half-written markers are in a folder."""
    own = {*folder.glob(".lock"), *folder.glob(".in-use"), *folder.glob(".*.json.*")}
    return (folder / ".lock") in own and own == set(folder.iterdir())


def _tidy(folder: Path) -> None:
    """Remove a repository's folder in the cache when no worktree is left in it."""
    if _is_left(folder):
        for path in folder.iterdir():
            path.unlink()
        with contextlib.suppress(OSError):  # another sweep has just come to add one
            folder.rmdir()


def _git_folders(repo: Path) -> set[Path]:
    """Where the git folder of a repository is, or was when the repository is gone."""
    folder = repo.expanduser().resolve()
    if folder.exists():
        return {open_repository(folder).common_dir}
    return {folder, folder / ".git"}
