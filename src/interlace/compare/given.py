"""Logs that the user already has, as runs: the only place that works out their files, window and order."""

from __future__ import annotations

import glob
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interlace.errors import ReadError, UsageError
from interlace.order import JudgedOrder, judge_order, shown, unknown_order
from interlace.stats.run import WindowStats, describe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.stats.drift import Drift
    from interlace.steplog import StepLog

DEFAULT_WINDOW = (51, 300)
MOST_WARM_UP = 50
WARM_UP_SHARE = 0.2
LONG_PAUSE_S = 1800.0
LEAST_LEAK = 0.002


@dataclass(frozen=True)
class GivenRun:
    """One log: the arm it belongs to, the name it was given by, and what was read."""

    arm: str
    name: str
    log: StepLog

    @property
    def first(self) -> int:
        """Smallest step number."""
        return int(self.log.frame["step"].min())

    @property
    def last(self) -> int:
        """Largest step number."""
        return int(self.log.frame["step"].max())


@dataclass(frozen=True)
class Ordered:
    """Runs in the order of time (as given where that is not known), its judgement, and its source."""

    runs: tuple[GivenRun, ...]
    order: JudgedOrder
    source: str
    notes: tuple[str, ...] = ()
    by_clock: bool = False


def files_of(arm: str, value: str) -> list[Path]:
    """Files of one arm from `a.log,b.log`, a quoted glob, or folders; UsageError for what is not there."""
    found: list[Path] = []
    for part in [value] if Path(value).exists() else value.split(","):
        text = str(Path(part.strip()).expanduser())
        if not part.strip():
            raise UsageError(f"{arm}={value}: a file name is empty; write {arm}=FILE,FILE")
        matches = [text] if Path(text).exists() else sorted(glob.glob(text), key=_natural)  # noqa: PTH207 (the pattern may be absolute)
        if not matches:
            raise UsageError(f"{arm}={value}: no file '{part.strip()}' here; check the name, or quote the pattern")
        found.extend(Path(match) for match in matches)
    return found


def refuse_repeats(arms: Mapping[str, Sequence[Path]]) -> None:
    """Raise UsageError where one file stands for two runs: it would hide the noise between runs."""
    seen: dict[Path, str] = {}
    for arm, paths in arms.items():
        for path in paths:
            real = path.resolve()
            if real in seen:
                raise UsageError(f"{path} is given twice ({seen[real]} and {arm}); every run needs a log of its own")
            seen[real] = arm


def in_order(runs: Sequence[GivenRun], arms: Sequence[str], order: str | None) -> Ordered:
    """Put runs in the order of time: by `order` (letters, A is the first of `arms`), else by their clocks."""
    clocked = _by_clock(runs)
    if order is None:
        return clocked
    wanted = _arms_in(order, arms)
    _check_counts(order, wanted, runs, arms)
    waiting = {arm: iter([run for run in runs if run.arm == arm]) for arm in arms}
    ordered = tuple(next(waiting[arm]) for arm in wanted)
    notes = []
    if clocked.order.kind != "unknown" and [run.arm for run in clocked.runs] != wanted:
        notes.append(f"the clocks in the logs say {letters([r.arm for r in clocked.runs], arms)}; order= was used")
    judged = judge_order(in_letters(wanted, arms))
    return Ordered(ordered, judged, f"{letters(wanted, arms)}, as given by order=", tuple(notes))


def in_letters(runs: Sequence[str], arms: Sequence[str]) -> list[str]:
    """Name arms by letters, A for the first; by their names where there are more than 26."""
    if len(arms) > 26:  # noqa: PLR2004 (letters of the alphabet)
        return list(runs)
    return [chr(ord("A") + list(arms).index(arm)) for arm in runs]


def letters(runs: Sequence[str], arms: Sequence[str]) -> str:
    """Write an order of arms in one word, as order= takes it."""
    return shown(in_letters(runs, arms))


def pairs_to_judge(ordered: Ordered, arms: Sequence[str]) -> list[str]:
    """Where the order of all arms forbids a verdict, say which could be judged alone with the baseline."""
    if ordered.order.kind not in ("irregular", "sequential") or len(arms) < 3:  # noqa: PLR2004 (more than a pair)
        return []
    pairs = {arm: [r.arm for r in ordered.runs if r.arm in (arms[0], arm)] for arm in arms[1:]}
    fine = [arm for arm, runs in pairs.items() if judge_order(runs).reason is None and len(runs) > len(set(runs))]
    return [f"alone with {arms[0]}, {arm} was interleaved: compare just these two for a verdict" for arm in fine]


