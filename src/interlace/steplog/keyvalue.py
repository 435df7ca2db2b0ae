"""Reader `keyvalue`: `step=1 step_s=0.5`, `step: 3 ... step_time: 0.31 s`, with ranks, several on a line.

Which clock and which ranks a value covers the log does not say; its resolution is what is printed. Only
keys that can mean nothing but a step's time are read: they carry their unit in the name (`step_ms`, `time
per step (ms)`) or behind the value (`step_time: 310 ms`). A key without any unit is read only when the user
asks for this reader by name, or states the unit. Rates, learning rates, times of parts and of validation
are never step times.
"""

from __future__ import annotations

import bisect
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.dates import unix_s_in
from interlace.steplog.interleaved import Ending, untangle, width_of
from interlace.steplog.keys import NOT_TRAINING, STEP_KEYS, TimeKey, is_count, normal, time_key
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import NUMBER, UNITS, parse_count, parse_duration, parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from interlace.steplog.text import Record

KEPT_CHARS = 4096
_STEP_WORDS = "|".join(sorted((re.escape(key) for key in STEP_KEYS if key != "_step"), key=len, reverse=True))
_STEP = re.compile(
    r"(?<![\w./])(?<!per )(?<!total )(?<!max )(?<!warmup )(?<!last )(?<!every )(?:train/)?"
    rf"(?P<key>{_STEP_WORDS})[\"']?(?:\s*[=:#]\s*|\s+)[\"']?"
    r"(?P<number>\d+(?:[,_]\d{3})*(?:\.\d+)?[kKMB]?)(?!\w|\.\d|%)",
    re.IGNORECASE,
)
_RANK = re.compile(
    r"(?:^\s*|(?<=\s))\[(?:default|rank|train|trainer|worker)\s?_?(?P<a>\d+)\]"
    r"|(?<![\w./])(?:global_)?rank[\"']?\s*[=:# ]\s*(?P<b>\d+)(?![\w.])",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?<![\w./\-])(?P<key>(?:\w+/)*[A-Za-zµ]\w*(?:[ /\-](?:time|duration|per|step|iteration|iter|it)\b){0,3}"
    r"(?:\s?[(\[]\w+[)\]])?)(?:[\"']?\s*[=:]\s*[\"']?|\s+(?=\.?\d))",
)
_VALUE = re.compile(rf"(?P<number>{NUMBER})(?P<unit>\s?{UNITS}(?![\w=:]))?(?![\w%]|[.,]\d)", re.IGNORECASE)
_NO_VALUE = re.compile(r"(?:n/?a|none|null|-+|\?+)(?![\w.])", re.IGNORECASE)
_PAIR = re.compile(
    rf"(?<![\w./])(?P<key>[A-Za-z_]\w*)[\"']?\s*[=:]\s*[\"']?(?P<number>{NUMBER})(?![\w:/%]|[.,]\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?<![\w./])epoch\s*[:=\[\s]\s*[\[(]?\s*(\d+)(?![\w.])", re.IGNORECASE)
_ANY_TIME = re.compile(r"step|iter|batch|(?:/|per[_ ])it[\s=:\"']", re.IGNORECASE)
_SPLIT = re.compile(
    rf"(?<![\w./])(?:mode|phase|split|stage)[\"']?\s*[=:]\s*[\"']?(?:{'|'.join(NOT_TRAINING)})\b",
    re.IGNORECASE,
)
_VALIDATING = re.compile(
    r"(?<![\w./=])(?:val|valid|validation|eval|evaluate|evaluation|evaluating)(?![\w./=])|\btest(?:ing)?[\]:]",
    re.IGNORECASE,
)
_WORLD = re.compile(r"(?<![\w.])(?:world_size|WORLD_SIZE|num_processes)[\"']?\s*[=:]\s*(\d+)")


class _Token(NamedTuple):
    start: int
    kind: str
    key: str
    text: str
    end: int
    unit: TimeKey | None = None


class _Found(NamedTuple):
    """One record in a text: where it starts and its tokens by kind."""

    start: int
    tokens: dict[str, _Token]


