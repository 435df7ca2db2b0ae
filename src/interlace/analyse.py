"""What the runs of a sweep say: a summary per arm, a comparison per candidate. Pure but for reading step series."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from interlace.compare import ArmSummary, Comparison, Comparisons, compare, summarise_arm
from interlace.errors import InterlaceError
from interlace.order import NOT_INTERLEAVED
from interlace.stats import describe

if TYPE_CHECKING:
    from interlace.load import LoadedSweep
    from interlace.records import Attempt
    from interlace.schema import Arm


@dataclass(frozen=True)
class Trouble:
    """A run that is not ok, and why."""

    run: str
    attempt: int
    arm: str
    status: str
    message: str


@dataclass(frozen=True)
class Analysis:
    """Everything a report says. `window` is the first and last step that counted."""

    sweep: str
    window: tuple[int, int]
    rounds: tuple[int, ...]
    planned_rounds: int
    arms: tuple[ArmSummary, ...]
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]
    left: int

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The candidates' comparisons, in the order of the arms."""
        return tuple(arm.comparison for arm in self.arms if arm.comparison is not None)


def analyse(loaded: LoadedSweep) -> Analysis:
    """Analyse what is on disk, finished or not. Never raises for missing runs: they are said."""
    counted = [attempt for attempt in loaded.used if attempt.run.round > 0]
    frame = pd.DataFrame([_statistics(loaded, attempt) for attempt in counted], columns=STATISTICS)
    judged, notes = _compare(loaded, frame)
    by_arm = judged.by_arm() if judged else {}
    config = loaded.sweep.config
    return Analysis(
        sweep=loaded.sweep.name,
        window=(config.measure.window[0], config.measure.window[1]),
        rounds=judged.rounds if judged else (),
        planned_rounds=config.rounds,
        arms=tuple(_summary(loaded, arm, counted, by_arm.get(arm.name)) for arm in loaded.sweep.arms),
        troubles=tuple(_troubles(loaded)),
        notes=(*loaded.sweep.notes, *notes, *(judged.notes if judged else ()), *_run_notes(loaded)),
        left=_left(loaded),
    )


STATISTICS = ["arm", "round", "stat_s", "mean_s", "t_start_s", "resolution", "quantum_s"]


def _statistics(loaded: LoadedSweep, attempt: Attempt) -> dict[str, object]:
    """Compute a run's statistics anew from its step series, so that a report can be improved afterwards."""
    config = loaded.sweep.config
    seen = describe(loaded.step_frame(attempt), config.measure.window, config.stats.block)
    return {
        "arm": next(arm.name for arm in loaded.sweep.arms if arm.slug == attempt.run.arm),
        "round": attempt.run.round,
        "stat_s": seen.summary.stat_s,
        "mean_s": seen.summary.mean_s,
        "t_start_s": attempt.record.started_at if attempt.record else None,
        "resolution": float("nan") if seen.resolution is None else seen.resolution,
        "quantum_s": seen.summary.quantum_s,
    }


def _compare(loaded: LoadedSweep, frame: pd.DataFrame) -> tuple[Comparisons | None, list[str]]:
    sweep = loaded.sweep
    names = {arm.slug: arm.name for arm in sweep.arms}
    try:
        judged = compare(
            frame,
            names[sweep.baseline],
            arms=[arm.name for arm in sweep.arms],
            confidence=sweep.config.stats.confidence,
            margin=sweep.config.stats.margin_pct / 100.0,
            not_judged=NOT_INTERLEAVED if loaded.plan.order == "sequential" else None,
        )
    except InterlaceError as error:
        return None, [str(error)]
    return judged, []


def _summary(loaded: LoadedSweep, arm: Arm, counted: list[Attempt], comparison: Comparison | None) -> ArmSummary:
    records = [one.record for one in counted if one.run.arm == arm.slug and one.record is not None]
    steps = [record.steps for record in records if record.steps is not None]
    peaks = [gpu.peak_mib for one in records for gpu in one.gpus if gpu.peak_mib is not None]
    row = ArmSummary(
        name=arm.name,
        runs=len(steps),
        planned=sum(run.arm == arm.slug and run.round > 0 for run in loaded.plan.runs),
        baseline=arm.slug == loaded.sweep.baseline,
        commit=arm.sha,
        subject=arm.subject,
        wall_s=statistics.median(record.wall_s for record in records) if records else None,
        peak_mib=max(peaks, default=None),
        comparison=comparison,
    )
    return summarise_arm(row, steps)


def _troubles(loaded: LoadedSweep) -> list[Trouble]:
    names = {arm.slug: arm.name for arm in loaded.sweep.arms}
    return [
        Trouble(one.run.id, one.number, names[one.run.arm], one.record.status,
                one.record.cause.message if one.record.cause else "")
        for one in loaded.tries
        if one.record is not None and one.record.status != "ok"
    ]  # fmt: skip


def _run_notes(loaded: LoadedSweep) -> list[str]:
    """Say what the records note, once, with the runs it concerns."""
    where: dict[str, list[str]] = {}
    for record in loaded.records:
        for note in record.notes:
            where.setdefault(note, []).append(record.run.id)
    total = len(loaded.records)
    return [f"{note} ({'all runs' if len(runs) == total else _some(runs)})" for note, runs in where.items()]


def _some(runs: list[str], shown: int = 3) -> str:
    more = len(runs) - shown
    return ", ".join(runs[:shown]) + (f" and {more} more" if more > 0 else "")


def _left(loaded: LoadedSweep) -> int:
    ended = {one.run.id for one in loaded.tries if one.record and one.record.status not in ("interrupted", "disturbed")}
    return sum(run.id not in ended for run in loaded.plan.runs)
