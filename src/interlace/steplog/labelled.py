"""Labels that a launcher puts in front of every line (`srun -l`, `mpirun --tag-output`, `mpiexec -l`) name ranks."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from interlace.steplog.text import Record

_FORMS = (
    re.compile(r"^\[[^\[\],]+,(\d+)\]<std(?:out|err)>: ?", re.MULTILINE),  # Open MPI's --tag-output
    re.compile(r"^ *(\d+): ?", re.MULTILINE),  # srun -l
    re.compile(r"^\[(\d+)\] ", re.MULTILINE),  # MPICH's and Intel MPI's -l, -prepend-rank
)
_LABELLED_SHARE = 0.9
"""Of the lines; a launcher's own messages have no label."""


def label_in(head: str) -> re.Pattern[str] | None:
    """Return how the lines of a log are labelled with ranks, None where a number in front is not certain to be one.

    Ranks are 0 to N-1, each there several times, and write in turn: line numbers do not repeat, epochs do not go back.
    """
    lines = [line for line in head.split("\n") if line.strip()]
    for form in _FORMS:
        numbers = [int(match[1]) for line in lines if (match := form.match(line))]
        ranks = set(numbers)
        several = len(ranks) > 1 and 2 * len(ranks) <= len(numbers) and ranks == set(range(len(ranks)))
        in_turn = any(before > after for before, after in pairwise(numbers))
        if several and in_turn and len(numbers) >= _LABELLED_SHARE * len(lines):
            return form
    return None


def relabel(text: str, label: re.Pattern[str]) -> str:
    """Write each label as all readers know it: `[rank3]: `."""
    return label.sub(r"[rank\1]: ", text)


def relabelled(records: Iterable[Record], label: re.Pattern[str] | None) -> Iterator[Record]:
    """Write the labels of all records so; a record that is the rest of a long one has none."""
    rest = False
    for record in records:
        yield record if label is None or rest else record._replace(text=relabel(record.text, label))
        rest = record.goes_on
