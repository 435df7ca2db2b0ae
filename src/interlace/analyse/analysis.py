"""Everything that a report says, put together."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlace.analyse.counted import all_counted
from interlace.analyse.judged import compare_arms, confidence_of, statistics_frame
from interlace.analyse.notes import Trouble, plan_notes, run_notes, step_notes, troubles, window_notes
from interlace.arms import own_settings
from interlace.compare import ArmSummary, Comparison, rejected, summarise_arm
from interlace.compare.ladder import Ladder, climb
from interlace.compare.pays import costs_of, payback
from interlace.compare.summary import per_second
from interlace.errors import InterlaceError
from interlace.placements import Placement, grouped, read_placements
from interlace.records import is_finished

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from interlace.analyse.counted import Counted
    from interlace.loaded import LoadedSweep
    from interlace.records import Attempt
    from interlace.schema import Arm, Run, StepSummary


@dataclass(frozen=True)
class Analysis:
    """Everything a report says. `window` is the first and last step that counted; `rounds` are those that are whole."""

    sweep: str
    window: tuple[int, int]
    rounds: tuple[int, ...]
    planned_rounds: int
    arms: tuple[ArmSummary, ...]
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]
    left: int
    confidence: float = 0.95
    ladder: Ladder | None = None
    rejected: tuple[str, ...] = ()
    payback: tuple[str, ...] = ()
    s_run: float | None = None
    drift: float | None = None
    placements: tuple[Placement, ...] = ()
    interleaved: bool = True
    several_ranks: bool = False

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The candidates' comparisons, in the order of the arms."""
        return tuple(arm.comparison for arm in self.arms if arm.comparison is not None)


def analyse(loaded: LoadedSweep) -> Analysis:
    """Analyse what is on disk, finished or not. Never raises for missing runs: they are said."""
    everything, left_out = all_counted(loaded)
    counted = [one for one in everything if one.attempt.run.round > 0]
    names = loaded.sweep.names
    frame = statistics_frame(loaded, everything)
    confidence = confidence_of(loaded)
    judged, notes = compare_arms(loaded, frame, counted, confidence)
    by_arm = judged.by_arm() if judged else {}
    left = _left(loaded)
    cut = {run.round for run in left}
    return Analysis(
        sweep=loaded.sweep.name,
        window=loaded.window,
        rounds=tuple(number for number in judged.rounds if number not in cut) if judged else (),
        planned_rounds=len({run.round for run in loaded.plan.runs if run.round > 0} - loaded.plan.repeated),
        arms=tuple(_summary(loaded, arm, counted, by_arm.get(arm.name)) for arm in _in_order(loaded, by_arm)),
        troubles=tuple(troubles(loaded)),
        notes=(
            *loaded.sweep.notes,
            *notes,
            *left_out,
            *step_notes(names, counted),
            *(window_notes(counted) if loaded.other_window else ()),
            *plan_notes(loaded),
            *run_notes(loaded),
        ),
        left=len(left),
        confidence=confidence,
        ladder=_ladder(loaded, frame, confidence),
        rejected=rejected(judged.candidates) if judged else (),
        payback=tuple(_payback(loaded, counted, by_arm)),
        s_run=judged.s_run if judged else None,
        drift=judged.drift.total if judged and judged.drift else None,
        interleaved=loaded.plan.order != "sequential",
        several_ranks=any(one.ranks > 1 for one in counted),
        placements=grouped(
            loaded.sweep.in_order([(one.attempt.run.arm, read_placements(one.attempt)) for one in counted])
        ),
    )


def _in_order(loaded: LoadedSweep, by_arm: Mapping[str, Comparison]) -> list[Arm]:
    """Return the arms as the sweep lists them; those of a screen by rank, after the baseline."""
    if loaded.plan.order != "screen":
        return list(loaded.sweep.arms)
    rank = {name: place for place, name in enumerate(by_arm)}
    return sorted(loaded.sweep.arms, key=lambda arm: (arm.slug != loaded.sweep.baseline, rank.get(arm.name, len(rank))))


