"""Which trace files belong together: the ranks of one run, the arms of a sweep, or what was given by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from interlace.errors import UsageError
from interlace.loaded import load
from interlace.trace.columns import read_trace
from interlace.trace.metrics import measure
from interlace.trace.verdict import diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlace.loaded import LoadedSweep
    from interlace.trace.metrics import RankMetrics
    from interlace.trace.verdict import Diagnosis

ENDINGS = (".json", ".json.gz")
MS_PER_S = 1000.0


@dataclass(frozen=True)
class Job:
    """The traces of an arm's run, a file for each rank; `step_ms` is its step time without the profiler, if known."""

    name: str
    files: tuple[Path, ...]
    step_ms: float | None = None


def diagnosed(job: Job) -> list[Diagnosis]:
    """Read and judge an arm's traces: together where each is of another rank, else apart."""
    parts = _parted(job.name, job.files)
    names = [part.name if len(parts) == 1 else f"{job.name}, {part.name}" for part in parts]
    return [_judged(name, part, job.step_ms) for name, part in zip(names, parts, strict=True)]


def diagnosed_files(paths: Sequence[Path], steps_ms: Sequence[float]) -> list[Diagnosis]:
    """Read and judge the traces of one job, or of several where a rank comes twice: one a folder, else one a file.

    `steps_ms` are their step times without the profiler, in their order; none: not known. Raises UsageError where
    there are fewer or more of them than jobs, and for what is no trace.
    """
    parts = _parted(paths[0].name if len(paths) == 1 else "traces", _files(paths))
    if steps_ms and len(steps_ms) != len(parts):
        names = ", ".join(part.name for part in parts)
        given = ",".join(f"{one:g}" for one in steps_ms)
        raise UsageError(f"--step-ms {given}: there are {len(parts)} jobs ({names}); give a number for each, in order")
    times: Sequence[float | None] = steps_ms or [None] * len(parts)
    return [_judged(part.name, part, time) for part, time in zip(parts, times, strict=True)]


class _Part(NamedTuple):
    name: str
    ranks: list[RankMetrics]


def _judged(name: str, part: _Part, step_ms: float | None) -> Diagnosis:
    return diagnose(name, sorted(part.ranks, key=lambda one: -1 if one.rank is None else one.rank), step_ms)


def _parted(name: str, files: Sequence[Path]) -> list[_Part]:
    """Read the files and part them into jobs, in none of which a rank comes twice."""
    ranks = [measure(read_trace(path)) for path in files]
    by_folder = _grouped([path.parent for path in files], ranks)
    if _differ(ranks) and (len(by_folder) == 1 or all(one.rank is not None for one in ranks)):
        return [_Part(name, ranks)]
    above = _grouped([path.parent.parent for path in files], ranks) if len(by_folder) == len(files) else {}
    for groups in (above, by_folder):
        if len(groups) > 1 and all(map(_differ, groups.values())):
            return [_Part(name, group) for name, group in zip(_names(list(groups)), groups.values(), strict=True)]
    return [_Part(name, [one]) for name, one in zip(_names(files), ranks, strict=True)]


def _grouped(folders: Sequence[Path], ranks: Sequence[RankMetrics]) -> dict[Path, list[RankMetrics]]:
    groups: dict[Path, list[RankMetrics]] = {}
    for folder, one in zip(folders, ranks, strict=True):
        groups.setdefault(folder, []).append(one)
    return groups


def _differ(ranks: Sequence[RankMetrics]) -> bool:
    numbers = [one.rank for one in ranks if one.rank is not None]
    return len(set(numbers)) == len(numbers)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the last part of each path, or all of it where that is not enough to tell them apart."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


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


def _files(paths: Sequence[Path]) -> list[Path]:
    """List the files given and all traces in the folders given. Raises UsageError for what is neither."""
    files: list[Path] = []
    for path in paths:
        found = trace_files(path) if path.is_dir() else (path,) if path.is_file() else ()
        if not found:
            what = "holds no *.json or *.json.gz" if path.is_dir() else "is neither a file nor a folder"
            raise UsageError(f"{path} {what}; give the traces of one job, a folder of them, or a sweep's folder")
        files += found
    return files


def trace_files(folder: Path) -> tuple[Path, ...]:
    """List the traces in a folder, in the order of their names."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith(ENDINGS)))
