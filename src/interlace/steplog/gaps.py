"""The only place that says which steps a log lacks, how far records are apart, and what that makes a value. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from interlace.steplog.model import Kind, Parsed, Remarks, Row, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_RULE = 2
"""So few records have one distance, which says nothing: the others may be broken lines."""

SAID: dict[Kind, str] = {
    "mean": "interval_means: each value is a mean over the steps since the one before, not one step's time",
    "smoothed": "smoothed: each value is a running average, not one step's time; single slow steps are hidden,"
    " and a change shows late",
}
"""What is said of values that are no single step times."""


def usual_gap(rows: Sequence[Row], otherwise: int) -> int:
    """Return how many steps two records mostly are apart; `otherwise` where no two have steps."""
    gaps = Counter(b.step - a.step for a, b in pairwise(rows) if a.step is not None and b.step is not None)
    return gaps.most_common(1)[0][0] if gaps else otherwise


def kind_of(parsed: Parsed, steps: int, gap: int, *, clock: bool) -> Kind:
    """Return what a value is: a mean over one step is that step's time, a clock read every ten steps gives means."""
    if parsed.kind == "mean" and gap == 1 and steps > 1:
        return "single"
    return "mean" if parsed.kind == "single" and gap > 1 and clock else parsed.kind


def note_kind(kind: Kind, steps: int, gap: int, remarks: Remarks) -> None:
    """Say what a value is, and how far records are apart."""
    if kind in SAID and steps > 1:
        remarks.notes.append(SAID[kind])
    elif gap > 1 and steps <= _NO_RULE:
        return
    elif gap > 1 and kind == "single":
        remarks.note(
            "every_n_steps", f"a record every {gap} steps: the time of one step each, the others are not there"
        )
    elif gap > 1:
        remarks.note(
            "every_n_steps", f"a record every {gap} steps: values may be means over {gap} steps, not single ones"
        )


def note_gaps(by_rank: Mapping[int, Sequence[Row]], world_size: int | None, remarks: Remarks) -> int:
    """Say what is missing; returns the usual distance between two recorded steps."""
    ranks = {rank: {row.step for row in of_rank if row.step is not None} for rank, of_rank in by_rank.items()}
    everywhere = set().union(*ranks.values())
    for rank, steps in ranks.items():
        if missing := everywhere - steps:
            remarks.note("missing_on_rank", f"rank {rank} lacks {len(missing)} steps: {listed(missing)}")
    if world_size and min(ranks) >= 0 and len(ranks) < world_size:
        lacking = set(range(world_size)) - set(ranks)
        remarks.note("missing_ranks", f"{len(ranks)} of {world_size} ranks are in the log; not {listed(lacking)}")
    return _note_missing_steps(sorted(everywhere), remarks)


def _note_missing_steps(steps: list[int], remarks: Remarks) -> int:
    distances = Counter(b - a for a, b in pairwise(steps))
    if not distances:
        return 1
    distance, times = max(distances.items(), key=lambda one: (one[1], -one[0]))
    usual = distance if times > 1 or len(steps) == 2 else 1  # noqa: PLR2004 (two records have one distance)
    if steps[0] == 0:
        remarks.note("zero_based", "the first step is step 0: windows count from it as the log does")
    holes = [a + usual for a, b in pairwise(steps) if b - a > usual]
    if holes:
        remarks.note("missing_steps", f"steps are missing in {len(holes)} places, from step {listed(holes)}")
    return distance
