"""Reads about the disk that results would be written to."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from interlace.doctor.facts import OutputFolder
from interlace.node import text_of


def output_folder(path: Path, root: Path = Path("/")) -> OutputFolder:
    """Look at a folder, or at its nearest parent that exists; one byte is written there, and not kept."""
    wanted = path.expanduser().absolute()
    existing = _nearest(wanted)
    unusable = _why_not_writable(existing)
    free_gib, inodes_left = None, True
    try:
        disk = os.statvfs(existing)
    except OSError as error:
        unusable = unusable or f"cannot be looked at: {error.strerror}"
    else:
        free_gib = disk.f_bavail * disk.f_frsize / 2**30
        inodes_left = disk.f_files == 0 or disk.f_favail > 0  # some file systems count no inodes
    return OutputFolder(
        str(path), existing == wanted, str(existing), file_system_of(existing, root), free_gib, inodes_left, unusable
    )


def _nearest(path: Path) -> Path:
    """Return the path itself or the first of its parents that is there."""
    return next((place for place in (path, *path.parents) if os.path.lexists(place)), Path("/"))


def _why_not_writable(existing: Path) -> str | None:
    """Write a byte into a file without a name. Permission bits would not tell: see NFS, and read-only mounts."""
    if not existing.is_dir():
        return "is not a folder"
    try:
        with tempfile.TemporaryFile(dir=existing) as stream:
            stream.write(b"\n")
            stream.flush()
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return None


def file_system_of(path: Path, root: Path = Path("/")) -> str | None:
    """Return the type of the file system a path is on, from mountinfo (proc(5)); None where it is not told."""
    resolved = path.resolve()
    best: tuple[int, str] | None = None
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        mount, _, rest = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5 or not rest:  # noqa: PLR2004 (the fifth field is where it is mounted)
            continue
        point = Path(_unescaped(fields[4]))
        if resolved.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), rest.split(" ")[0])  # of two mounts on one point the later one covers
    return best[1] if best else None


def _unescaped(text: str) -> str:
    r"""Undo the kernel's octal escapes of blanks: `\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
