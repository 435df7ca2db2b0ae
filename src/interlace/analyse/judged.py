"""From runs that count to judged comparisons: the frame that is compared, its level by session, marks of the node."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.analyse.counted import aa_rounds
from interlace.compare import Comparison, Comparisons, compare
from interlace.compare.node_flags import SeenRun, differing_clocks, flag_nodes
from interlace.compare.screen import screen
from interlace.errors import InterlaceError
from interlace.order import NOT_INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.analyse.counted import Counted
    from interlace.loaded import LoadedSweep

ADAPTIVE_CONFIDENCE = 0.97
TWO = 2
STATISTICS = ["session", "arm", "round", "stat_s", "mean_s", "t_start_s", "resolution", "quantum_s"]


def confidence_of(loaded: LoadedSweep) -> float:
    """Return the level of the intervals: the configured one, or 97 % where rounds were added after looking.

    A number of rounds that was chosen from the data makes 95 % intervals cover less (methodology 4.6).
    """
    config = loaded.sweep.config
    chosen = config.adaptive.enabled or any(one.repeats is None for one in loaded.plan.extensions)
    return max(ADAPTIVE_CONFIDENCE, config.stats.confidence) if chosen else config.stats.confidence


def statistics_frame(loaded: LoadedSweep, counted: Sequence[Counted]) -> pd.DataFrame:
    """Return one row a run, the burn-in included, as `compare` takes it; `session` is its folder and node."""
    names = loaded.sweep.names
    return pd.DataFrame([_statistics(names, one) for one in counted], columns=STATISTICS)


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


def compare_arms(
    loaded: LoadedSweep, frame: pd.DataFrame, counted: Sequence[Counted], confidence: float
) -> tuple[Comparisons | None, list[str]]:
    """Judge every candidate, or rank those of a screen; None, and why, where nothing can be compared."""
    seen = [_seen(loaded.sweep.names, one) for one in counted]
    sweep = loaded.sweep
    baseline = sweep.names[sweep.baseline]
    frame, told = _of_one_level(frame)
    arms = [arm.name for arm in sweep.arms if arm.measure]
    if loaded.plan.order == "screen":
        whole = frame[~frame["round"].isin(loaded.plan.repeated)]
        ranked = screen(whole, baseline, [arm for arm in arms if arm != baseline])
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


def _seen(names: dict[str, str], one: Counted) -> SeenRun:
    run, record = one.attempt.run, one.record
    return SeenRun(names[run.arm], run.round, record.gpus, record.foreign, record.others_cpu_pct)


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
    if not parts:
        return one
    return replace(one, notes=(*one.notes, f"ratio by block (rounds): {', '.join(parts)}"))


def _of_one_level(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Bring the sessions of pooled sweeps to one level, so that what differs between them is no noise and no drift.

    Ratios are taken within rounds, and so within sessions: they stay as they are.
    """
    measured = frame[frame["round"] > 0]
    # A round that lacks an arm would make its session look as fast as the arms that it has.
    whole = measured.groupby("round")["arm"].transform("nunique") == measured["arm"].nunique()
    measured = measured[whole]
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
