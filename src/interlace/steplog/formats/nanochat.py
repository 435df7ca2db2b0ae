"""Reader `nanochat`: nanochat, build-nanogpt and scripts made from them (`step 00010 ... | dt: 412.33ms | tok/sec: `).

Clock: time.time() of rank 0; the device is waited for before and after each step.
Includes: forward, backward, optimizer, and the loading of the next batch; not evaluation, sampling or checkpoints.
Ranks: rank 0 alone.
Resolution: 10 us (some scripts: 1 ms), of single steps.
Lost: the other ranks. The loss that nanochat prints is smoothed, the time is not.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="nanochat",
        doc=__doc__,
        hint="tok/sec: ",
        begins=re.compile(r"step:?\s+\d+(?:/\d+)?(?: \([\d.]+%\))? \| loss: "),
        record=re.compile(
            rf"step:?\s+(?P<step>\d+)(?:/\d+)?(?: \([\d.]+%\))? \| loss: (?P<loss>{NUM}) \| (?:[^|]*\|)*?\s*"
            rf"dt: (?P<step_ms>{NUM})\s?ms \| tok/sec: (?P<tokens_per_s>{NUM})",
            re.IGNORECASE,
        ),
        kind="single",
        header={"world_size": re.compile(r"\bworld size: (\d+)", re.IGNORECASE)},
        rest=re.compile(r"\bdt: \S+\s?ms \| tok/sec: "),
    )
)
