"""The only place that takes apart what several ranks wrote into one line. Pure.

Ranks share a pipe, so a record can begin in the middle of a line (the newline of the one before comes
later) and a value can be cut in two, its rest standing on a line of its own:

    rank=0 step=3 step_s=0.40rank=1 step=3 step_s=0.410
    0

What a record begins with is learned from the first one. A cut record is joined with its rest only where the
result reads like the other records; a value that may be cut is an error, never a number.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from interlace.steplog.model import shorten
from interlace.steplog.text import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.model import Remarks

WAIT_RECORDS = 8
"""How many records later the rest of a cut one may come."""

_USUAL = 5
"""So many records say how a record usually ends."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CUT_NUMBER = re.compile(r"\d\.$")
_OPEN = frozenset("=:,;|/([{<\"'-.#@&?")


class Ending(NamedTuple):
    """How the last time of a record is printed.

    `width`: its decimals, or minus the digits of a whole number. `at_end`: it ends the text and may be cut.
    """

    width: int
    at_end: bool


class _Cut(NamedTuple):
    """A record that waits for its rest since record number `seen`; `sure`: it is cut beyond doubt."""

    record: Record
    seen: int
    sure: bool = True


EndingOf: TypeAlias = "Callable[[str], Ending | None]"


def width_of(number: str) -> int:
    """Return how many decimals a printed number has; for a whole number minus its digits."""
    digits, _, decimals = number.replace(",", ".").rpartition(".")
    return len(decimals) if digits or number.startswith(".") else -len(number)


def untangle(records: Iterable[Record], ending: EndingOf, remarks: Remarks) -> Iterator[Record]:
    """Yield records that belong to one rank each; `ending` says how the last time in a text is printed.

    Adds the note `interleaved_lines`, the note `truncated_tail` for a last line that was cut, and the error
    `torn_record` for a record whose rest was never found.
    """
    knot = _Knot(ending, remarks)
    for record in records:
        yield from knot.take(record)
    yield from knot.finish()


class _Knot:
    """What is known while the records go by: how they begin, how times are printed, which records are cut."""

    def __init__(self, ending: EndingOf, remarks: Remarks) -> None:
        self._ending = ending
        self._remarks = remarks
        self._starts: _Starts | None = None
        self._widths: set[int] = set()
        self._cut: deque[_Cut] = deque()
        self._seen = self._glued = self._timed = self._end_in_time = 0

    def take(self, record: Record) -> Iterator[Record]:
        """Yield what this record completes, and it itself unless it is the rest of a cut one."""
        self._seen += 1
        while self._cut and self._seen - self._cut[0].seen > WAIT_RECORDS:
            yield from self._give_up(self._cut.popleft())
        if self._starts is None and self._ending(record.text):
            self._starts = _Starts.learn(record.text)
        if self._cut and (joined := self._joined(record)):
            yield joined
            return
        parts = self._starts.split(record.text) if self._starts else [record.text]
        self._glued += len(parts) > 1
        for part in parts[:-1]:
            if self._starts and self._starts.begins(part):
                self._cut.append(_Cut(Record(part, record.line), self._seen))
            else:
                yield Record(part, record.line)
        yield from self._whole(record._replace(text=parts[-1]))

    def finish(self) -> Iterator[Record]:
        """Yield the cut records that are whole all the same, and say what was found."""
        for cut in self._cut:
            yield from self._give_up(cut)
        if self._glued:
            text = f"{self._glued} lines hold records of several ranks; they were taken apart"
            self._remarks.note("interleaved_lines", text)

    def _whole(self, record: Record) -> Iterator[Record]:
        how = self._ending(record.text)
        if how and how.at_end and not record.ended and not record.goes_on and not self._long_enough(how):
            shown = shorten(record.text[-80:])
            self._remarks.note("truncated_tail", f"the last line has no end, its time may be cut: `{shown}`")
            return
        if how and record.ended and self._looks_cut(how, record.text):
            self._cut.append(_Cut(record, self._seen, sure=not self._end_in_time))
            return
        if how:
            self._widths.add(how.width)
            self._timed += 1
            self._end_in_time += how.at_end
        yield record

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

    def _joined(self, record: Record) -> Record | None:
        """Join a record that begins like none with the one cut record that it completes."""
        if self._starts and self._starts.begins(record.text):
            return None
        fitting = [cut for cut in self._cut if self._completes(cut, record.text)]
        if not fitting or (len(fitting) > 1 and record.text.strip()):
            return None
        self._cut.remove(fitting[0])
        return fitting[0].record._replace(text=fitting[0].record.text + record.text)

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

    def _give_up(self, cut: _Cut) -> Iterator[Record]:
        """Yield a cut record whose rest did not come, if its time is whole all the same."""
        record, how = cut.record, self._ending(cut.record.text)
        if how and not cut.sure:  # times are printed shorter where they end in zeros
            self._widths.add(how.width)
        if how and (not cut.sure or not how.at_end or self._widths == {how.width}):
            yield record
        else:
            why = "another rank wrote into it and its rest is not there"
            self._remarks.error("torn_record", record.line, record.text, why)


class _Starts:
    """Where records begin, learned from one of them."""

    def __init__(self, pattern: re.Pattern[str], words: set[str]) -> None:
        self.pattern = pattern
        self.words = words

    @classmethod
    def learn(cls, text: str) -> _Starts | None:
        """Learn from a record how records begin: with a date, or with the same first word."""
        words = set(_WORD.findall(text))
        if _DATE.match(text.lstrip()):
            return cls(_DATE, words)
        first = re.match(r"\s*([^\s=:]+(?:\s?[=:]|(?=\s)))", text)
        if not first or not re.search(r"[A-Za-z]{2}", first[1]):
            return None
        token = re.sub(r"\d+", r"\\d+", re.escape(first[1]))
        return cls(re.compile(token if first[1][-1] in "=:]" else token + r"\b"), words)

    def begins(self, text: str) -> bool:
        return bool(self.pattern.match(text.lstrip()))

    def fit(self, cut: str, rest: str) -> bool:
        """Whether the word that a rest goes on with is one that records have."""
        joint = re.search(r"[A-Za-z_]\w*$", cut)
        return joint is None or (_WORD.match(joint[0] + rest) or [""])[0] in self.words

    def split(self, text: str) -> list[str]:
        """Cut a line where a record begins in the middle of it, without a space before."""
        cuts = [0, *(m.start() for m in self.pattern.finditer(text) if self._glued(text, m)), len(text)]
        return [text[a:b] for a, b in pairwise(cuts)]

    def _glued(self, text: str, match: re.Match[str]) -> bool:
        start = match.start()
        if start == 0 or text[start - 1].isspace():
            return False
        if text[start - 1] in _OPEN:
            return bool(_CUT_NUMBER.search(text[:start]))
        if not (text[start - 1].isalpha() or text[start - 1] == "_") or not match[0][0].isalpha():
            return True
        word = re.search(r"\w+$", text[:start])
        whole = (word[0] if word else "") + (_WORD.match(match[0]) or [""])[0]
        return whole not in self.words and whole.split("_")[0] not in {"local", "node", "global", "group"}
