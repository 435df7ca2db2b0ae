"""The only place that takes apart what several ranks wrote into one line. Pure.

Ranks share a pipe, so a record can begin in the middle of a line (the newline of the one before comes
later) and a value can be cut in two, its rest standing on a line of its own:

    rank=0 step=3 step_s=0.40rank=1 step=3 step_s=0.410
    0

What a record begins with is learned from the first few. A cut record is joined with its rest only where the
result reads like the other records; a value that may be cut is an error, never a number.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from interlace.steplog.model import in_lines, shorten
from interlace.steplog.starts import Starts
from interlace.steplog.text import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.model import Remarks

WAIT_RECORDS = 8
"""How many records later the rest of a cut one may come."""

LEARN_RECORDS = 4096
"""So many lines are kept at most until it is known how records begin."""

_USUAL = 5
"""So many records say how a record usually begins and ends."""

_SURE = 20
"""After so many times of one width, a last one that is shorter is a cut one."""


class Ending(NamedTuple):
    """How the last time of a record is printed.

    `width`: its decimals, or minus the digits of a whole number. `at_end`: it ends the text and may be cut.
    """

    width: int
    at_end: bool


class _Cut:
    """A record that waits for its rest since record number `seen`; `sure`: it is cut beyond doubt."""

    def __init__(self, record: Record, seen: int, *, sure: bool = True) -> None:
        self.record = record
        self.seen = seen
        self.sure = sure
        self.settled: list[Record] | None = None


EndingOf: TypeAlias = "Callable[[str], Ending | None]"


def width_of(number: str) -> int:
    """Return how many decimals a printed number has; for a whole number minus its digits."""
    digits, _, decimals = number.replace(",", ".").rpartition(".")
    return len(decimals) if digits or number.startswith(".") else -len(number)


def untangle(records: Iterable[Record], ending: EndingOf, remarks: Remarks) -> Iterator[Record]:
    """Yield records that belong to one rank each, in the log's order; `ending` says how its last time is printed.

    Adds the notes `interleaved_lines` and `joined_records`, the note `truncated_tail` for a last line that was cut,
    and the error `torn_record` for a record whose rest was never found.
    """
    knot = _Knot(ending, remarks)
    for record in records:
        yield from knot.take(record)
    yield from knot.finish()


class _Knot:
    """What is known while the records go by: how they begin, how times are printed, which records are cut.

    What comes behind a cut record is held back until that one is settled, so that the order stays.
    """

    def __init__(self, ending: EndingOf, remarks: Remarks) -> None:
        self._ending = ending
        self._remarks = remarks
        self._starts: Starts | None = None
        self._learning: list[Record] | None = []
        self._examples: list[str] = []
        self._widths: Counter[int] = Counter()
        self._cut: list[_Cut] = []
        self._held: deque[Record | _Cut] = deque()
        self._seen = self._glued = self._timed = self._end_in_time = 0
        self._joined_at: list[int] = []

    def take(self, record: Record) -> Iterator[Record]:
        """Yield what this record completes, and it itself unless it is the rest of a cut one."""
        if self._learning is None:
            yield from self._take(record)
            return
        self._learning.append(record)
        if self._ending(record.text):
            self._examples.append(record.text)
        if len(self._examples) == _USUAL or len(self._learning) == LEARN_RECORDS:
            yield from self._learnt()

    def finish(self) -> Iterator[Record]:
        """Yield the cut records that are whole all the same, and say what was found."""
        if self._learning is not None:
            yield from self._learnt()
        self._judge_last()
        for cut in list(self._cut):
            self._give_up(cut)
        yield from self._flush()
        if self._glued:
            text = f"lines that held records of several ranks, taken apart: {self._glued} in all"
            self._remarks.note("interleaved_lines", text)
        if self._joined_at:
            where = in_lines(self._joined_at)
            text = f"records put together from two pieces that stood apart ({where}): {len(self._joined_at)} in all"
            self._remarks.note("joined_records", text)

    def _learnt(self) -> Iterator[Record]:
        """Read what was kept back while it was not known how records begin."""
        waiting, self._learning = self._learning or [], None
        self._starts = Starts.learn(self._examples)
        for record in waiting:
            yield from self._take(record)

    def _take(self, record: Record) -> Iterator[Record]:
        self._seen += 1
        if self._cut:
            for cut in [cut for cut in self._cut if self._seen - cut.seen > WAIT_RECORDS]:
                self._give_up(cut)
            if self._joined(record):
                yield from self._flush()
                return
        parts = self._starts.split(record.text) if self._starts else [record.text]
        self._glued += len(parts) > 1
        for part in parts[:-1]:
            if self._starts and self._starts.begins(part):
                self._wait(_Cut(Record(part, record.line), self._seen))
            else:
                self._held.append(Record(part, record.line))
        whole = self._whole(record._replace(text=parts[-1]) if len(parts) > 1 else record)
        if whole and not self._held:
            yield whole
            return
        if whole:
            self._held.append(whole)
        yield from self._flush()

    def _flush(self) -> Iterator[Record]:
        """Yield what no cut record stands before any more."""
        while self._held:
            first = self._held[0]
            if isinstance(first, Record):
                yield first
            elif first.settled is None:
                return
            else:
                yield from first.settled
            self._held.popleft()

    def _wait(self, cut: _Cut) -> None:
        self._cut.append(cut)
        self._held.append(cut)

    def _settle(self, cut: _Cut, *records: Record) -> None:
        cut.settled = list(records)
        self._cut.remove(cut)

    def _whole(self, record: Record) -> Record | None:
        """Return a record that is whole; None where it has to wait, or is cut and dropped."""
        how = self._ending(record.text)
        if how and how.at_end and not record.ended and not record.goes_on and not self._long_enough(how):
            shown = shorten(record.text[-80:])
            self._remarks.note("truncated_tail", f"the last line has no end, its time may be cut: `{shown}`")
            return None
        if how and record.ended and self._looks_cut(how, record.text):
            self._wait(_Cut(record, self._seen, sure=not self._end_in_time))
            return None
        if how:
            self._widths[how.width] += 1
            self._timed += 1
            self._end_in_time += how.at_end
        return record

    def _looks_cut(self, how: Ending, text: str) -> bool:
        """Whether a line ends in a time as no other does: another rank's line end may have come in between."""
        if not how.at_end or how.width in self._widths or self._timed < _USUAL:
            return False
        begins = self._starts is not None and self._starts.begins(text)
        return begins and (not self._end_in_time or len(self._widths) == 1)

    def _long_enough(self, how: Ending) -> bool:
        """Whether a time at the end of the file looks no shorter than the others."""
        if len(self._widths) < 2:  # noqa: PLR2004 - none yet, or all printed alike
            return not self._widths or how.width in self._widths
        return 0 < how.width >= max(self._widths)

    def _judge_last(self) -> None:
        """Drop a last record whose time is shorter than all before: a kill cut it, and something ended its line."""
        if not self._cut or self._cut[-1].sure or self._timed < _SURE or self._held[-1] is not self._cut[-1]:
            return
        shown = shorten(self._cut[-1].record.text[-80:])
        self._remarks.note("truncated_tail", f"the last time is shorter than all before, it may be cut: `{shown}`")
        self._settle(self._cut[-1])

    def _joined(self, record: Record) -> bool:
        """Join a record that begins like none with the one cut record that it completes."""
        if self._starts and self._starts.begins(record.text):
            return False
        fitting = [cut for cut in self._cut if self._completes(cut, record.text)]
        if not fitting or (len(fitting) > 1 and record.text.strip()):
            return False
        cut = fitting[0]
        if record.text.strip():
            self._joined_at.append(cut.record.line)
        self._settle(cut, cut.record._replace(text=cut.record.text + record.text))
        return True

    def _completes(self, waiting: _Cut, rest: str) -> bool:
        cut = waiting.record.text
        if not (waiting.sure or rest.strip().isdecimal()) or not (self._starts and self._starts.fit(cut, rest)):
            return False
        how, before = self._ending(cut + rest), self._ending(cut)
        if how is None or before is None or not before.at_end:
            return how is not None
        if len(self._widths) == 1:
            return how.width in self._widths
        return rest.strip().isdecimal() or not rest.strip()

    def _give_up(self, cut: _Cut) -> None:
        """Take a cut record whose rest did not come, if its time is whole all the same."""
        record, how = cut.record, self._ending(cut.record.text)
        if how and not cut.sure:  # times are printed shorter where they end in zeros
            self._widths[how.width] += 1
        if how and (not cut.sure or not how.at_end or set(self._widths) == {how.width}):
            self._settle(cut, record)
            return
        why = "another rank wrote into it and its rest is not there"
        self._remarks.error("torn_record", record.line, record.text, why)
        self._settle(cut)
