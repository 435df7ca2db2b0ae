"""What the runs of a sweep say: a summary per arm, a comparison per candidate. Pure but for reading step series."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.compare import ArmSummary, Comparison, Comparisons, compare, rejected, summarise_arm
from interlace.compare.ladder import Ladder, climb
from interlace.compare.node_flags import SeenRun, differing_clocks, flag_nodes
from interlace.compare.pays import costs_of, payback
from interlace.compare.screen import screen
from interlace.compare.step_notes import settling_notes, slow_notes
from interlace.errors import InterlaceError, ReadError
from interlace.files import read_json
from interlace.order import NOT_INTERLEAVED
from interlace.placements import Placement, grouped, read_placements
from interlace.records import is_finished, read_steps
from interlace.stats import WindowStats, describe
from interlace.stats.run import block_steps
from interlace.steplog.events import EVENTS, event_notes
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from interlace.loaded import LoadedSweep
    from interlace.records import Attempt
    from interlace.schema import Arm, RunRecord, StepSummary

    Floats = NDArray[np.float64]


ADAPTIVE_CONFIDENCE = 0.97
SHOWN_RUNS = 3
TWO = 2
ALLOCATED = "peak_allocated_mib"
"""What trainers call the peak of a rank's allocator when they hand it to the recorder."""
NEEDED = ("step", "rank", "step_s", "end_s", ALLOCATED, *EVENTS)


@dataclass(frozen=True)
class Trouble:
    """A run that is not ok, and why."""

    run: str
    attempt: int
    arm: str
    status: str
    message: str
    log: str = ""


@dataclass(frozen=True)
class Counted:
    """A run that counts: its attempt, its record, what its step series says, and what else went on in its window."""

    attempt: Attempt
    record: RunRecord
    seen: WindowStats
    events: tuple[str, ...] = ()
    allocated_mib: float | None = None


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
    confidence: float = 0.95
    ladder: Ladder | None = None
    rejected: tuple[str, ...] = ()
    payback: tuple[str, ...] = ()
    s_run: float | None = None
    drift: float | None = None
    placements: tuple[Placement, ...] = ()
    interleaved: bool = True

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The candidates' comparisons, in the order of the arms."""
        return tuple(arm.comparison for arm in self.arms if arm.comparison is not None)


def analyse(loaded: LoadedSweep) -> Analysis:
    """Analyse what is on disk, finished or not. Never raises for missing runs: they are said."""
    everything, left_out = _all_counted(loaded)
    counted = [one for one in everything if one.attempt.run.round > 0]
    names = loaded.sweep.names
    frame = pd.DataFrame([_statistics(names, one) for one in everything], columns=STATISTICS)
    confidence = confidence_of(loaded)
    seen = [_seen(names, one) for one in counted]
    judged, notes = _compare(loaded, frame, seen, confidence)
    by_arm = judged.by_arm() if judged else {}
    return Analysis(
        sweep=loaded.sweep.name,
        window=loaded.window,
        rounds=judged.rounds if judged else (),
        planned_rounds=len({run.round for run in loaded.plan.runs if run.round > 0} - loaded.plan.repeated),
        arms=tuple(_summary(loaded, arm, counted, by_arm.get(arm.name)) for arm in _in_order(loaded, by_arm)),
        troubles=tuple(_troubles(loaded)),
        notes=(
            *loaded.sweep.notes,
            *notes,
            *left_out,
            *_step_notes(names, counted),
            *(_window_notes(counted) if loaded.other_window else ()),
            *_plan_notes(loaded),
            *_run_notes(loaded),
        ),
        left=_left(loaded),
        confidence=confidence,
        ladder=_ladder(loaded, frame, confidence),
        rejected=rejected(judged.candidates) if judged else (),
        payback=tuple(_payback(loaded, counted, by_arm)),
        s_run=judged.s_run if judged else None,
        drift=judged.drift.total if judged and judged.drift else None,
        interleaved=loaded.plan.order != "sequential",
        placements=grouped([(names[one.attempt.run.arm], read_placements(one.attempt)) for one in counted]),
    )


def aa_rounds(aa: LoadedSweep) -> list[tuple[float, float]]:
    """Return the run statistics (s) of every complete round of a sweep of two identical arms, baseline first."""
    counted = [_counted(aa, attempt, attempt.record) for attempt in aa.used if attempt.record is not None]
    by_run = {(one.attempt.run.round, one.attempt.run.arm): one.seen.summary.stat_s for one in counted}
    first, second = (arm.slug for arm in aa.sweep.arms)
    rounds = sorted({number for number, _ in by_run if number > 0})
    return [
        (by_run[number, first], by_run[number, second])
        for number in rounds
        if (number, first) in by_run and (number, second) in by_run
    ]


