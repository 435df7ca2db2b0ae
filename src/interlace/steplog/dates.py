"""The only place that reads wall-clock dates out of logs. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DATE = re.compile(
    r"(?P<day>\d{4}(?P<mark>[-/])\d\d(?P=mark)\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,6}))?\d*"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_UNIX_S = (1e9, 4e9)


def unix_s_in(text: str) -> float | None:
    """Return the first date in `text` as unix seconds, UTC without a zone. None without a date."""
    match = _DATE.search(text)
    if not match:
        return None
    part = (match["part"] or "").ljust(6, "0")
    zone = (match["zone"] or "Z").replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(f"{match['day'].replace('/', '-')}T{match['time']}.{part}{zone}").timestamp()
    except ValueError:
        return None


def unix_s_of(value: object) -> float | None:
    """Return a timestamp (unix seconds or milliseconds, or a date as text) as unix seconds, else None."""
    if isinstance(value, str):
        return unix_s_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for scale in (1.0, 1e3):
        if _UNIX_S[0] <= value / scale <= _UNIX_S[1]:
            return float(value) / scale
    return None


def iso(unix_s: float) -> str:
    """Return unix seconds as `2026-11-29 16:49:45`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
