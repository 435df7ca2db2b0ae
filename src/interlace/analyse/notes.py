"""What has to be said about a sweep and its runs beside the numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlace.analyse.counted import SHOWN_RUNS
from interlace.analyse.judged import confidence_of
from interlace.compare.step_notes import settling_notes, slow_notes
from interlace.files import read_json
from interlace.records import TOO_SHORT
from interlace.stats.run import is_of_window
from interlace.steplog.reading import OWN
from interlace.wording import first_of, sharing, sharing_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from interlace.analyse.counted import Counted
    from interlace.loaded import LoadedSweep
    from interlace.schema import RunRecord

    Floats = NDArray[np.float64]

HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Trouble:
    """A run that is not ok, and why."""

    run: str
    attempt: int
    arm: str
    status: str
    message: str
    log: str = ""


def troubles(loaded: LoadedSweep) -> list[Trouble]:
    """List the runs that are not ok and do not count; what is told below the same first line is told once."""
    found = [
        Trouble(
            one.run.id,
            one.number,
            loaded.sweep.names[one.run.arm],
            one.record.status,
            _why(loaded, one.record),
            f"see {_place(loaded, one.path)}/{_evidence(one.path, one.record)}",
        )
        for one in loaded.tries
        if one.record is not None and one.record.status != "ok" and one not in loaded.used
    ]
    first = [one.message.partition("\n")[0] for one in found]
    return [
        replace(one, message=line) if line in first[:place] else one
        for place, (one, line) in enumerate(zip(found, first, strict=True))
    ]


def _why(loaded: LoadedSweep, record: RunRecord) -> str:
    """Say why a run does not count: by its cause; one that was too short, by the window that is asked for now."""
    if loaded.other_window is not None and record.cause is not None and record.cause.code in TOO_SHORT:
        first, last = loaded.other_window
        return f"window {first}:{last} reaches beyond what the run recorded, {record.steps_seen} steps"
    return record.cause.message if record.cause else ""


def _place(loaded: LoadedSweep, path: Path) -> Path:
    """Return a run's folder as seen from the sweep's; as it is where it belongs to another sweep."""
    return path.relative_to(loaded.sweep_dir.path) if path.is_relative_to(loaded.sweep_dir.path) else path


def _evidence(path: Path, record: RunRecord) -> str:
    """Name the file that shows why a run is not ok."""
    if record.status == "disturbed":
        return "gate.json" if record.cause is not None and record.cause.code == "gate" else "record.json"
    if record.cause is not None and record.cause.code == "no_steps_found":
        return max(_outputs(path), key=lambda name: _trainers_bytes(path / name), default="")
    there = f"nodes/{record.cause.node}/stderr.log" if record.cause is not None and record.cause.node else ""
    names = [name for name in (there, "stderr.log", "stdout.log") if name and (path / name).is_file()]
    return next((name for name in names if _trainers_bytes(path / name)), names[0] if names else "")


def _trainers_bytes(path: Path) -> int:
    """Return how much of a run's output is the trainer's, and not said by our own wrapper at the start."""
    with path.open("rb") as file:
        lines = file.read(HEAD_BYTES).splitlines(keepends=True)
    return path.stat().st_size - sum(len(line) for line in lines if line.startswith(OWN.encode()))


def _outputs(path: Path) -> list[str]:
    """Name what a run wrote: its own log, its streams."""
    return [one.name for pattern in ("log-*", "stdout.log", "stderr.log") for one in path.glob(pattern)]


def step_notes(names: dict[str, str], counted: Sequence[Counted]) -> list[str]:
    """Say which arms still settle inside the window, and which runs have steps that stand out."""
    by_arm: dict[str, list[Floats]] = {}
    for one in counted:
        by_arm.setdefault(names[one.attempt.run.arm], []).append(one.seen.inside[1])
    slow = [f"{one.attempt.run.id}: {note}" for one in counted for note in slow_notes(*one.seen.inside)]
    events = sharing((one.attempt.run.id, note) for one in counted for note in one.events)
    told = [f"{first_of(runs, SHOWN_RUNS)}: {note}" for note, runs in events.items()]
    return [*settling_notes(by_arm), *slow, *told]


def window_notes(counted: Sequence[Counted]) -> list[str]:
    """Say what is odd about the steps of another window than the one that the records were made for."""
    where = sharing((one.attempt.run.id, note) for one in counted for note in one.seen.notes)
    return [_noted(note, runs, len(counted)) for note, runs in where.items()]


def plan_notes(loaded: LoadedSweep) -> list[str]:
    """Say which rounds were added, and at which level the intervals therefore stand."""
    sources = loaded.sweep_dir.path / "sources.json"
    notes = [str(note) for note in read_json(sources, dict).get("notes", [])] if sources.is_file() else []
    notes += [f"round {one.round} was added: {one.reason}" for one in loaded.plan.extensions]
    if loaded.sweep_dir.noise.is_file() and (word := read_json(loaded.sweep_dir.noise, dict).get("unusual")):
        notes.append(str(word))
    if confidence_of(loaded) > loaded.sweep.config.stats.confidence:
        level = 100.0 * confidence_of(loaded)
        notes.append(f"{level:g} % interval because the number of rounds was chosen from the data")
    return notes


def run_notes(loaded: LoadedSweep) -> list[str]:
    """Say what the records note, once, with the runs it concerns."""
    old = loaded.other_window is not None
    told = ((record.run.id, note) for record in loaded.records for note in record.notes)
    where = sharing_kind((run, note) for run, note in told if not (old and is_of_window(note)))
    total = sum(map(_was_read, loaded.records))
    return [_noted(note, runs, total) for note, runs in where.items()]


def _was_read(record: RunRecord) -> bool:
    """Whether a run came so far that there can be notes on it."""
    code = record.cause.code if record.cause is not None else ""
    return record.status != "interrupted" and code not in ("gate", "old_log", "node_lost")


def _noted(note: str, runs: Sequence[str], total: int) -> str:
    return f"{note} ({'all runs' if len(runs) == total else first_of(runs, SHOWN_RUNS)})"