def _ladder(loaded: LoadedSweep, frame: pd.DataFrame, confidence: float) -> Ladder | None:
    config = loaded.sweep.config
    if not (config.cumulative or config.commits) or loaded.plan.order in ("sequential", "screen"):
        return None
    measured = [arm.name for arm in loaded.sweep.arms if arm.measure]
    try:
        return climb(frame, measured, confidence, config.stats.margin_pct / 100.0)
    except InterlaceError:
        return None


def _payback(loaded: LoadedSweep, counted: Sequence[Counted], by_arm: Mapping[str, Comparison]) -> list[str]:
    names = loaded.sweep.names
    runs: dict[str, list[StepSummary]] = {name: [] for name in names.values()}
    for one in sorted(counted, key=lambda one: one.record.started_at):
        runs[names[one.attempt.run.arm]].append(one.seen.summary)
    costs = {arm: costs_of(summaries) for arm, summaries in runs.items()}
    return payback(names[loaded.sweep.baseline], costs, {arm: one.verdict for arm, one in by_arm.items()})


def _summary(loaded: LoadedSweep, arm: Arm, counted: list[Counted], comparison: Comparison | None) -> ArmSummary:
    own = [one for one in counted if one.attempt.run.arm == arm.slug]
    records = [one.record for one in own]
    steps = [one.seen.summary for one in own]
    gpus = [gpu for one in records for gpu in one.gpus if gpu.peak_mib is not None]
    fullest = max(gpus, key=lambda gpu: gpu.peak_mib or 0.0, default=None)
    allocated = [one.allocated_mib for one in own if one.allocated_mib is not None]
    row = ArmSummary(
        name=arm.name,
        runs=len(steps),
        planned=sum(run.arm == arm.slug and run.round > 0 for run in loaded.plan.runs),
        baseline=arm.slug == loaded.sweep.baseline,
        commit=arm.sha,
        subject=arm.subject,
        change=_change(loaded, arm),
        wall_s=statistics.median(record.wall_s for record in records) if records else None,
        peak_mib=fullest.peak_mib if fullest else None,
        idle_mib=fullest.baseline_mib if fullest else None,
        allocated_mib=max(allocated, default=None),
        phases_s=_phases([one.phases_s for one in own]),
        comparison=comparison,
        measured=arm.measure,
    )
    row = summarise_arm(row, steps)
    workload = arm.config.workload
    return replace(
        row,
        samples_per_s=per_second(workload.samples_per_step, row.mean_s),
        tokens_per_s=per_second(workload.tokens_per_step, row.mean_s),
    )


def _change(loaded: LoadedSweep, arm: Arm) -> str:
    """Say what an arm has that the row above it (in a ladder) or the baseline has not: commit, settings, variables."""
    arms, config = loaded.sweep.arms, loaded.sweep.config
    place = arms.index(arm)
    ladder = config.cumulative or bool(config.commits)
    above = (arms[place - 1] if place else arm) if ladder else loaded.sweep.arm(loaded.sweep.baseline)
    own = [str(arm.subject)] if arm.sha and (above is arm or arm.sha != above.sha) else []
    theirs = own_settings(above)
    return ", ".join([*own, *(text for text in own_settings(arm) if text not in theirs)])


def _phases(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median(run.get(name, 0.0) for run in runs) for name in names}


def _left(loaded: LoadedSweep) -> list[Run]:
    """Return the runs that are still to be made."""
    by_run: dict[str, list[Attempt]] = {}
    for one in loaded.tries:
        by_run.setdefault(one.run.id, []).append(one)
    to_do = [run for run in loaded.plan.runs if run.round not in loaded.plan.repeated]
    return [run for run in to_do if not is_finished(by_run.get(run.id, []))]
