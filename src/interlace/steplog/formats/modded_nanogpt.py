"""Reader `modded_nanogpt`: the speed-run logs of modded-nanogpt (`step:5/1393 train_time:1225ms step_avg:245.13ms`).

Clock: a cumulative one (`train_time`), perf_counter of rank 0, stopped during validation; a step's time is the
difference of two. `step_avg` is a mean since the start and is not used.
Includes: everything but validation; the device is waited for only where validation begins.
Ranks: rank 0 alone.
Resolution: 1 ms (older versions), of a cumulative clock: over many steps it is exact.
Lost: the first step, and where an older version sets the clock to zero after ten steps, the step there.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="modded_nanogpt",
        doc=__doc__,
        hint="train_time:",
        begins=re.compile(r"step:\d+/\d+ (?=.*train_time:)"),
        record=re.compile(
            rf"step:(?P<step>\d+)/(?P<total>\d+) (?:[a-z]\w*:\S+ )*?"
            rf"train_time:(?P<end_s>{NUM})(?P<unit>ms|s)\b",
            re.IGNORECASE,
        ),
        other=re.compile(r"\bval_\w+:"),
        kind="single",
    )
)
