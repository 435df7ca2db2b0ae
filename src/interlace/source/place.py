"""The only place that knows the cache folder: where worktrees lie, which are ours, who uses them.

<cache>/<repository>-<hash>/.lock          held while one is added or removed
                           /.in-use        held, shared, by every sweep that measures from here
                           /<sha12>/       the worktree
                           /<sha12>.json   its marker: written first, so a half-made one is known as ours
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import ReadError, SourceError
from interlace.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from interlace.source.repository import Repository

MARKER_VERSION = 1
"""Version of the marker file. 1: first."""

LOCK_TIMEOUT_S = 7200.0
"""How long one sweep waits while another adds a worktree: longer than a check-out may take."""

_POLL_S = 0.1


@dataclass(frozen=True)
class Marker:
    """What Interlace wrote down about a worktree it made. Paths are absolute.

    `repo` is the user's work tree, `common_dir` its git folder, `pointers` LFS files left as pointers.
    """

    sha: str
    repo: str
    common_dir: str
    complete: bool
    pointers: tuple[str, ...] = ()
    format_version: int = MARKER_VERSION


@dataclass(frozen=True)
class Place:
    """Where the worktree of one commit of one repository lies, and the two files beside it."""

    path: Path

    @property
    def marker_path(self) -> Path:
        """Says that Interlace made the worktree, and whether it was finished."""
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def lock_path(self) -> Path:
        """Held while a worktree of this repository is added or removed."""
        return self.path.with_name(".lock")


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/interlace/worktrees`, else `~/.cache/interlace/worktrees` (XDG base directories).

    Raises `SourceError` when there is no home folder to put it in.
    """
    xdg = environ.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():  # a relative one is invalid and ignored, says the specification
        return Path(xdg) / "interlace" / "worktrees"
    home = environ.get("HOME", "")
    if not Path(home).is_absolute():
        raise SourceError("neither XDG_CACHE_HOME nor HOME is set: no cache folder; set source.cache_dir")
    return Path(home) / ".cache" / "interlace" / "worktrees"


def cache_root(cache_dir: Path | None) -> Path:
    """Return the cache folder as an absolute path with links resolved: git stores it so."""
    return (cache_dir.expanduser() if cache_dir else default_cache_dir(os.environ)).resolve()


def shelf(repository: Repository, cache_dir: Path | None) -> Path:
    """Return the folder of one repository in the cache: its name and a hash of where its git folder lies."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", repository.name).strip("-.")[:40] or "repo"
    digest = hashlib.sha256(os.fsencode(repository.common_dir)).hexdigest()[:10]
    return cache_root(cache_dir) / f"{name}-{digest}"


def read_marker(path: Path) -> Marker | None:
    """Return the marker, or None when there is none that can be read: that proves nothing."""
    try:
        return read_json(path, Marker)
    except ReadError:
        return None


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold a lock file; it is released when the process ends, however it ends.

    Raises `SourceError` when another process holds it for longer than `timeout_s`, or it cannot be made.
    """
    deadline = time.monotonic() + timeout_s
    try:
        descriptor = _acquire(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, deadline)
    except OSError as error:
        raise SourceError(f"cannot use the cache folder {path.parent}: {error}; set source.cache_dir") from error
    if descriptor is None:
        raise SourceError(f"another Interlace process has held {path} for {timeout_s:g} s; wait for it to end")
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, kind: int, deadline: float) -> int | None:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # the folder was removed between the two calls
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
            continue
        if _is_still(path, descriptor):
            return descriptor
        os.close(descriptor)  # it was removed while we waited: the next process would lock another file


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