class KeyValueReader:
    """The reader; may begin anywhere in a log."""

    name = "keyvalue"
    anywhere = True

    def recognise(self, head: str) -> str | None:
        """Recognise a key that states a step's time with its unit, next to a number."""
        for line in head.split("\n"):
            for token in _times(line, named=False):
                return f"`{token.key}` with its unit, in records like `{shorten(line[token.start :], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every record of every line; ranks glued into one line are taken apart first."""
        named = options.named or options.unit != "s"
        state = _State(options, Remarks())
        carried = ""
        for record in untangle(records, lambda text: _ending(text, named=named), state.remarks):
            text = carried + record.text
            carried = ""
            if state.is_other(text):
                continue
            found = list(_records(text, named=named))
            if record.goes_on and found:
                carried = text[found[-1].start :][-KEPT_CHARS:]
                text, found = text[: found[-1].start], found[:-1]
            # What stands before the first record (a date, the epoch, the loss) belongs to it.
            starts = [0, *(f.start for f in found[1:]), len(text)]
            for n, this in enumerate(found):
                state.add(this, text[starts[n] : starts[n + 1]], record)
        return state.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps of a record."""
        named = options.named or options.unit != "s"

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            if _is_validation(text):
                return []
            found = _records(text, named=named)
            return [(_rank(f.tokens), _step(f.tokens)) for f in found if "time" in f.tokens]

        return steps_in


def without_unit(head: str) -> str | None:
    """Return the first step time that was seen but not taken, because nothing states its unit."""
    for line in head.split("\n"):
        for token in _times(line, named=True):
            return shorten(line[token.start : token.end], 40)
    return None


class _State:
    """What is gathered while the records go by."""

    def __init__(self, options: Options, remarks: Remarks) -> None:
        self.options = options
        self.remarks = remarks
        self.rows: list[Row] = []
        self.first = self.last = ""
        self.world_size: int | None = None
        self.bare: str | None = None
        self.not_training = self.without_value = self.rounded = 0

    def is_other(self, text: str) -> bool:
        """Whether a line is of no interest: no time in it, or one of validation."""
        if self.world_size is None and (match := _WORLD.search(text)):
            self.world_size = int(match[1])
        if not _ANY_TIME.search(text):
            return True
        if _is_validation(text):
            self.not_training += 1
            return True
        return False

    def add(self, found: _Found, text: str, record: Record) -> None:
        """Take one record in."""
        time = found.tokens.get("time")
        if time is None:
            return
        if _NO_VALUE.fullmatch(time.text):
            self.without_value += 1
            return
        unit = (time.unit and time.unit.unit) or self.options.unit
        number = parse_duration(time.text, unit)
        if number.value is None:
            self.remarks.error(str(number.warning), record.line, text, f"`{time.text}` cannot be read as a time")
            return
        if time.unit and time.unit.unit is None and not _has_unit(time.text):
            self.bare = time.key
        step_token = found.tokens.get("step")
        step = _step(found.tokens)
        self.rounded += step_token is not None and step is None
        extra = _extras(text, {t.key for t in found.tokens.values()})
        self.rows.append(Row(step, number.value, _rank(found.tokens), extra=extra or None, line=record.line))
        self.first, self.last = self.first or record.text, record.text

    def parsed(self) -> Parsed:
        """Return the rows and what has to be said about them."""
        note = self.remarks.note
        if self.bare:
            note("unit_assumed", f"`{self.bare}` has no unit: taken as {self.options.unit}, as asked")
        if self.not_training:
            note("validation_rows", f"{self.not_training} lines of validation or test were left out")
        if self.without_value:
            note("no_value", f"{self.without_value} records have no value for the step time and were ignored")
        if self.rounded and all(row.step is None for row in self.rows):
            note("rounded_steps", "step numbers are abbreviated (as in 1K) and were not used")
        if self.rows and max(row.rank for row in self.rows) < 0:
            note(
                "rank_unknown",
                "the log does not say which rank a time is from, nor whether it is the slowest",
            )
        started, finished = unix_s_in(self.first), unix_s_in(self.last)
        return Parsed(self.rows, self.remarks, self.world_size, started_at=started, finished_at=finished)


def _is_validation(text: str) -> bool:
    """Whether a time in this text is one of validation: so marked by a key, or by a word in front of it."""
    first = next(_times(text, named=True), None)
    return first is not None and bool(_SPLIT.search(text) or _VALIDATING.search(text, 0, first.start))


@lru_cache(maxsize=1024)
def _time_key(name: str) -> TimeKey | None:
    return time_key(name)


def _times(text: str, *, named: bool) -> Iterator[_Token]:
    """Yield what states a step time; `named`: also keys without any unit."""
    if not _ANY_TIME.search(text):
        return
    for match in _KEY.finditer(text):
        key = _time_key(match["key"])
        if key is None:
            continue
        value = _VALUE.match(text, match.end()) or _NO_VALUE.match(text, match.end())
        shown = value[0] if value else _rest(text, match.end())
        if key.unit or named or (value and _has_unit(shown)):
            yield _Token(match.start(), "time", match["key"], shown, match.end() + len(shown), key)


def _rest(text: str, start: int) -> str:
    """Return what stands where a value should, up to the next space."""
    return (text[start:].split(maxsplit=1) or [""])[0][:40]


def _has_unit(shown: str) -> bool:
    match = _VALUE.fullmatch(shown)
    return bool(match and match["unit"])


def _tokens(text: str, *, named: bool) -> list[_Token]:
    times = list(_times(text, named=named))
    # "time per step: 310 ms" is no step 310.
    starts = [t.start for t in times]
    steps = [m for m in _STEP.finditer(text) if not _inside(m.start(), times, starts)]
    numbered = [_Token(m.start(), "step", m["key"], m["number"], m.end()) for m in steps]
    return sorted([*times, *numbered, *map(_rank_token, _RANK.finditer(text))])


def _inside(at: int, times: list[_Token], starts: list[int]) -> bool:
    n = bisect.bisect_right(starts, at)
    return n > 0 and at < times[n - 1].end


def _rank_token(match: re.Match[str]) -> _Token:
    key = "[rank]" if match["a"] else "rank"
    return _Token(match.start(), "rank", key, match["a"] or match["b"], match.end())


def _records(text: str, *, named: bool) -> Iterator[_Found]:
    """Group tokens into records: one begins where a record that has its time would get the same key again."""
    current: dict[str, _Token] = {}
    start = 0
    for token in _tokens(text, named=named):
        if not current:
            start = token.start
        there = current.get(token.kind)
        if there is None:
            current[token.kind] = token
        elif "time" in current and token.key == there.key:
            yield _Found(start, current)
            current, start = {token.kind: token}, token.start
        elif token.kind == "step" and _order(token) < _order(there):
            current["step"] = token
    if current:
        yield _Found(start, current)


def _order(token: _Token) -> int:
    """Rank of a counter: the global ones come first."""
    return STEP_KEYS.index(normal(token.key))


def _step(tokens: dict[str, _Token]) -> int | None:
    token = tokens.get("step")
    number = parse_count(token.text) if token else None
    return None if number is None or number.value is None or number.rounded else int(number.value)


def _rank(tokens: dict[str, _Token]) -> int:
    return int(tokens["rank"].text) if "rank" in tokens else -1


def _extras(text: str, taken: set[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    if epoch := _EPOCH.search(text):
        found["epoch"] = float(epoch[1])
    for match in _PAIR.finditer(text):
        key = match["key"]
        if key in taken or key.lower() in {"rank", *STEP_KEYS} or key in found:
            continue
        value = parse_number(match["number"], count=is_count(key)).value
        if value is not None:
            found[key] = value
    return found


def _ending(text: str, *, named: bool) -> Ending | None:
    """Say how the last readable time in a text is printed."""
    last = None
    for token in _times(text, named=named):
        last = token if _VALUE.fullmatch(token.text) else last
    if last is None:
        return None
    match = _VALUE.fullmatch(last.text)
    number = match["number"] if match else last.text
    return Ending(width_of(number), last.end == len(text) and not _has_unit(last.text))


READER = KeyValueReader()
