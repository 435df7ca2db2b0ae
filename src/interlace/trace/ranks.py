"""Several ranks of one job: how much of their communication is waiting for each other, and for whom. Pure.

The same collective is a meeting: the rank that comes last has the shortest kernel, which is about what the transfer
takes; what is longer on the others is waiting. Only durations are compared, so clocks need not agree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.trace.metrics import RankMetrics


@dataclass(frozen=True)
class Meeting:
    """What the ranks' collectives say together; times in ms a step, over all ranks.

    `transfer_ms` is the shortest of each collective, `wait_share` how much of all communication time was waiting (0 to
    1); `last` is the position (in the ranks given) of the one that most collectives waited for, `last_share` of how
    many.
    """

    steps: int
    collectives: int
    transfer_ms: float
    wait_share: float
    last: int
    last_share: float


def meeting(ranks: Sequence[RankMetrics]) -> Meeting | None:
    """Compare the k-th collective of each step over the ranks; None with one rank, or where they do not match."""
    if len(ranks) < 2:  # noqa: PLR2004 (nobody to wait for)
        return None
    by_step = [{one.step: one for one in rank.steps} for rank in ranks]
    shared = sorted(set.intersection(*(set(steps) for steps in by_step)))
    tables = []
    for step in shared:
        kinds = {tuple(one.name for one in steps[step].collectives) for steps in by_step}
        if len(kinds) == 1 and any(kinds):
            tables.append(np.array([steps[step].collective_ms for steps in by_step]))
    if not tables:
        return None
    length = np.concatenate(tables, axis=1)
    shortest = length.min(axis=0)
    ((last, times),) = Counter(length.argmin(axis=0).tolist()).most_common(1)
    return Meeting(
        steps=len(tables),
        collectives=length.shape[1] // len(tables),
        transfer_ms=float(shortest.sum()) / len(tables),
        wait_share=max(0.0, float(1.0 - shortest.sum() * len(ranks) / length.sum())) if length.sum() > 0 else 0.0,
        last=int(last),
        last_share=times / length.shape[1],
    )
