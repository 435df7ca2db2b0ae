"""The files of a sweep: where each lies, and writing them so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from interlace.errors import ReadError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

T = TypeVar("T")


@dataclass(frozen=True)
class SweepDir:
    """Names of the files of one sweep folder."""

    path: Path

    @property
    def sweep(self) -> Path:
        """The resolved configuration, the arms and the baseline."""
        return self.path / "sweep.yaml"

    @property
    def plan(self) -> Path:
        """Every run in order, written before the first one."""
        return self.path / "plan.json"

    @property
    def node(self) -> Path:
        """The fingerprint of the machine."""
        return self.path / "node.json"

    @property
    def nodes(self) -> Path:
        """The fingerprints of the other nodes of a lane that has several, and what their agents had to say."""
        return self.path / "nodes"

    @property
    def state(self) -> Path:
        """What the orchestrator is doing now; advisory, the records are the truth."""
        return self.path / "state.json"

    @property
    def noise(self) -> Path:
        """What this sweep's noise is, beside what is usual on its node."""
        return self.path / "noise.json"

    @property
    def runs(self) -> Path:
        """One folder per attempt of a run."""
        return self.path / "runs"

    def run(self, run_id: str, attempt: int) -> Path:
        """Folder of one attempt; the first attempt has the plain name."""
        return self.runs / (run_id if attempt == 1 else f"{run_id}.{attempt}")


SWEEP_MARKS = ("plan.json", "lanes.json")
"""One of these lies in every sweep's folder: its plan, or the list of its lanes, each with a plan of its own."""


def write_text(path: Path, text: str, *, executable: bool = False) -> None:
    """Write a file under a temporary name beside it, then rename: readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes private files; a sweep folder is for the whole team.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod((0o777 if executable else 0o666) & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON, indented; NaN and infinity become null (they are not JSON)."""
    write_text(path, as_json_text(value))


def as_json_text(value: Any, *, indent: int = 2) -> str:
    """Return strict JSON with a final newline; `indent=0` puts it on one line."""
    encoded = msgspec.json.encode(value, enc_hook=_plain)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode() + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):  # numpy scalars
        return value.item()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def read_json(path: Path, kind: type[T]) -> T:
    """Read a file into a dataclass. Raises ReadError naming the file and what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise ReadError(f"{path} does not exist") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReadError(f"{path} cannot be read as {kind.__name__}: {error}") from error


def make_sweep_dir(output_dir: Path, name: str, now: datetime) -> SweepDir:
    """Create `<output_dir>/<name>/<date_time>` exclusively; a second sweep in the same second gets a suffix."""
    # Absolute, because ranks run in other folders than the one in which the sweep was started.
    parent = (output_dir / name).resolve()
    stamp = now.strftime("%Y-%m-%d_%H-%M-%S")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"_{number}" for number in range(2, 1000))):
            with contextlib.suppress(FileExistsError):
                (parent / f"{stamp}{suffix}").mkdir()
                return SweepDir(parent / f"{stamp}{suffix}")
    except OSError as error:
        raise UsageError(f"cannot create a folder under {parent}: {error.strerror}; set output_dir=...") from error
    raise UsageError(f"{parent} holds a thousand sweeps of this second; set another name=...")


def open_sweep_dir(path: Path) -> SweepDir:
    """Return the folder of an existing sweep. Raises UsageError saying what is missing, and where one might be."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; give the folder of a sweep (interlace prints it at the start)")
    if not any((path / name).is_file() for name in SWEEP_MARKS):
        inside = sorted({found.parent for name in SWEEP_MARKS for found in path.glob(f"*/{name}")})
        hint = f"; did you mean {inside[-1]}?" if inside else ""
        raise UsageError(f"{path} is not the folder of a sweep: it has no plan.json{hint}")
    return SweepDir(path.resolve())


@contextlib.contextmanager
def locked(sweep_dir: SweepDir) -> Iterator[None]:
    """Hold the sweep for this process. Raises UsageError while another one is measuring in it."""
    with _lock_file(sweep_dir) as stream:
        for wait_s in (0.1, 0.3, 0.6, None):  # a look by `status` holds it for a moment
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if wait_s is None:
                    raise UsageError(
                        f"{sweep_dir.path} is being measured by another interlace process; "
                        f"watch it with: interlace status {sweep_dir.path}"
                    ) from None
                time.sleep(wait_s)
        yield


def _lock_file(sweep_dir: SweepDir) -> TextIO:
    try:
        return (sweep_dir.path / ".lock").open("a")
    except OSError as error:
        raise UsageError(f"{sweep_dir.path} cannot be written: {error.strerror}") from error


def is_locked(sweep_dir: SweepDir) -> bool:
    """Tell whether an orchestrator is at work in this folder; needs no right to write there."""
    try:
        with (sweep_dir.path / ".lock").open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
