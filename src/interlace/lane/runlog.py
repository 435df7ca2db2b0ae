"""What a finished run left behind: its step series, its ranks, the ends of its logs. Reads only."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlace import steplog
from interlace.errors import InterlaceError, NoStepsError
from interlace.lane.causes import TAIL_BYTES
from interlace.steplog import registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlace.settings import MeasureConfig
    from interlace.steplog import StepLog


STREAMS = ("stderr.log", "stdout.log")

LOST_SHARE = 0.25
"""Above it a run does not count: what tore its log may prefer slow steps, or fast ones."""

FEW_RECORDS = 3


@dataclass(frozen=True)
class Found:
    """The step series of a run, or why there is none."""

    log: StepLog | None
    path: Path | None
    why_not: str | None = None


def see_anew(run_dir: Path) -> None:
    """Have a shared disk show what other nodes wrote: NFS keeps lists of files for up to a minute.

    A change of one's own to a folder makes its list stale (nfs(5), "Directory entry caching").
    """
    for folder in (run_dir / "steps", run_dir / "ranks", *(run_dir / "nodes").glob("*")):
        mark = folder / ".seen"
        mark.touch()
        mark.unlink()


def step_sources(run_dir: Path, log: Path | None) -> list[Path]:
    """List where steps may stand, best first: the named log, the recorder's folder, the output of all nodes."""
    if log is not None:
        return [log]
    recorder = [run_dir / "steps"] if any((run_dir / "steps").glob("rank-*.jsonl")) else []
    others = [node / name for node in sorted((run_dir / "nodes").glob("*")) for name in STREAMS]
    return [*recorder, *(run_dir / name for name in STREAMS), *others]


def refuse_old_log(log: Path | None) -> str | None:
    """Say why a run must not start: its log is there already, and another run's steps would count as its own."""
    if log is None or not log.exists():
        return None
    return f"the log {log} (measure.log) is there before the run starts; move it, or put {{run_dir}} into its path"


def keep_log(log: Path | None, run_dir: Path) -> Path | None:
    """Move the log that a run wrote into the run's folder, so that the next run finds none; its new place."""
    if log is None or not log.exists() or run_dir in log.resolve().parents:
        return log
    kept = run_dir / f"log-{log.name}"
    shutil.move(log, kept)
    return kept


def find_steps(run_dir: Path, measure: MeasureConfig, log: Path | None = None) -> Found:
    """Read the step series from the first source that has one; of the two streams, from the fuller.

    Streams of several nodes that hold different ranks are put together. A progress bar on one stream never goes before
    step times that are printed on the other.
    """
    sources = step_sources(run_dir, log)
    found: list[Found] = []
    failures: list[tuple[Path, InterlaceError]] = []
    for path in sources:
        try:
            found.append(Found(_from_one(steplog.read(path, measure.reader, measure.pattern, measure.unit)), path))
        except InterlaceError as error:
            failures.append((path, error))
            continue
        if path.name == "steps":
            break
    if not found:
        return Found(None, None, _why_not(failures, measure))
    return _together(found)


def _why_not(failures: Sequence[tuple[Path, InterlaceError]], measure: MeasureConfig) -> str:
    """Say in the first line what to do in a sweep, and below it how the longest of the logs begins."""
    wrote = [(path, error) for path, error in failures if isinstance(error, NoStepsError) and error.shown]
    if not wrote:
        unlike = [str(error) for _, error in failures if not isinstance(error, NoStepsError)]
        names = " and ".join(path.name for path, _ in failures)
        return " | ".join(unlike) or (
            f"the trainer wrote nothing into {names}; where it writes to a file, name that: measure.log={{run_dir}}/..."
        )
    wrote.sort(key=lambda one: one[0].stat().st_size, reverse=True)
    path, error = wrote[0]
    given = [f"measure.{key}={value}" for key, value in (("pattern", measure.pattern), ("reader", measure.reader))]
    asked = next((text for text in given if not text.endswith(("=None", "=auto"))), None)
    names = " or ".join(path.name for path, _ in wrote)
    shown = (f"  | {line}" for line in error.shown)
    first = f"no step times in {names}{f' by {asked}' if asked else ''}: {REMEDIES}"
    return "\n  ".join([first, *error.hints, f"{path.name} begins:", *shown, WITHOUT_A_RUN])


REMEDIES = (
    "give measure.pattern='...(?P<step_s>[0-9.]+)' or measure.reader=NAME, or three lines in the trainer "
    "(docs/recorder.md)"
)
WITHOUT_A_RUN = (
    "No run has to be made again for a pattern: `interlace steps LOG pattern=...` tries it on a log, and "
    "`interlace compare` reads the logs of several runs with it"
)


