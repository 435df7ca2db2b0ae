"""What is on disk of the runs: records, attempts, and the runs that are still to do."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from interlace.errors import ReadError
from interlace.files import read_json, write_json
from interlace.schema import FORMAT_VERSION, Cause, Plan, Run, RunRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from interlace.files import SweepDir


Versioned = TypeVar("Versioned", Plan, RunRecord)


@dataclass(frozen=True)
class Started:
    """Written the moment a run's program has started: whom to end if its orchestrator dies."""

    run: Run
    attempt: int
    pid: int
    started_at: float
    log: str | None = None


TOO_SHORT = frozenset({"incomplete", "window"})
"""Codes of causes that say no more than that the window was not reached: another window may be."""


@dataclass(frozen=True)
class Attempt:
    """One folder under runs/: its record, or None where the orchestrator died before writing one."""

    run: Run
    number: int
    path: Path
    record: RunRecord | None


def read_plan(sweep_dir: SweepDir) -> Plan:
    """Read the plan. Raises ReadError for a file of a newer Interlace."""
    return _read(sweep_dir.plan, Plan)


def attempts(sweep_dir: SweepDir, run: Run) -> list[Attempt]:
    """List the attempts of a run, oldest first."""
    found = []
    number = 1
    while (path := sweep_dir.run(run.id, number)).is_dir():
        record = path / "record.json"
        found.append(Attempt(run, number, path, _read(record, RunRecord) if record.is_file() else None))
        number += 1
    return found


def _read(path: Path, kind: type[Versioned]) -> Versioned:
    content = read_json(path, kind)
    if content.format_version > FORMAT_VERSION:
        raise ReadError(f"{path} has format {content.format_version}; this Interlace reads up to {FORMAT_VERSION}")
    return content


def is_finished(tries: Sequence[Attempt]) -> bool:
    """Tell whether a run needs no further attempt: its last one ended, well or badly, of itself.

    The last one decides: a run that was started anew for a passing cause and then cut is not finished. Nor is one
    that the gate refused, or whose node was lost; one that others disturbed while it was on is, since its whole round
    is measured again.
    """
    last = tries[-1].record if tries else None
    if last is None or last.status == "interrupted" or (last.cause is not None and last.cause.code == "node_lost"):
        return False
    return not (last.status == "disturbed" and last.cause is not None and last.cause.code == "gate")


def remaining(sweep_dir: SweepDir, plan: Plan) -> list[Run]:
    """Return the plan minus what is finished, and minus what is left of rounds that others stand for."""
    runs = [run for run in plan.runs if run.round not in plan.repeated]
    return [run for run in runs if not is_finished(attempts(sweep_dir, run))]


def write_steps(path: Path, frame: pd.DataFrame) -> None:
    """Write the step series of a run; complete or absent, like every file that is read later."""
    temporary = path / f".steps.parquet.{os.getpid()}"
    frame.to_parquet(temporary, index=False)
    temporary.replace(path / "steps.parquet")


def read_steps(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read the step series of a run, or those of `columns` that it has (`phase.*`: all that begin so).

    Raises ReadError where it is broken.
    """
    import pyarrow as pa  # noqa: PLC0415 (records are read by light commands; step series are not)
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path / "steps.parquet") as file:
            there = file.schema_arrow.names
            kept = None if columns is None else [name for name in there if any(fnmatchcase(name, c) for c in columns)]
            frame: pd.DataFrame = file.read(columns=kept).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise ReadError(f"{path / 'steps.parquet'} cannot be read: {error}") from error
    return frame


def write_record(path: Path, record: RunRecord) -> None:
    """Persist a record; from this moment on the run is finished."""
    write_json(path / "record.json", record)


def close_cut(attempt: Attempt, ended: int) -> RunRecord:
    """Write the record of an attempt whose orchestrator died, so that it stays on disk with its reason.

    `ended` of its processes were still there. The log that it wrote outside its folder is taken in, so that the
    next attempt does not find it.
    """
    path = attempt.path / "started.json"
    started = read_json(path, Started) if path.is_file() else None
    if started is not None and started.log and Path(started.log).exists():
        shutil.move(started.log, attempt.path / f"log-{Path(started.log).name}")
    began_at = started.started_at if started else attempt.path.stat().st_mtime
    message = "the orchestrating process died while this run was on"
    if ended:
        message += f"; its {ended} left-over process{'es were' if ended > 1 else ' was'} ended"
    record = RunRecord(attempt.run, attempt.number, "interrupted", began_at, 0.0, None, Cause("cut", message))
    write_record(attempt.path, record)
    return record


def make_run_dir(sweep_dir: SweepDir, run: Run) -> tuple[int, Path]:
    """Create the folder of the next attempt of a run, exclusively."""
    number = len(attempts(sweep_dir, run)) + 1
    path = sweep_dir.run(run.id, number)
    path.mkdir(parents=True)
    (path / "steps").mkdir()
    (path / "ranks").mkdir()
    return number, path


def free_mib(path: Path) -> float:
    """Return the free space of the disk that holds path, in MiB."""
    return shutil.disk_usage(path).free / 2**20