def confidence_of(loaded: LoadedSweep) -> float:
    """Return the level of the intervals: the configured one, or 97 % where rounds were added after looking.

    A number of rounds that was chosen from the data makes 95 % intervals cover less (methodology 4.6).
    """
    config = loaded.sweep.config
    chosen = config.adaptive.enabled or any(one.repeats is None for one in loaded.plan.extensions)
    return max(ADAPTIVE_CONFIDENCE, config.stats.confidence) if chosen else config.stats.confidence


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


STATISTICS = ["session", "arm", "round", "stat_s", "mean_s", "t_start_s", "resolution", "quantum_s"]


def _all_counted(loaded: LoadedSweep) -> tuple[list[Counted], list[str]]:
    """Describe every run that counts; one whose steps do not reach another window is left out, and said."""
    counted, left_out = [], []
    for attempt in loaded.used:
        if attempt.record is None:
            continue
        try:
            counted.append(_counted(loaded, attempt, attempt.record))
        except ReadError as error:
            if loaded.other_window is None:
                raise
            left_out.append(f"{attempt.run.id} is left out: {error}")
    return counted, left_out


def _window_notes(counted: Sequence[Counted]) -> list[str]:
    """Say what is odd about the steps of another window than the one that the records were made for."""
    where: dict[str, list[str]] = {}
    for one in counted:
        for note in one.seen.notes:
            where.setdefault(note, []).append(one.attempt.run.id)
    return [_noted(note, runs, len(counted)) for note, runs in where.items()]


def _noted(note: str, runs: Sequence[str], total: int) -> str:
    return f"{note} ({'all runs' if len(runs) == total else first_of(runs, SHOWN_RUNS)})"


def _counted(loaded: LoadedSweep, attempt: Attempt, record: RunRecord) -> Counted:
    """Compute a run's statistics anew from its step series, so that a report can be improved afterwards."""
    steps = read_steps(attempt.path, NEEDED)
    config = loaded.sweep.config
    seen = describe(steps, loaded.window, block_steps(config.stats.block, config.measure.period))
    allocated_mib = steps[ALLOCATED].max() if ALLOCATED in steps else math.nan
    return Counted(
        attempt, record, seen, tuple(event_notes(steps, loaded.window)),
        None if math.isnan(allocated_mib) else float(allocated_mib),
    )  # fmt: skip


def _step_notes(names: dict[str, str], counted: Sequence[Counted]) -> list[str]:
    """Say which arms still settle inside the window, and which runs have steps that stand out."""
    by_arm: dict[str, list[Floats]] = {}
    for one in counted:
        by_arm.setdefault(names[one.attempt.run.arm], []).append(one.seen.inside[1])
    slow = [f"{one.attempt.run.id}: {note}" for one in counted for note in slow_notes(*one.seen.inside)]
    events: dict[str, list[str]] = {}
    for one in counted:
        for note in one.events:
            events.setdefault(note, []).append(one.attempt.run.id)
    told = [f"{first_of(runs, SHOWN_RUNS)}: {note}" for note, runs in events.items()]
    return [*settling_notes(by_arm), *slow, *told]


def _statistics(names: dict[str, str], one: Counted) -> dict[str, object]:
    seen = one.seen
    return {
        "session": f"{one.attempt.path.parent.parent} {one.record.node or ''}",
        "arm": names[one.attempt.run.arm],
        "round": one.attempt.run.round,
        "stat_s": seen.summary.stat_s,
        "mean_s": seen.summary.mean_s,
        "t_start_s": one.record.started_at,
        "resolution": float("nan") if seen.summary.resolution is None else seen.summary.resolution,
        "quantum_s": seen.summary.quantum_s,
    }


def _seen(names: dict[str, str], one: Counted) -> SeenRun:
    run, record = one.attempt.run, one.record
    return SeenRun(names[run.arm], run.round, record.gpus, record.foreign, record.others_cpu_pct)


def _compare(
    loaded: LoadedSweep, frame: pd.DataFrame, seen: Sequence[SeenRun], confidence: float
) -> tuple[Comparisons | None, list[str]]:
    sweep = loaded.sweep
    baseline = sweep.names[sweep.baseline]
    frame, told = _of_one_level(frame)
    arms = [arm.name for arm in sweep.arms if arm.measure]
    if loaded.plan.order == "screen":
        ranked = screen(frame, baseline, [arm for arm in arms if arm != baseline])
        unusual = flag_nodes(seen, sweep.config.gate.cpu_busy_pct)
        flags = [f"{arm} ran on an unusual node: {why}" for (_, arm), why in unusual.items()]
        return _with_clocks(ranked, differing_clocks(seen, baseline)), [*ranked.notes, *flags]
    try:
        judged = compare(
            frame,
            baseline,
            arms=arms,
            confidence=confidence,
            margin=sweep.config.stats.margin_pct / 100.0,
            not_judged=NOT_INTERLEAVED if loaded.plan.order == "sequential" else None,
            aa_rounds=aa_rounds(loaded.aa) if loaded.aa else None,
            unusual=flag_nodes(seen, sweep.config.gate.cpu_busy_pct),
        )
    except InterlaceError as error:
        return None, [str(error)]
    if loaded.aa is not None and len(arms) > TWO:
        told.append("the A/A rounds give the noise floor; intervals of three arms and more share their own residual")
    marked = _with_clocks(judged, differing_clocks(seen, baseline))
    return _with_blocks(loaded, frame, marked), [*judged.notes, *told]


