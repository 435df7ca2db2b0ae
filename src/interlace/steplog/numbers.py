"""The only place that reads numbers as logs of the field print them. Pure.

A comma is a thousands mark, a decimal mark, or unreadable: `0,412` and `12,5` can only be decimals, `1,234`
of a duration can be either and is refused rather than guessed, `1,234` of a count is a thousand and more.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from interlace.steplog.model import PER_SECOND, Unit

AMBIGUOUS = "ambiguous_decimal_comma"
MALFORMED = "not_a_number"

_MARKS = "\u00a0\u202f\u2009'\u2019"
"""Spaces that do not break, and apostrophes: marks of thousands in some countries."""

NUMBER = (
    rf"(?:[+-]?(?:\d[\d_]*(?:[{_MARKS}]\d{{3}})*(?:[.,]\d+)*\.?|\.\d+)(?:[eE][+-]?\d+)?"
    r"|[+-]?(?:nan|inf(?:inity)?)\b)"
)
"""A regular expression (case ignored) of anything that `parse_number` may be asked about."""

_UNIT_NAMES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), (1.0, 1.0)),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), (1.0, 1e3)),
    **dict.fromkeys(
        ("us", "usec", "usecs", "µs", "μs", "microsecond", "microseconds"), (1.0, 1e6)
    ),  # both signs are in use
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), (1.0, 1e9)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), (60.0, 1.0)),
}
UNITS = "(?:" + "|".join(sorted(_UNIT_NAMES, key=len, reverse=True)) + ")"
"""A regular expression of every unit of time that is understood."""

_DURATION = re.compile(rf"\s*(?P<number>{NUMBER})\s*(?P<unit>{UNITS})?\s*", re.IGNORECASE)
_COUNT = re.compile(rf"\s*(?P<number>{NUMBER})\s*(?P<suffix>[kKMGTBb])?\s*", re.IGNORECASE)
_GROUPED = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?"),
}
_MARK = re.compile(rf"(?<=\d)[{_MARKS}](?=\d{{3}}(?!\d))")
_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_SCALE = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


class Number(NamedTuple):
    """A value, or None and the reason why there is none. `rounded`: printed with a suffix such as 1K."""

    value: float | None
    warning: str | None = None
    rounded: bool = False


def parse_number(text: str, *, count: bool = False) -> Number:
    """Read one number. `count`: the quantity is counted or summed, so a lone `1,234` means thousands."""
    try:
        return Number(float(text))
    except ValueError:
        plain = _MARK.sub("", text.strip())
        return _with_marks(plain, count=count) if "," in plain or plain.count(".") > 1 else _float(plain)


def parse_count(text: str) -> Number:
    """Read a count, also an abbreviated one: `1.5K` is 1500, rounded."""
    match = _COUNT.fullmatch(text)
    if not match:
        return Number(None, MALFORMED)
    number = parse_number(match["number"], count=True)
    if number.value is None or not match["suffix"]:
        return number
    return Number(number.value * _SCALE[match["suffix"].upper()], None, rounded=True)


def parse_duration(text: str, unit: Unit = "s") -> Number:
    """Read a duration in seconds. A unit printed behind the number (`410 ms`) counts more than `unit`."""
    match = _DURATION.fullmatch(text)
    if not match:
        return Number(None, MALFORMED)
    number = parse_number(match["number"])
    if number.value is None:
        return number
    if match["unit"]:
        times, divided_by = _UNIT_NAMES[match["unit"].lower()]
        return Number(_scaled(number.value, times, divided_by))
    return Number(_scaled(number.value, 1.0, PER_SECOND[unit]))


def _scaled(value: float, times: float, divided_by: float) -> float:
    # 15 digits: 312.4 ms is 0.3124 s, not 0.31239999999999996.
    return value if times == divided_by else float(f"{value * times / divided_by:.15g}")


def unit_named(name: str) -> Unit | None:
    """Return the unit that `name` (`sec`, `msec`) stands for, None when it is none of s, ms, us, ns."""
    times, divided_by = _UNIT_NAMES.get(name.lower(), (0.0, 0.0))
    found: dict[float, Unit] = {1.0: "s", 1e3: "ms", 1e6: "us", 1e9: "ns"}
    return found.get(divided_by) if times == 1.0 else None


def _with_marks(text: str, *, count: bool) -> Number:
    """Read a number with a comma or with several points."""
    if text.count(",") == 1 and "." not in text:
        if _THOUSAND.fullmatch(text):
            return Number(float(text.replace(",", ""))) if count else Number(None, AMBIGUOUS)
        return _float(text.replace(",", "."))
    first = min((text.index(mark), mark) for mark in ",." if mark in text)[1]
    if not _GROUPED[first].fullmatch(text):
        return Number(None, MALFORMED)
    return _float(text.replace(first, "").replace(",", "."))


def _float(text: str) -> Number:
    try:
        return Number(float(text))
    except ValueError:
        return Number(None, MALFORMED)
