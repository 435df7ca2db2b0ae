"""Reader `pattern`: the user's own regular expression.

Named groups: `step_s` (in `unit`), or `step_ms`, `step_us`; or a cumulative clock `end_s` (in `unit`),
`end_ms`; optional `step` and `rank`; every other named group that holds a number becomes a column. All
matches of a line count, not only the first.

Clock: the user knows.
Includes: the user knows.
Ranks: as the group `rank` says, else not known.
Resolution: what is printed.
Lost: what the pattern does not match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.steplog.dates import unix_s_in
from interlace.steplog.facts import facts_in
from interlace.steplog.interleaved import Ending, untangle, width_of
from interlace.steplog.model import Options, Parsed, Remarks, Row, Unit
from interlace.steplog.numbers import parse_count, parse_duration, parse_number
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
TIME_GROUPS: dict[str, Unit | None] = {"step_s": None, "step_ms": "ms", "step_us": "us"}
CLOCK_GROUPS: dict[str, Unit | None] = {"end_s": None, "end_ms": "ms"}
KEPT_CHARS = 4096
_KNOWN = {*TIME_GROUPS, *CLOCK_GROUPS, "step", "rank"}


class PatternReader:
    """The reader; never recognised by itself, only used when there is a pattern."""

    name = "pattern"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Return None: a pattern is given, not guessed."""
        del head
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every match of the pattern."""
        pattern = compiled(options.pattern)
        remarks = Remarks()
        rows: list[Row] = []
        first = last = ""
        carried = ""
        for record in untangle(records, lambda text: _ending(pattern, text), remarks):
            text = carried + record.text
            carried = ""
            matches = list(pattern.finditer(text))
            if record.goes_on:
                done = matches[-2].end() if len(matches) > 1 else 0
                matches, carried = matches[:-1], text[done:][-KEPT_CHARS:]
            for match in matches:
                rows += _row(match, record, options, remarks)
                first, last = first or record.text, record.text
        return Parsed(rows, remarks, started_at=unix_s_in(first), finished_at=unix_s_in(last))

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the ranks and steps matched in a record."""
        pattern = compiled(options.pattern)

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            return [(_rank(match), _step(match)) for match in pattern.finditer(text)]

        return steps_in


def compiled(pattern: str | None) -> re.Pattern[str]:
    """Compile a user's pattern. Raises UsageError when it is missing, broken, or names no time."""
    if not pattern:
        raise UsageError("reader=pattern needs a pattern, as in pattern='step_s=(?P<step_s>[0-9.]+)'")
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"pattern='{pattern}' is no regular expression: {error}") from error
    if not {*TIME_GROUPS, *CLOCK_GROUPS} & set(found.groupindex):
        raise UsageError(
            f"pattern='{pattern}' has no group for the time: name it (?P<step_s>...), (?P<step_ms>...),"
            " (?P<step_us>...) or, for a cumulative clock, (?P<end_s>...)"
        )
    return found


def _row(match: re.Match[str], record: Record, options: Options, remarks: Remarks) -> list[Row]:
    values: dict[str, float] = {}
    if LOST in match[0]:
        remarks.error("torn_record", record.line, match[0], "bytes of it are lost")
        return []
    for name, own_unit in (*TIME_GROUPS.items(), *CLOCK_GROUPS.items()):
        text = match.groupdict().get(name)
        if text is None:
            continue
        number = parse_duration(text, own_unit or options.unit)
        if number.value is None:
            remarks.error(str(number.warning), record.line, match[0], f"`{text}` cannot be read as a time")
            return []
        values["end_s" if name in CLOCK_GROUPS else "step_s"] = number.value
    if not values:
        return []
    others = {n: parse_number(t).value for n, t in match.groupdict().items() if n not in _KNOWN and t}
    extra = {name: value for name, value in others.items() if value is not None}
    nan = float("nan")
    return [
        Row(
            step=_step(match),
            step_s=values.get("step_s", nan),
            rank=_rank(match),
            end_s=values.get("end_s", nan),
            extra=extra or None,
            line=record.line,
        )
    ]


def _step(match: re.Match[str]) -> int | None:
    number = parse_count(match.groupdict().get("step") or "")
    return None if number.value is None or number.rounded or not number.value.is_integer() else int(number.value)


def _rank(match: re.Match[str]) -> int:
    text = match.groupdict().get("rank") or ""
    return int(text) if text.isdigit() else -1


def _ending(pattern: re.Pattern[str], text: str) -> Ending | None:
    matches = list(pattern.finditer(text))
    if not matches:
        return None
    last = matches[-1]
    group = next((g for g in (*TIME_GROUPS, *CLOCK_GROUPS) if last.groupdict().get(g) is not None), None)
    return Ending(width_of(last[group]), last.end(group) == len(text)) if group else None


READER = PatternReader()
