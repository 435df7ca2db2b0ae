"""Reader `paddle_trainer`: PaddleNLP's Trainer (`global_step: 10, interval_runtime: 2.2591, ... per_second: 4.427`).

Clock: time.time() of the printing process between two records; a step's time is interval_runtime divided by the number
of steps, which interval_steps_per_second gives.
Includes: data loading, forward, backward, optimizer, and what else falls between two records, such as an evaluation.
Ranks: the printing process alone; each writes its own workerlog.
Resolution: 0.1 ms, of the sum over logging_steps steps.
Lost: single steps. interval_samples_per_second is not used: versions differ in what they count.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.lines import NUM, LineFormat, LineReader
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row

_FAR_FROM_WHOLE = 0.2


class PaddleTrainerReader(LineReader):
    """Divides the time of an interval by its steps."""

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return interval_runtime / steps; the steps are a whole number, so rounding does not count."""
        del header
        runtime, rate = (parse_number(fields[name]).value for name in ("interval_runtime", "interval_steps_per_second"))
        if runtime is None or rate is None or not math.isfinite(runtime * rate) or runtime * rate <= 0:
            return math.nan, math.nan
        steps = round(runtime * rate)
        if not steps or abs(runtime * rate - steps) > _FAR_FROM_WHOLE:
            return f"odd_interval: {runtime:g} s at {rate:g} steps a second is no whole number of steps"
        return round(runtime / steps, 9), math.nan

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say how times were worked out."""
        del header
        if rows:
            remarks.note("derived", "times are interval_runtime / the steps of the interval")


READER = PaddleTrainerReader(
    LineFormat(
        name="paddle_trainer",
        doc=__doc__,
        hint="interval_runtime: ",
        begins=re.compile(r"(?<![a-z_])loss: [^,\s]+, (?:\w+: [^,\s]+, )*?learning_rate: "),
        record=re.compile(
            rf"loss: (?P<loss>{NUM}), (?:\w+: [^,]*, )*?learning_rate: (?P<learning_rate>{NUM}), "
            r"(?:\w+: [^,]*, )*?global_step: (?P<step>\d+), "
            rf"(?:\w+: [^,]*, )*?interval_runtime: (?P<interval_runtime>{NUM}), "
            rf"(?:\w+: [^,]*, )*?interval_steps_per_second: (?P<interval_steps_per_second>{NUM})[,\s]",
            re.IGNORECASE,
        ),
        kind="mean",
        rest=re.compile(r"interval_runtime: "),
    )
)
