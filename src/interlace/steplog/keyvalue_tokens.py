"""The only place that finds steps, ranks and step times in free text (`step=1 step_s=0.5`). Pure.

A token is one of them with its place in the text; a found record is a group of tokens that belong together.
"""

from __future__ import annotations

import bisect
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.keys import NOT_TRAINING, RANK_WORDS, STEP_KEYS, TimeKey, is_count, normal, time_key
from interlace.steplog.numbers import NUMBER, UNITS, parse_count, parse_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP_WORDS = "|".join(sorted((re.escape(key) for key in STEP_KEYS if key != "step_of"), key=len, reverse=True))
_STEP = re.compile(
    r"(?<![\w./])(?<!per )(?<!total )(?<!max )(?<!warmup )(?<!last )(?<!every )(?:train/)?"
    rf"(?P<key>{_STEP_WORDS})[\"']?(?:\s*[=:#]\s*|(?<!s)\s+|(?=\[))[\"'\[]?\s*"
    r"(?P<number>\d{1,3}(?: \d{3})+(?![\w%/:.])|\d+(?:[,_]\d{3})*(?:\.\d+)?[kKMB]?)(?!\w|[.-]\d|%)",
    re.IGNORECASE,
)
_RANK = re.compile(
    rf"(?<![A-Za-z_])\[(?:{RANK_WORDS})\s?_?(?P<a>\d+)\](?P<prefix>:)?"
    r"|(?<![\w./])(?:global_)?rank[\"']?\s*[=:# ]\s*(?P<b>\d+)(?![\w.])",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?<![\w./\-])(?P<key>(?:\w+/)*[A-Za-zµ]\w*(?:[ /\-](?:time|duration|per|step|iteration|iter|it)\b){0,3}"
    r"(?:\s?[(\[]\w+[)\]])?)(?:[\"']?\s*[=:]\s*[\"']?|\s+(?=\.?\d))",
)
VALUE = re.compile(
    rf"(?!\d{{1,3}} \d{{3}}(?![\w%/:=])|0\d)(?P<number>{NUMBER})"
    rf"(?:(?P<unit>\s?{UNITS}(?![\w=:]))|(?! ?[\x00-\x08\x0e-\x1f\x7f\ufffd]))"
    r"(?![\w%]|[.,:/-]\d|\.[A-Za-z]|\[[a-z]+\d)",
    re.IGNORECASE,
)
"""A number with its unit. `1 234` is refused, it may be thousands; so are `09`, a range, and one beside lost bytes."""
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+\S*|\S+ ?[\x00-\x08\x0e-\x1f\x7f\ufffd]\S*")
NO_VALUE = re.compile(r"(?:n/?a|none|null|-+|\?+)(?![\w.])", re.IGNORECASE)
_PAIR = re.compile(
    rf"(?<![\w./])(?P<key>[A-Za-z_]\w*(?:/\w+)*)[\"']?\s*[=:]\s*[\"']?(?P<number>{NUMBER})(?![\w:/%]|[.,]\d)",
    re.IGNORECASE,
)
_NO_EXTRA = frozenset({"rank", *STEP_KEYS})
_EPOCH = re.compile(r"(?<![\w./])epoch\s*[:=\[\s]\s*[\[(]?\s*(\d+)(?![\w.])", re.IGNORECASE)
ANY_TIME = re.compile(r"step|iter|batch|(?:/|per[_ ])it[\s=:\"']", re.IGNORECASE)
_SPLIT = re.compile(
    rf"(?<![\w./])(?:mode|phase|split|stage)[\"']?\s*[=:]\s*[\"']?(?:{'|'.join(NOT_TRAINING)})\b",
    re.IGNORECASE,
)
_VALIDATING = re.compile(
    r"(?<![\w./=])(?:(?:val|valid|validation|eval|evaluate|evaluation|evaluating)(?![\w./=])|test(?:ing)?[\]:]"
    r"|(?:test(?:ing)?|infer(?:ence|ring)?|predict(?:ing|ion)?)\]?:?\s+[\[(]?(?:iter|step|batch|epoch|\d))",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"\d{1,3}(?:[. ]\d{3})+")


PREFIX = "[rank]:"
"""What a launcher puts in front of all that a rank prints."""


class Token(NamedTuple):
    """A step, rank or time: where it begins and ends, its key and value as printed."""

    start: int
    kind: str
    key: str
    text: str
    end: int
    unit: TimeKey | None = None


class Found(NamedTuple):
    """One record in a text: where it starts and its tokens by kind.

    `mixed`: another value of its step or rank stands in front of its time.
    """

    start: int
    tokens: dict[str, Token]
    mixed: bool = False


def is_validation(text: str) -> bool:
    """Whether a time in this text is one of validation: so marked by a key, or by a word in front of it."""
    times = times_in(text, named=True)
    return bool(times and (_SPLIT.search(text) or _VALIDATING.search(text, 0, times[0].start)))


