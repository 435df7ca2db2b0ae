"""The only place that takes apart what several ranks wrote into one line. Pure.

Ranks share a pipe, so a record can begin in the middle of a line (the newline of the one before comes later) and a
value can be cut in two, its rest standing on a line of its own:

    rank=0 step=3 step_s=0.40rank=1 step=3 step_s=0.410
    0

What a record begins with is learned from the first one. A cut record is joined with its rest only where the result
reads like the other records; a value that may be cut is an error, never a number.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.text import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.model import Remarks

WAIT_RECORDS = 8
"""How many records later the rest of a cut one may come."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OPEN = frozenset("=:,;|/([{<\"'-.#@&?")


class Ending(NamedTuple):
    """How the last time of a record is printed: `width` (decimals, or minus the number of digits of a whole
    number), and whether it stands at the very end, where it may be cut.
    """

    width: int
    at_end: bool


def width_of(number: str) -> int:
    """Return how many decimals a printed number has; for a whole number minus its digits."""
    digits, _, decimals = number.replace(",", ".").rpartition(".")
    return len(decimals) if digits or number.startswith(".") else -len(number)


class _Widths:
    """The widths of times that are known to be whole."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def looks_whole(self, width: int) -> bool:
        """Whether a time of this width, at the end of a cut text, can be taken as whole."""
        if self.fixed or not self.seen:
            return not self.seen or width in self.seen
        return 0 < width >= max(self.seen)

    @property
    def fixed(self) -> bool:
        return len(self.seen) == 1


def untangle(
    records: Iterable[Record], ending: Callable[[str], Ending | None], remarks: Remarks
) -> Iterator[Record]:
    """Yield records that belong to one rank each; `ending` says how a record's last time is printed, if it has one.

    Adds the note `interleaved_lines`, the note `truncated_tail` for a last line that was cut, and the error
    `torn_record` for a record whose rest was never found.
    """
    widths = _Widths()
    pending: deque[tuple[Record, int]] = deque()
    starts: _Starts | None = None
    glued = 0
    for n, record in enumerate(records):
        while pending and (n - pending[0][1] > WAIT_RECORDS):
            yield from _give_up(pending.popleft()[0], ending, widths, remarks)
        if starts is None and ending(record.text):
            starts = _Starts.learn(record.text)
        if pending and (joined := _joined(pending, record, ending, widths, starts)):
            yield joined
            continue
        parts = starts.split(record.text) if starts else [record.text]
        glued += len(parts) > 1
        for part in parts[:-1]:
            if starts and starts.begins(part):
                pending.append((Record(part, record.line), n))
            else:
                yield Record(part, record.line)
        last = record._replace(text=parts[-1])
        how = ending(last.text)
        if how and not record.ended and not record.goes_on and not _whole(how, widths):
            remarks.note("truncated_tail", f"the last line has no end, its time may be cut: `{last.text[-80:]}`")
            continue
        if how:
            widths.seen.add(how.width)
        yield last
    for record, _ in pending:
        yield from _give_up(record, ending, widths, remarks)
    if glued:
        remarks.note("interleaved_lines", f"{glued} lines hold records of several ranks; they were taken apart")


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

    def split(self, text: str) -> list[str]:
        """Cut a line where a record begins in the middle of it, without a space before."""
        cuts = [0, *(m.start() for m in self.pattern.finditer(text) if self._glued(text, m)), len(text)]
        return [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]

    def _glued(self, text: str, match: re.Match[str]) -> bool:
        start = match.start()
        if start == 0 or text[start - 1].isspace() or text[start - 1] in _OPEN:
            return False
        if not (text[start - 1].isalpha() or text[start - 1] == "_"):
            return True
        word = re.search(r"\w+$", text[:start])
        whole = (word[0] if word else "") + (_WORD.match(match[0]) or [""])[0]
        return whole not in self.words and whole.split("_")[0] not in {"local", "node", "global", "group"}


def _joined(
    pending: deque[tuple[Record, int]],
    record: Record,
    ending: Callable[[str], Ending | None],
    widths: _Widths,
    starts: _Starts | None,
) -> Record | None:
    """Join a record that begins like none with the one cut record that it completes, if there is just one."""
    if starts and starts.begins(record.text):
        return None
    fitting = []
    for item in pending:
        text = item[0].text + record.text
        how = ending(text)
        if how and _completes(item[0].text, record.text, how, ending, widths):
            fitting.append((item, text))
    if not fitting or (len(fitting) > 1 and record.text.strip()):
        return None
    item, text = fitting[0]
    pending.remove(item)
    return item[0]._replace(text=text)


def _completes(
    cut: str, rest: str, how: Ending, ending: Callable[[str], Ending | None], widths: _Widths
) -> bool:
    before = ending(cut)
    if before is None or not before.at_end:
        return True
    if widths.fixed:
        return how.width in widths.seen
    return rest.strip().isdecimal() or not rest.strip()


def _whole(how: Ending, widths: _Widths) -> bool:
    return not how.at_end or widths.looks_whole(how.width)


def _give_up(
    record: Record, ending: Callable[[str], Ending | None], widths: _Widths, remarks: Remarks
) -> Iterator[Record]:
    """Yield a cut record whose rest did not come, if its time is whole all the same."""
    how = ending(record.text)
    if how and not how.at_end:
        yield record
    elif how and widths.fixed and how.width in widths.seen:
        yield record
    else:
        remarks.error("torn_record", record.line, record.text, "another rank wrote into it and its rest is not there")
