"""Reader `interlace`: the per-rank log of `interlace.recorder` (format 1), one file or a folder of them.

Clock: perf_counter of each rank, never synchronised with the device; `end_s` is the recorder's cumulative clock.
Includes: everything from the end of one step to the end of the next, on the host.
Ranks: one a file; in a folder their clocks are set against each other by the wall clock of their start.
Resolution: a nanosecond.
Lost: up to half a second of steps at a kill.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.jsonl import NotJsonError, note_tail, values_of
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
FILES = "rank-*.jsonl"
KNOWN_FORMAT = 1


class InterlaceReader:
    """The reader; the file begins with the recorder's header."""

    name = "interlace"
    anywhere = False
    facts = FACTS
    end_marker = '{"end": true'

    def recognise(self, head: str) -> str | None:
        """Recognise the header line."""
        first = head.lstrip().split("\n", 1)[0]
        fields = _object(first)
        if fields is None or fields.get("interlace") != "steps":
            return None
        return f"the recorder's header, `{shorten(first, 60)}`"

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read one rank's file."""
        del options
        remarks = Remarks()
        header: dict[str, Any] = {}
        rows: list[Row] = []
        ended = False
        broken: Record | None = None
        for record in records:
            if not record.text.strip():
                continue
            if broken:
                remarks.error("corrupt_line", broken.line, broken.text)
                broken = None
            fields = _object(record.text)
            if fields is None:
                broken = record
            elif fields.get("interlace") == "steps":
                header = _checked(fields, record, remarks)
            elif fields.get("end") is True:
                ended = True
                _check_end(fields, rows, record, remarks)
            else:
                rows += _row(fields, header, record, remarks)
        if broken:
            note_tail(broken, remarks)
        if rows and not ended:
            remarks.note("no_end_marker", f"rank {rows[0].rank}: the recorder was not closed, the log may end early")
        start = _number(header.get("start_unix_s"))
        last = rows[-1].end_s if rows else math.nan
        finished = start + last if start is not None and math.isfinite(last) else None
        return Parsed(rows, remarks, _whole(header.get("world_size")), ended, start, finished, kind="single")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that says the step of a line; a file is one rank, so the rank is left out."""
        del options

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            step = _whole((_object(text) or {}).get("step"))
            return [] if step is None else [(-1, step)]

        return steps_in


def merged(logs: Sequence[tuple[str, Parsed]]) -> Parsed:
    """Put the logs of several ranks (file name, content) together, their clocks set to the first start."""
    remarks = Remarks()
    rows: list[Row] = []
    starts = [p.started_at for _, p in logs if p.started_at is not None]
    first = min(starts) if len(starts) == len(logs) else None
    for n, (name, parsed) in enumerate(sorted(logs, key=lambda log: log[1].started_at or 0.0)):
        later_s = (parsed.started_at or 0.0) - first if first is not None else 0.0
        rows += [row._replace(end_s=row.end_s + later_s, line=n) for row in parsed.rows]
        remarks.notes += parsed.remarks.notes
        remarks.errors += [f"{name}: {error}" for error in parsed.remarks.all_errors()]
    _note_shared_ranks(logs, remarks)
    worlds = {p.world_size for _, p in logs if p.world_size}
    if len(worlds) > 1:
        remarks.note("world_size_differs", f"the files state different world sizes: {sorted(worlds)}")
    finished = [p.finished_at for _, p in logs if p.finished_at is not None]
    return Parsed(
        rows,
        remarks,
        max(worlds) if worlds else None,
        all(parsed.ended for _, parsed in logs),
        first,
        max(finished) if finished else None,
        kind="single",
    )


def _note_shared_ranks(logs: Sequence[tuple[str, Parsed]], remarks: Remarks) -> None:
    """Report two processes that ran at the same time and both took themselves for one rank."""
    spans: dict[int, list[tuple[float, float, str]]] = {}
    for name, parsed in logs:
        if parsed.rows and parsed.started_at is not None and parsed.finished_at is not None:
            spans.setdefault(parsed.rows[0].rank, []).append((parsed.started_at, parsed.finished_at, name))
    for rank, found in spans.items():
        found.sort()
        for before, after in pairwise(found):
            if after[0] < before[1]:
                remarks.errors.append(
                    f"shared_rank: {before[2]} and {after[2]} were written at the same time, both as"
                    f" rank {rank}: RANK is not set in the trainers, or two runs share the folder"
                )


def _checked(fields: dict[str, Any], record: Record, remarks: Remarks) -> dict[str, Any]:
    if fields.get("format") != KNOWN_FORMAT:
        remarks.error("unknown_format", record.line, record.text, f"only format {KNOWN_FORMAT} is known")
    return fields


def _check_end(fields: dict[str, Any], rows: list[Row], record: Record, remarks: Remarks) -> None:
    if fields.get("steps") != len(rows):
        remarks.error("step_count", record.line, record.text, f"{len(rows)} steps are in the log")


def _row(fields: dict[str, Any], header: dict[str, Any], record: Record, remarks: Remarks) -> list[Row]:
    step, step_s, end_s = (
        _whole(fields.get("step")),
        _number(fields.get("step_s")),
        _number(fields.get("t_s")),
    )
    if step is None or step_s is None:
        remarks.error("corrupt_line", record.line, record.text, "no step or no step_s")
        return []
    extra = {f"phase.{name}": _number(value) for name, value in (fields.get("phases") or {}).items()}
    extra |= {"event.compiled": _number(fields.get("compiled"))}
    extra |= {k: _number(v) for k, v in fields.items() if k not in {"step", "step_s", "t_s", "compiled", "phases"}}
    known = {name: value for name, value in extra.items() if value is not None}
    rank = _whole(header.get("rank"))
    return [
        Row(
            step=step,
            step_s=step_s,
            rank=-1 if rank is None else rank,
            end_s=math.nan if end_s is None else end_s,
            extra=known or None,
            line=record.line,
        )
    ]


def _object(text: str) -> dict[str, Any] | None:
    try:
        values = values_of(text)
    except NotJsonError:
        return None
    return values[0] if len(values) == 1 and isinstance(values[0], dict) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    """Read a number; the recorder writes those that JSON lacks as "nan", "inf", "-inf"."""
    if value in ("nan", "inf", "-inf"):
        return float(str(value))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


READER = InterlaceReader()