@lru_cache(maxsize=1024)
def _time_key(name: str) -> TimeKey | None:
    return time_key(name)


@lru_cache(maxsize=16)  # asked several times about each record on its way through
def times_in(text: str, *, named: bool) -> tuple[Token, ...]:
    """Return what states a step time; `named`: also keys without any unit."""
    if not ANY_TIME.search(text):
        return ()
    return tuple(_time_tokens(text, named=named))


def _time_tokens(text: str, *, named: bool) -> Iterator[Token]:
    for match in _KEY.finditer(text):
        key = _time_key(match["key"])
        if key is None:
            continue
        value = VALUE.match(text, match.end()) or NO_VALUE.match(text, match.end())
        shown = value[0] if value else _rest(text, match.end())
        # A value that begins like a number and is none (`1m30s`) is for the reader to refuse aloud.
        if key.unit or named or (has_unit(shown) if value else shown[:1].isdigit()):
            yield Token(match.start(), "time", match["key"], shown, match.end() + len(shown), key)


def _rest(text: str, start: int) -> str:
    """Return what stands where a value should, up to the next space."""
    if spaced := _SPACED.match(text, start):
        return spaced[0]
    return (text[start:].split(maxsplit=1) or [""])[0][:40]


def has_unit(shown: str) -> bool:
    """Whether a printed value ends in its unit."""
    match = VALUE.fullmatch(shown)
    return bool(match and match["unit"])


def _tokens(text: str, *, named: bool) -> list[Token]:
    times = times_in(text, named=named)
    # "time per step: 310 ms" is no step 310.
    starts = [t.start for t in times]
    steps = [m for m in _STEP.finditer(text) if not _inside(m.start(), times, starts)]
    numbered = [Token(m.start(), "step", m["key"], m["number"], m.end()) for m in steps]
    return sorted([*times, *numbered, *map(_rank_token, _RANK.finditer(text))])


def _inside(at: int, times: tuple[Token, ...], starts: list[int]) -> bool:
    n = bisect.bisect_right(starts, at)
    return n > 0 and at < times[n - 1].end


def _rank_token(match: re.Match[str]) -> Token:
    key = (PREFIX if match["prefix"] else "[rank]") if match["a"] else "rank"
    return Token(match.start(), "rank", key, match["a"] or match["b"], match.end())


def records_in(text: str, *, named: bool) -> Iterator[Found]:
    """Group tokens into records: one begins where a record that has its time would get the same key again."""
    current: dict[str, Token] = {}
    start = 0
    mixed = False
    for token in _tokens(text, named=named):
        if "time" in current and token.key == PREFIX:
            yield Found(start, current, mixed)
            current = {}
        if not current:
            start, mixed = token.start, False
        there = current.get(token.kind)
        if there is None:
            current[token.kind] = token
        elif "time" in current and token.key == there.key:
            yield Found(start, current, mixed)
            current, start, mixed = {token.kind: token}, token.start, False
        elif "time" not in current and token.key == there.key:
            mixed = mixed or token.text != there.text
        elif token.kind == "step" and _order(token) < _order(there):
            current["step"] = token
    if current:
        yield Found(start, current, mixed)


def _order(token: Token) -> int:
    """Rank of a counter: the global ones come first."""
    return STEP_KEYS.index(normal(token.key))


def step_of(tokens: dict[str, Token]) -> int | None:
    """Return the step number of a record; None without one, or where it is abbreviated or no whole number."""
    token = tokens.get("step")
    if token and token.text.isdecimal():
        return int(token.text)
    number = parse_count(token.text) if token else None
    if number is None or number.value is None or number.rounded or not number.value.is_integer():
        return None
    return int(number.value)


def is_odd_step(text: str) -> bool:
    """Whether a printed step is no whole number, or may be another (`1.234`, `1.000`, `1 000`)."""
    if text.isdecimal():
        return False
    value = parse_count(text).value
    return value is None or not value.is_integer() or bool(_GROUPS.fullmatch(text))


def rank_of(tokens: dict[str, Token]) -> int:
    """Return the rank of a record, -1 where it is not said."""
    return int(tokens["rank"].text) if "rank" in tokens else -1


def extras_in(text: str, taken: set[str]) -> dict[str, float]:
    """Return every further `key=number` of a record's text."""
    found: dict[str, float] = {}
    if epoch := _EPOCH.search(text):
        found["epoch"] = float(epoch[1])
    for match in _PAIR.finditer(text):
        key = match["key"]
        if key in taken or key.lower().removeprefix("train/") in _NO_EXTRA or key in found:
            continue
        value = parse_number(match["number"], count=is_count(key)).value
        if value is not None:
            found[key] = value
    return found