def window_for(runs: Sequence[GivenRun], asked: tuple[int, int] | None) -> tuple[tuple[int, int], str]:
    """Choose the window of all runs, and say which and why.

    As asked; else steps 51 to 300 where every log has them; else what all logs share without the first fifth
    of their steps (50 at most) as warm-up.
    """
    if asked is not None:
        return asked, f"steps {asked[0]} to {asked[1]}, as given"
    first, last = max(run.first for run in runs), min(run.last for run in runs)
    if first <= DEFAULT_WINDOW[0] and last >= DEFAULT_WINDOW[1]:
        return DEFAULT_WINDOW, f"steps {DEFAULT_WINDOW[0]} to {DEFAULT_WINDOW[1]}, the default"
    if last < first:
        ends = min(runs, key=lambda run: run.last)
        begins = max(runs, key=lambda run: run.first)
        raise ReadError(
            f"{ends.name} ends at step {ends.last}, {begins.name} begins at {begins.first}: no step in common"
        )
    warm_up = min(MOST_WARM_UP, round(WARM_UP_SHARE * (last - first + 1)))
    shortest = min(runs, key=lambda run: run.last)
    return (first + warm_up, last), (
        f"steps {first + warm_up} to {last}: {shortest.name} ends at step {last}, "
        f"the first {warm_up} common steps are left out as warm-up"
    )


def measure(runs: Sequence[GivenRun], window: tuple[int, int], block: int = 10) -> list[WindowStats]:
    """Describe every run over one window; a ReadError names the log whose steps do not fill it."""
    measured = []
    for run in runs:
        try:
            measured.append(describe(run.log.frame, window, block))
        except ReadError as error:
            raise ReadError(f"{run.name}: {error}") from error
    return measured


def runs_frame(ordered: Ordered, measured: Sequence[WindowStats]) -> pd.DataFrame:
    """Table for `compare.compare`. Without an order the runs of an arm are merely numbered."""
    counts: dict[str, int] = {}
    rows = []
    for position, (run, stats) in enumerate(zip(ordered.runs, measured, strict=True)):
        counts[run.arm] = counts.get(run.arm, 0) + 1
        rows.append(
            {
                "arm": run.arm,
                "round": ordered.order.rounds[position] if ordered.order.rounds else counts[run.arm],
                "stat_s": stats.summary.stat_s,
                "mean_s": stats.summary.mean_s,
                "median_s": stats.summary.median_s,
                "resolution": stats.summary.resolution,
                "quantum_s": stats.summary.quantum_s,
                "t_start_s": _start_s(ordered, position),
            }
        )
    return pd.DataFrame(rows)


