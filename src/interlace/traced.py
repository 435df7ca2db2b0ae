"""Which trace files belong together: the ranks of one run, the arms of a sweep, or what was given by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.loaded import load
from interlace.trace.columns import read_trace
from interlace.trace.metrics import measure
from interlace.trace.verdict import Diagnosis, diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlace.loaded import LoadedSweep
    from interlace.trace.metrics import RankMetrics

ENDINGS = (".json", ".json.gz")
MS_PER_S = 1000.0


@dataclass(frozen=True)
class Job:
    """The traces of one job, a file for each rank; `step_ms` is its step time without the profiler, where known."""

    name: str
    files: tuple[Path, ...]
    step_ms: float | None = None


def diagnosed(job: Job) -> list[Diagnosis]:
    """Read and judge a job's traces: together where each is of another rank, else each by itself."""
    ranks = [measure(read_trace(path)) for path in job.files]
    numbers = [one.rank for one in ranks if one.rank is not None]
    if len(set(numbers)) == len(numbers):
        return [diagnose(job.name, sorted(ranks, key=_rank), job.step_ms)]
    names = [path.name for path in job.files]
    if len(set(names)) < len(names):
        names = [str(path) for path in job.files]
    return [diagnose(name, [one], job.step_ms) for name, one in zip(names, ranks, strict=True)]


def _rank(one: RankMetrics) -> int:
    return -1 if one.rank is None else one.rank


def jobs_in_sweep(directory: Path) -> list[Job]:
    """List the arms that have traces, each with its last run that does. Raises UsageError where none has any."""
    loaded = load(directory)
    medians = {arm.name: arm.median_s for arm in loaded.analysis.arms}
    jobs = []
    for arm in loaded.sweep.arms:
        folders = [one.path / "traces" for one in loaded.used if one.run.arm == arm.slug]
        files = [found for folder in folders if (found := trace_files(folder))]
        if files:
            median_s = medians.get(arm.name)
            jobs.append(Job(arm.name, files[-1], None if median_s is None else MS_PER_S * median_s))
    if not jobs:
        raise UsageError(f"{directory} has no traces: {_how(loaded)}")
    return jobs


def _how(loaded: LoadedSweep) -> str:
    if any(arm.config.workload.module for arm in loaded.sweep.arms):
        return "measure it with workload.profile.first=STEP, a step behind the window"
    return "let the trainer export them to $INTERLACE_RUN_DIR/traces (docs/traces.md)"


def jobs_given(paths: Sequence[Path], step_ms: float | None) -> list[Job]:
    """Make one job of the files given, or of all traces in a folder. Raises UsageError for what is no trace."""
    files: list[Path] = []
    for path in paths:
        found = trace_files(path) if path.is_dir() else (path,) if path.is_file() else ()
        if not found:
            what = "holds no *.json or *.json.gz" if path.is_dir() else "is neither a file nor a folder"
            raise UsageError(f"{path} {what}; give the traces of one job, a folder of them, or a sweep's folder")
        files += found
    name = paths[0].name if len(paths) == 1 else "traces"
    return [Job(name, tuple(files), step_ms)]


def trace_files(folder: Path) -> tuple[Path, ...]:
    """List the traces in a folder, in the order of their names."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith(ENDINGS)))
