"""Readers `deepspeed` (throughput timer) and `deepspeed_pipe` (pipeline engine): DeepSpeed's own step lines.

Clock: time.time() of rank 0 around forward, backward and step, waiting for the device (`synchronized`); the
pipeline engine times the whole train_batch.
Includes: forward, backward, step of all micro-batches of one global step; data loading only in the pipeline
engine. The throughput timer prints samples a second of the one global step that is logged (CurrSamplesPerSec), so
a step's time is train_batch_size, from DeepSpeed's start-up output, divided by it; the running mean is not used.
Ranks: rank 0 alone.
Resolution: as fine as a float for the throughput timer; 1 ms, of a mean over steps_per_print, for the other.
Lost: the steps in between; the throughput timer's first steps, which it leaves out.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.formats import deepspeed_breakdown
from interlace.steplog.lines import NUM, LineFormat, LineReader
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row


class ThroughputReader(LineReader):
    """Turns samples a second into seconds a step."""

    def recognise(self, head: str) -> str | None:
        """Recognise a record; without the batch size leave a log that has other times to their reader."""
        if deepspeed_breakdown.BEGINS.search(head) and not self.form.header["train_batch_size"].search(head):
            return None
        return super().recognise(head)

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return train_batch_size / CurrSamplesPerSec."""
        rate = parse_number(fields["rate"], count=True).value
        if "train_batch_size" not in header:
            return "no_batch_size: the log does not state train_batch_size above this line"
        if rate is None or not rate > 0:
            return math.nan, math.nan
        return header["train_batch_size"] / rate, math.nan

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say how times were worked out."""
        if rows:
            remarks.note("derived", f"times are train_batch_size {header['train_batch_size']:g} / CurrSamplesPerSec")


THROUGHPUT = ThroughputReader(
    LineFormat(
        name="deepspeed",
        doc=__doc__,
        hint="CurrSamplesPerSec=",
        begins=re.compile(r"epoch=\d+/micro_step=\d+/global_step=\d+, R"),
        record=re.compile(
            r"epoch=\d+/micro_step=(?P<micro_step>\d+)/global_step=(?P<step>\d+), "
            rf"RunningAvgSamplesPerSec=(?P<running_samples_per_s>-?{NUM}), CurrSamplesPerSec=(?P<rate>-?{NUM}), ",
            re.IGNORECASE,
        ),
        kind="single",
        header={
            "train_batch_size": re.compile(r"(?<!\w)train_batch_size[\"']?\s*(?:\.{2,}|[:=])\s*(\d+)"),
            "world_size": re.compile(r"(?<!\w)world_size[\"']?\s*(?:\.{2,}|[:=])\s*(\d+)"),
        },
        rest=re.compile(r"CurrSamplesPerSec="),
    )
)

PIPELINE = LineReader(
    LineFormat(
        name="deepspeed_pipe",
        doc=__doc__,
        hint="iter time (s):",
        begins=re.compile(r"steps: \d+ loss:"),
        record=re.compile(
            rf"steps: (?P<step>\d+) loss: (?P<loss>{NUM}) (?:[\w ]+: {NUM} )*?iter time \(s\): (?P<step_s>{NUM})"
            rf" samples/sec: (?P<samples_per_s>{NUM})",
            re.IGNORECASE,
        ),
        kind="mean",
        header={"world_size": re.compile(r"(?<!\w)world_size[\"']?\s*(?:\.{2,}|[:=])\s*(\d+)")},
        rest=re.compile(r"iter time \(s\):"),
    )
)