def _together(found: Sequence[Found]) -> Found:
    """Take the fullest source; with it those of other nodes whose ranks, each named in the log, are not in it."""
    best, *others = sorted(found, key=_fullest, reverse=True)
    folders = {best.path.parent} if best.path else set()
    for other in others:
        if best.log is None or other.log is None or other.path is None or other.path.parent in folders:
            continue
        ranks = [set(one.log.frame["rank"]) for one in (best, other) if one.log]
        if ranks[1] and min(ranks[0] | ranks[1]) >= 0 and not ranks[0] & ranks[1]:
            best = replace(best, log=_joined(best.log, other.log))
            folders.add(other.path.parent)
    return best


def _fullest(one: Found) -> tuple[bool, int]:
    return (one.log.kind != "smoothed", len(one.log.frame)) if one.log else (False, 0)


def _joined(one: StepLog, other: StepLog) -> StepLog:
    import pandas as pd  # noqa: PLC0415 (a log's frame; loaded with the reader)

    frame = pd.concat([one.frame, other.frame]).sort_values(["rank", "step"], ignore_index=True)
    return replace(
        one, frame=frame, cumulative=one.cumulative and other.cumulative, ended=one.ended and other.ended,
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))), errors=(*one.errors, *other.errors),
    )  # fmt: skip


def _from_one(log: StepLog) -> StepLog:
    """Count steps from 1, as windows do; logs that begin with step 0 would end one short of what was asked."""
    if log.frame.empty or int(log.frame["step"].min()) != 0:
        return log
    note = "counted_from_zero: the log's first step is 0; here it is step 1"
    others = [other for other in log.notes if not other.startswith("zero_based")]
    return replace(log, frame=log.frame.assign(step=log.frame["step"] + 1), notes=(*others, note))


def lost_records(log: StepLog, window: Sequence[int]) -> str | None:
    """Say that more than a quarter of the window's records cannot be read, with the first that cannot; else None.

    A log that writes every tenth step has lost nothing: how far its records are apart is its own rhythm.
    """
    if not log.errors:
        return None
    inside = log.frame[log.frame["step"].between(window[0], window[1])]
    steps = sorted(set(inside["step"].tolist()))
    if len(steps) < FEW_RECORDS:
        return None
    apart = Counter(after - before for before, after in pairwise(steps)).most_common(1)[0][0]
    due = ((steps[-1] - steps[0]) // apart + 1) * inside["rank"].nunique()
    lost = due - len(inside)
    if lost <= LOST_SHARE * due:
        return None
    return (
        f"{lost} of {due} records of the window are lost or cannot be read, too many to trust the rest; {log.errors[0]}"
    )


class StepCounter:
    """Tells the steps that a run has made so far, reading only what is new at each call."""

    def __init__(self, run_dir: Path, measure: MeasureConfig, log: Path | None = None) -> None:
        self._run_dir, self._measure, self._log = run_dir, measure, log
        self._tails: dict[Path, steplog.Tail] = {}

    def __call__(self) -> int:
        """Return the largest step seen."""
        measure = self._measure
        for path in step_sources(self._run_dir, self._log):
            if path not in self._tails and path.exists():
                self._tails[path] = steplog.Tail(path, measure.reader, measure.pattern, measure.unit)
        return max((tail.steps() for tail in self._tails.values()), default=0)

    def ended(self) -> bool:
        """Tell whether one of the logs has said that training is over; what was last read counts."""
        return any(tail.ended for tail in self._tails.values())


def world_size(ranks: list[dict[str, Any]], log: StepLog | None, below: int | None = None) -> int | None:
    """Return how many ranks there really were: the most that the wrappers, the log's own word or its rows show.

    `below` is the world size of the ranks that these started themselves. A log that states the size of its process
    group (`states_group` of its reader) goes before: processes that were started and never joined train apart, each
    the whole of it.
    """
    if log is not None and log.world_size and getattr(registry.reader_named(log.reader), "states_group", False):
        return log.world_size
    found = [len(ranks), *(int(rank.get("world_size") or 1) for rank in ranks)] if ranks else []
    found += [below] if below else []
    if log is not None:
        found += [log.world_size] if log.world_size else []
        if len(log.frame) and (log.frame["rank"] >= 0).all():
            found.append(int(log.frame["rank"].nunique()))
    return max(found, default=None)


def tail_text(run_dir: Path) -> str:
    """Return the ends of both streams, the error stream last; of another node its own folder's."""
    return "\n".join(_tail(run_dir / name) for name in reversed(STREAMS))


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return stream.read().decode(errors="replace")
