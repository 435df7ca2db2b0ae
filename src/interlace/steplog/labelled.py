"""Labels that a launcher puts in front of every line (`srun -l`, `mpirun --tag-output`, `mpiexec -l`) name ranks.

A number in front of a line can be many things: a line's own, an epoch's, a batch's, an hour. It is taken for a rank
only where nothing else in the log says one, and where all have the same steps, in turn, as ranks do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from interlace.steplog.keys import RANK_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlace.steplog.model import Row
    from interlace.steplog.text import Record

_FORMS = (
    re.compile(r"\[[^\[\],]+,(\d+)\]<std(?:out|err)>:"),  # Open MPI's --tag-output
    re.compile(r" *(\d+):(?: |$)"),  # srun -l
    re.compile(r"\[(\d+)\] "),  # MPICH's and Intel MPI's -l, -prepend-rank
)
_LABELLED_SHARE = 0.9
"""Of the lines; a launcher's own messages have no label."""
_SHARED_STEPS = 0.5
"""Of all steps; ranks print the same ones, but for those at the end of a log that was cut."""
_REPEATED = 1.5
"""How often a label may have a step, on average: a resumed run prints some again, several ranks behind one all."""
_A_RANKS_OWN = re.compile(rf"\[(?:{RANK_WORDS})[ _]?\d+\]|\brank\w*[\"']?\s*[=: ]\s*\d", re.IGNORECASE)


class Labelled:
    """Records handed on as they are, while the number in front of each line is remembered."""

    def __init__(self, records: Iterable[Record], head: str) -> None:
        self._records = records
        self._form = _form_in(head)
        self._labels: dict[int, int] = {}

    def __iter__(self) -> Iterator[Record]:
        form, labels = self._form, self._labels
        if form is None:
            yield from self._records
            return
        for record in self._records:
            if record.line not in labels and (match := form.match(record.text)):
                labels[record.line] = int(match[1])
            yield record

    def ranked(self, rows: list[Row]) -> list[Row]:
        """Give each row the rank in front of its line, or leave them all as they are where that cannot be one."""
        if not self._labels or any(row.rank >= 0 or row.step is None or row.line not in self._labels for row in rows):
            return rows
        labels = [self._labels[row.line] for row in rows]
        if len({row.line for row in rows}) < len(rows) or not _are_ranks(labels, [row.step for row in rows]):
            return rows
        return [row._replace(rank=label) for row, label in zip(rows, labels, strict=True)]


def _are_ranks(labels: list[int], steps: list[int | None]) -> bool:
    """Whether all labels have the same steps, each once, and take turns: epochs and folds come one after another."""
    by_label = defaultdict(list)
    for label, step in zip(labels, steps, strict=True):
        by_label[label].append(step)
    different = {label: set(of_label) for label, of_label in by_label.items()}
    shared, every = set.intersection(*different.values()), set().union(*different.values())
    once = all(len(of_label) <= _REPEATED * len(different[label]) for label, of_label in by_label.items())
    turns = sum(before != after for before, after in pairwise(labels))
    return len(by_label) > 1 and once and turns >= 2 * len(by_label) and len(shared) >= _SHARED_STEPS * len(every)


def _form_in(head: str) -> re.Pattern[str] | None:
    """Return how nearly all lines begin with a number, of which there are several, from 0 on, each several times."""
    lines = [line for line in head.split("\n") if line.strip()]
    for form in _FORMS:
        numbers = [int(match[1]) for line in lines if (match := form.match(line))]
        labels = set(numbers)
        several = len(labels) > 1 and 2 * len(labels) <= len(numbers) and labels == set(range(len(labels)))
        if several and len(numbers) >= _LABELLED_SHARE * len(lines):
            return None if _A_RANKS_OWN.search(head) else form
    return None
