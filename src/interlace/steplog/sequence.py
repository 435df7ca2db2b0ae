"""The only judge of rows that break a log's order: a step out of its rank's sequence, a row that lost its rank. Pure.

Such a row is what is left of a record that was cut or mixed with another's: its time may be anyone's.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from interlace.steplog.model import Remarks, Row

_FEWEST = 6
_REGULAR = 0.7
_MOST_LOST = 4
"""So many steps may be missing around a row out of order."""
_UNLABELLED, _UNLABELLED_TANGLED = 0.1, 0.3
_FEW = 0.1
_MANY_TORN = 4


def in_order(rows: Sequence[Row], by_rank: Mapping[int, Sequence[Row]], remarks: Remarks) -> list[Row]:
    """Return the rows without those that break the order, each of which becomes an error.

    Returns none where as many records are torn as half of those that are whole: any of them may be mixed.
    """
    if remarks.torn >= _MANY_TORN and 2 * remarks.torn > len(rows):
        text = f"{remarks.torn} records are torn, beside {len(rows)} that seem whole: none of them can be trusted"
        remarks.errors.insert(0, f"tangled: {text}; give each rank a log of its own (torchrun --log-dir DIR --tee 3)")
        return []
    dropped: dict[int, str] = {}
    counts = {rank: len(of_rank) for rank, of_rank in by_rank.items()}
    broken = remarks.tangled() or any(error.startswith("corrupt_line") for error in remarks.errors)
    for rank, why in _odd_ranks(counts, tangled=broken):
        dropped |= {id(row): why for row in by_rank[rank]}
    for of_rank in by_rank.values():
        dropped |= {id(row): why for row, why in _strays(of_rank) if id(row) not in dropped}
    if not dropped:
        return list(rows)
    for row in rows:
        if id(row) in dropped:
            remarks.error("out_of_order", row.line, f"step {row.step}: {row.step_s:.6g} s", dropped[id(row)])
    return [row for row in rows if id(row) not in dropped]


def _odd_ranks(rows: Mapping[int, int], *, tangled: bool) -> Iterator[tuple[int, str]]:
    """Yield no rank where nearly all rows have one, and in a log with torn records a rank that hardly wrote."""
    most = max(rows.values(), default=0)
    labelled = sum(count for rank, count in rows.items() if rank >= 0)
    for rank, count in rows.items():
        if rank < 0 and count <= (_UNLABELLED_TANGLED if tangled else _UNLABELLED) * labelled:
            yield rank, "it does not say its rank, as nearly all others do"
        elif rank >= 0 and tangled and count <= _FEW * most:
            yield rank, f"rank {rank} has {count} of {most} steps, its number may be torn"


def _strays(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield the rows whose step lies outside of its two neighbours', which go on as if it were not there.

    Only in a log whose steps are regular; a resumed run goes back and stays there.
    """
    steps = [row.step for row in rows if row.step is not None]
    if len(rows) < _FEWEST or len(steps) < len(rows) or steps == sorted(set(steps)):
        return
    usual, times = Counter(b - a for a, b in pairwise(steps)).most_common(1)[0]
    if usual <= 0 or times < _REGULAR * (len(rows) - 1):
        return
    before = steps[0]
    for row, (step, after) in zip(rows[1:], pairwise(steps[1:]), strict=False):
        between = before < step < after or step in {before, after}
        leaps = step > before + _MOST_LOST * usual and after <= before + usual
        if leaps or (not between and 0 < after - before <= _MOST_LOST * usual):
            yield row, f"it stands between the steps {before} and {after}"
        else:
            before = step
    if steps[-1] < before and str(before + usual).startswith(str(steps[-1])):
        yield rows[-1], f"it is the last and stands behind step {before}, its number may be cut"