def unlike(ordered: Ordered, baseline: str, arms: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Say why single arms may not be judged, and what else differs between the arms."""
    readers = {arm: sorted({r.log.reader for r in ordered.runs if r.arm == arm}) for arm in arms}
    sizes = {arm: {r.log.world_size for r in ordered.runs if r.arm == arm} - {None} for arm in arms}
    failed, notes = {}, []
    for arm in [arm for arm in arms if arm != baseline]:
        if len({*readers[baseline], *readers[arm]}) > 1:
            listed = f"{baseline}: {', '.join(readers[baseline])}; {arm}: {', '.join(readers[arm])}"
            failed[arm] = f"the logs were read by different readers ({listed}), whose times may mean different things"
        kinds = {run.log.kind for run in ordered.runs if run.arm in (arm, baseline)}
        if len(kinds) > 1 and arm not in failed:
            failed[arm] = (
                f"the logs hold values of different kinds ({', '.join(sorted(kinds))}), which are not compared"
            )
        for one in (arm, baseline):
            if len(sizes[one]) > 1:
                failed[arm] = f"runs of {one} had different numbers of ranks ({_listed(sizes[one])})"
        if arm not in failed and sizes[arm] and sizes[baseline] and sizes[arm] != sizes[baseline]:
            notes.append(
                f"{baseline} had world size {_listed(sizes[baseline])}, {arm} {_listed(sizes[arm])}: "
                "a step may not be the same work"
            )
    reduced = {(run.arm, run.log.reduced) for run in ordered.runs}
    if len({how for _, how in reduced}) > 1:
        how = "; ".join(sorted(f"{arm}: {name or 'not reduced'}" for arm, name in reduced))
        notes.append(f"the logs reduce a step over ranks in different ways ({how})")
    return failed, notes


def _listed(sizes: set[int | None]) -> str:
    return ", ".join(str(size) for size in sorted(size for size in sizes if size is not None))


def leaking_drift(drift: Drift | None) -> str | None:
    """Say why runs in the order ABAB are not judged: they drifted, and that order leaves the drift in the ratio.

    Under a drift of 3 % such sweeps are called wrong in up to 41 % of the cases (docs/verdicts.md).
    """
    if drift is None or abs(drift.total) <= max(drift.half, LEAST_LEAK):
        return None
    size = 100.0 * math.expm1(drift.total)
    return (
        f"the runs drifted by {size:+.1f} % and the order ABAB leaves a part of it in the ratio; measure in ABBA order"
    )


def _start_s(ordered: Ordered, position: int) -> float | None:
    """Start on the clock of the logs; the place in the order where that was given."""
    if ordered.order.kind == "unknown":
        return None
    started_at = ordered.runs[position].log.started_at
    return started_at if ordered.by_clock else float(position)


def _by_clock(runs: Sequence[GivenRun]) -> Ordered:
    without = [run.name for run in runs if run.log.started_at is None]
    if without:
        source = f"not known: no clock in {', '.join(without[:3])}{' ...' if len(without) > 3 else ''}"  # noqa: PLR2004
        return Ordered(tuple(runs), unknown_order(), source, ("order=ABBA... says in which order runs were made",))
    ordered = sorted(runs, key=lambda run: run.log.started_at or 0.0)
    for one, after in pairwise(ordered):
        if one.log.started_at == after.log.started_at and one.arm != after.arm:
            source = f"not known: {one.name} and {after.name} begin at the same time"
            return Ordered(tuple(runs), unknown_order(), source)
    names = list(dict.fromkeys(run.arm for run in runs))
    order = judge_order(in_letters([run.arm for run in ordered], names))
    source = f"{letters([run.arm for run in ordered], names)}, from the clocks in the logs"
    return Ordered(tuple(ordered), order, source, tuple(_gaps(ordered)), by_clock=True)


def _gaps(ordered: Sequence[GivenRun]) -> list[str]:
    """Say where runs overlapped, and where a long pause may hide a change of the machine."""
    notes = []
    for one, after in pairwise(ordered):
        end, start = one.log.finished_at, after.log.started_at
        if end is None or start is None:
            continue
        if end > start:
            notes.append(f"{one.name} and {after.name} overlap in time: runs that share a machine disturb each other")
        elif start - end > LONG_PAUSE_S:
            minutes = (start - end) / 60.0
            notes.append(f"{minutes:.0f} min passed between {one.name} and {after.name}: the machine may have changed")
    return notes


def _arms_in(order: str, arms: Sequence[str]) -> list[str]:
    """Arms named by `ABBA`, by `A,B,B,A` or by `name,name`."""
    named = [part.strip() for part in order.split(",")]
    if "," in order and (set(named) & set(arms) or max(map(len, named)) > 1):
        if unknown := sorted(set(named) - set(arms)):
            raise UsageError(f"order={order}: no arm {unknown[0]!r}; arms: {', '.join(arms)}")
        return named
    keys = {chr(ord("A") + i): arm for i, arm in enumerate(arms[:26])}
    text = re.sub(r"[\s|,]", "", order).upper()
    if unknown := sorted(set(text) - set(keys)):
        meaning = ", ".join(f"{letter} = {arm}" for letter, arm in keys.items())
        raise UsageError(f"order={order}: no arm {unknown[0]!r}; {meaning}")
    return [keys[letter] for letter in text]


def _check_counts(order: str, wanted: Sequence[str], runs: Sequence[GivenRun], arms: Sequence[str]) -> None:
    for arm in arms:
        asked, given = wanted.count(arm), sum(run.arm == arm for run in runs)
        if asked != given:
            raise UsageError(f"order={order} has {asked} runs of {arm}, but {given} of its logs were given")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key under which a10.log comes after a2.log."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
