"""Reader `nanogpt`: the training log of nanoGPT and scripts made from it.

Clock: time.time() of rank 0, read once an iteration; `loss.item()` at each logged one waits for the device.
Includes: everything since the iteration before: data, evaluation and checkpoint too where they fall into it.
Ranks: rank 0 alone.
Resolution: 10 us, of single steps, one in log_interval.
Lost: the steps in between. At a logged step the host waits for all that is queued, so with log_interval above 1
its time can be longer or shorter than that of the steps around it.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="nanogpt",
        doc=__doc__,
        hint=", time ",
        begins=re.compile(r"iter \d+: loss"),
        record=re.compile(
            rf"iter (?P<step>\d+): loss (?P<loss>{NUM}), time (?P<step_ms>{NUM})ms\b(?:, mfu (?P<mfu_pct>{NUM})%)?",
            re.IGNORECASE,
        ),
        kind="single",
        header={"world_size": re.compile(r"\bworld_size = (\d+)")},
        rest=re.compile(r", time [\d.,]+ms, mfu"),
    )
)
