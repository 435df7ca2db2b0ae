"""What a finished run left behind: its step series, its ranks, the ends of its logs. Reads only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlace import steplog
from interlace.errors import InterlaceError
from interlace.lane.causes import TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interlace.settings import MeasureConfig
    from interlace.steplog import StepLog


@dataclass(frozen=True)
class Found:
    """The step series of a run, or why there is none."""

    log: StepLog | None
    path: Path | None
    why_not: str | None = None


def step_sources(run_dir: Path, measure: MeasureConfig) -> list[Path]:
    """List where steps may stand, best first: the named log, the recorder's folder, the captured output."""
    if measure.log is not None:
        return [run_dir / _filled(measure.log, run_dir)]
    recorder = [run_dir / "steps"] if any((run_dir / "steps").glob("rank-*.jsonl")) else []
    return [*recorder, run_dir / "stderr.log", run_dir / "stdout.log"]


def _filled(text: str, run_dir: Path) -> str:
    return text.replace("{run_dir}", str(run_dir))


def find_steps(run_dir: Path, measure: MeasureConfig) -> Found:
    """Read the step series from the first source that has one; of the two streams, from the fuller."""
    sources = step_sources(run_dir, measure)
    found: list[Found] = []
    failures: list[str] = []
    for path in sources:
        try:
            found.append(Found(steplog.read(path, measure.reader, measure.pattern, measure.unit), path))
        except InterlaceError as error:
            failures.append(f"{path.name}: {error}")
            continue
        if path.name == "steps":
            break
    if not found:
        return Found(None, None, " | ".join(failures))
    return max(found, key=lambda one: len(one.log.frame) if one.log else 0)


def step_counter(run_dir: Path, measure: MeasureConfig) -> Callable[[], int]:
    """Return a function that tells the steps seen so far, reading only what is new at each call."""
    tails: dict[Path, steplog.Tail] = {}

    def count() -> int:
        for path in step_sources(run_dir, measure):
            if path not in tails and path.exists():
                tails[path] = steplog.Tail(path, measure.reader, measure.pattern, measure.unit)
        return max((tail.steps() for tail in tails.values()), default=0)

    return count


def read_ranks(run_dir: Path) -> list[dict[str, Any]]:
    """Read what each rank's wrapper found and bound, in the order of ranks."""
    ranks = [json.loads(path.read_text()) for path in (run_dir / "ranks").glob("rank-*.json")]
    return sorted(ranks, key=lambda rank: int(rank.get("rank") or 0))


def world_size(ranks: list[dict[str, Any]], log: StepLog | None) -> int | None:
    """Return how many ranks there really were: what the wrappers saw, else what the log states or shows."""
    if ranks:
        return max(len(ranks), *(int(rank.get("world_size") or 1) for rank in ranks))
    if log is None:
        return None
    seen = int(log.frame["rank"].nunique()) if (log.frame["rank"] >= 0).all() else None
    return log.world_size or seen


def tail_text(run_dir: Path) -> str:
    """Return the ends of both streams, the error stream last."""
    return "\n".join(_tail(run_dir / name) for name in ("stdout.log", "stderr.log"))


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return stream.read().decode(errors="replace")
