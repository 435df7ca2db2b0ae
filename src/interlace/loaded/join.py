"""Sweeps of the same arms put side by side: every round stays in the block in which it was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlace.schema import Extension

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.loaded.sweep import LoadedSweep
    from interlace.records import Attempt
    from interlace.schema import Run


@dataclass(frozen=True)
class Block:
    """One of the sweeps that were put together: its folder, and what reports call it."""

    folder: str
    label: str


def join(sweeps: Sequence[LoadedSweep], *, chosen: bool = False) -> LoadedSweep:
    """Append the rounds of all sweeps to those of the first; numbers of rounds and runs go on.

    `chosen` marks rounds that somebody added after looking at others, as pooling by hand does: the plan then says
    so, and intervals get wider.
    """
    joined = sweeps[0]
    for other in sweeps[1:]:
        joined = _appended(joined, other, chosen=chosen)
    return joined


def _appended(joined: LoadedSweep, other: LoadedSweep, *, chosen: bool) -> LoadedSweep:
    rounds = max(run.round for run in joined.plan.runs)
    index = max(run.index for run in joined.plan.runs) + 1
    slugs = {arm.name: arm.slug for arm in joined.sweep.arms}
    names = {arm.slug: arm.name for arm in other.sweep.arms}

    def moved(run: Run) -> Run:
        later = run.round + rounds if run.round else 0
        return replace(run, index=run.index + index, round=later, arm=slugs[names[run.arm]])

    def carried(attempt: Attempt) -> Attempt:
        record = replace(attempt.record, run=moved(attempt.run)) if attempt.record else None
        return replace(attempt, run=moved(attempt.run), record=record)

    def renumbered(one: Extension) -> Extension:
        return replace(one, round=one.round + rounds, repeats=one.repeats + rounds if one.repeats else None)

    runs = tuple(moved(run) for run in other.plan.runs)
    added = tuple(renumbered(one) for one in other.plan.extensions)
    if chosen:
        reason = f"it is of the session in {other.sweep_dir.path}"
        added = tuple(Extension(number, reason) for number in sorted({run.round for run in runs if run.round}))
    plan = replace(joined.plan, runs=(*joined.plan.runs, *runs), extensions=(*joined.plan.extensions, *added))
    return replace(joined, plan=plan, tries=(*joined.tries, *(carried(one) for one in other.tries)))
