"""Reader `tensorboard`: TensorBoard event files, one `events.out.tfevents.*` or a folder of them.

Clock: that of the trainer for a tag that states a step's time (`train/step_time_s`, Megatron's `iteration-time`,
torchtitan's `time_metrics/end_to_end(s)`); without one the wall clock at which the busiest tag was written, whose
differences are means over the steps between, everything included.
Includes: what the trainer's own clock includes, or everything between two writings.
Ranks: the one that writes, mostly rank 0 (Megatron: the last); the file does not say.
Resolution: 7 digits (values are 32-bit floats); the wall clock is finer than 1 ms.
Lost: nothing of what was written: raw events are read, and what a restart wrote again counts as resumed, where
TensorBoard itself hides events. A file cut by a kill is read up to its last whole record; behind a record with a
wrong checksum nothing can be trusted, and that is an error.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.event_records import BadRecordError, Scalar, begins_like_events, scalars_in
from interlace.steplog.keys import NOT_TRAINING, normal, time_key
from interlace.steplog.model import PER_SECOND, FileReader, Options, Parsed, Remarks, Row, shorten

if TYPE_CHECKING:
    from pathlib import Path

FACTS = facts_in(__doc__)

FILES = "events.out.tfevents.*"


class TensorboardReader(FileReader):
    """The reader of a file or a folder."""

    name = "tensorboard"
    facts = FACTS

    def recognise_path(self, path: Path, head: bytes) -> str | None:
        """Recognise the first record of an event file, or a folder that holds such files."""
        if begins_like_events(head):
            return "a TensorBoard event file"
        if not head and path.is_dir() and (files := list(path.glob(FILES))):
            return f"{len(files)} TensorBoard event files ({FILES})"
        return None

    def read_path(self, path: Path, options: Options) -> Parsed:
        """Read all scalars; step times from the tag that states them, else from the wall clock."""
        remarks = Remarks()
        files = sorted(path.glob(FILES)) if path.is_dir() else [path]
        scalars: list[Scalar] = []
        for file in files:
            scalars += _scalars(file, remarks)
        tag = _time_tag(scalars, remarks)
        rows = _timed(scalars, tag, options, remarks) if tag else _clocked(scalars, remarks)
        first, last = (scalars[0].wall_s, scalars[-1].wall_s) if scalars else (None, None)
        remarks.note("rank_unknown", "an event file does not say which rank wrote it, nor whether it is the slowest")
        return Parsed(rows, remarks, started_at=first, finished_at=last, kind="not said" if tag else "single")


def _scalars(path: Path, remarks: Remarks) -> list[Scalar]:
    found: list[Scalar] = []
    with path.open("rb") as file:
        try:
            found.extend(scalars_in(file))
        except BadRecordError as error:
            if error.cut:
                remarks.note("truncated_tail", f"{path.name}: {error}; what stands before it was read")
            else:
                remarks.error("corrupt_record", len(found), path.name, f"{error}; nothing behind it was read")
    return found


def _time_tag(scalars: list[Scalar], remarks: Remarks) -> str | None:
    """Choose the tag that states a step's time: one that names its unit, then the one with the most values."""
    counts = Counter(scalar.tag for scalar in scalars if time_key(scalar.tag))
    tags = sorted(counts, key=lambda tag: (getattr(time_key(tag), "unit", None) is None, -counts[tag], tag))
    if len(tags) > 1:
        remarks.note("other_times", f"other tags state times too and were not used: {shorten(', '.join(tags[1:]), 80)}")
    return tags[0] if tags else None


def _timed(scalars: list[Scalar], tag: str, options: Options, remarks: Remarks) -> list[Row]:
    key = time_key(tag)
    unit = (key and key.unit) or options.unit
    if key and key.unit is None:
        remarks.note("unit_assumed", f"`{tag}` names no unit: taken as {unit} (unit= changes that)")
    columns = _columns(scalars, tag)
    return [
        Row(one.step, float(f"{one.value / PER_SECOND[unit]:.12g}"), extra=columns.get(one.step), line=n)
        for n, one in enumerate(scalars)
        if one.tag == tag
    ]


def _clocked(scalars: list[Scalar], remarks: Remarks) -> list[Row]:
    """Take the wall clock of the training tag with the most values."""
    counts = Counter(one.tag for one in scalars if not NOT_TRAINING & set(normal(one.tag).split("/")))
    if not counts:
        return []
    tag = max(counts, key=lambda name: (counts[name], name))
    columns = _columns(scalars, tag)
    start = next(one.wall_s for one in scalars if one.tag == tag)
    text = f"no tag states a step's time: times are differences of the wall clock at which `{tag}` was written"
    remarks.note("wall_clock", text)
    return [
        Row(one.step, math.nan, end_s=round(one.wall_s - start, 6), extra=columns.get(one.step), line=n)
        for n, one in enumerate(scalars)
        if one.tag == tag
    ]


def _columns(scalars: list[Scalar], time: str) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for one in scalars:
        if one.tag != time:
            found.setdefault(one.step, {})[one.tag] = one.value
    return found


READER = TensorboardReader()