def _with_blocks(loaded: LoadedSweep, frame: pd.DataFrame, judged: Comparisons) -> Comparisons:
    """Show under each comparison what every lane or pooled sweep alone has for a ratio: the node as a factor."""
    if len(loaded.blocks) < TWO:
        return judged
    folder = frame["session"].str.rpartition(" ")[0]
    block_of = dict(zip(frame["round"], folder, strict=True))
    return replace(
        judged, candidates=tuple(_by_block(loaded, one, judged.rounds, block_of) for one in judged.candidates)
    )


def _by_block(loaded: LoadedSweep, one: Comparison, rounds: Sequence[int], block_of: Mapping[int, str]) -> Comparison:
    if len(one.round_ratios) != len(rounds):
        return one
    parts = []
    for block in loaded.blocks:
        ratios = [
            ratio for number, ratio in zip(rounds, one.round_ratios, strict=True) if block_of[number] == block.folder
        ]
        if ratios:
            parts.append(f"{block.label} {statistics.geometric_mean(ratios):.4f} ({len(ratios)})")
    return replace(one, notes=(*one.notes, f"ratio by block (rounds): {', '.join(parts)}"))


def _of_one_level(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Bring the sessions of pooled sweeps to one level, so that what differs between them is no noise and no drift.

    Ratios are taken within rounds, and so within sessions: they stay as they are.
    """
    measured = frame[frame["round"] > 0]
    logs = np.log(measured["stat_s"]).groupby(measured["session"]).mean()
    if len(logs) < TWO:
        return frame, []
    level = np.exp(frame["session"].map(logs).fillna(logs.mean()) - logs.mean())
    apart = 100.0 * math.expm1(float(logs.max() - logs.min()))
    note = f"sessions (or lanes, nodes) differ by {apart:.1f} %; rounds are compared within each"
    return frame.assign(stat_s=frame["stat_s"] / level, mean_s=frame["mean_s"] / level), [note]


def _with_clocks(judged: Comparisons, differing: Mapping[str, tuple[str, ...]]) -> Comparisons:
    """Mark the comparisons of arms whose GPUs ran otherwise than the baseline's."""
    marked = (replace(one, notes=(*one.notes, *differing.get(one.arm, ()))) for one in judged.candidates)
    return replace(judged, candidates=tuple(marked))


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
        wall_s=statistics.median(record.wall_s for record in records) if records else None,
        peak_mib=fullest.peak_mib if fullest else None,
        idle_mib=fullest.baseline_mib if fullest else None,
        allocated_mib=max(allocated, default=None),
        comparison=comparison,
        measured=arm.measure,
    )
    row = summarise_arm(row, steps)
    workload = arm.config.workload
    return replace(
        row,
        samples_per_s=_per_second(workload.samples_per_step, row.mean_s),
        tokens_per_s=_per_second(workload.tokens_per_step, row.mean_s),
    )


def _per_second(per_step: float | None, step_s: float | None) -> float | None:
    return per_step / step_s if per_step and step_s else None


def _troubles(loaded: LoadedSweep) -> list[Trouble]:
    return [
        Trouble(
            one.run.id,
            one.number,
            loaded.sweep.names[one.run.arm],
            one.record.status,
            one.record.cause.message if one.record.cause else "",
            f"see runs/{one.path.name}/{_evidence(one.path, one.record)}",
        )
        for one in loaded.tries
        if one.record is not None and one.record.status != "ok" and one not in loaded.used
    ]


def _evidence(path: Path, record: RunRecord) -> str:
    """Name the file that shows why a run is not ok."""
    if record.status == "disturbed":
        return "gate.json" if record.cause is not None and record.cause.code == "gate" else "record.json"
    return "stderr.log" if (path / "stderr.log").is_file() else ""


def _plan_notes(loaded: LoadedSweep) -> list[str]:
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


def _run_notes(loaded: LoadedSweep) -> list[str]:
    """Say what the records note, once, with the runs it concerns."""
    where: dict[str, list[str]] = {}
    for record in loaded.records:
        for note in record.notes:
            where.setdefault(note, []).append(record.run.id)
    total = len(loaded.records)
    return [_noted(note, runs, total) for note, runs in where.items()]


def _left(loaded: LoadedSweep) -> int:
    by_run: dict[str, list[Attempt]] = {}
    for one in loaded.tries:
        by_run.setdefault(one.run.id, []).append(one)
    to_do = [run for run in loaded.plan.runs if run.round not in loaded.plan.repeated]
    return sum(not is_finished(by_run.get(run.id, [])) for run in to_do)
