"""Reader `maxtext`: MaxText's `completed step: 5, seconds: 1.234, TFLOP/s/device: 134.9, Tokens/s/device: ...`.

Clock: the wall clock of the printing host from the end of one iteration to the end of the next. JAX runs ahead of the
device: a single time is when the host got on, so the first ones may be far too short and the next ones too long; over
many steps they are right.
Includes: data loading, dispatch, checkpoints and evaluation where they fall between two steps.
Ranks: the printing host; where each host prints, the log does not say which: the slowest of a step's lines counts.
Resolution: 1 ms, of single steps.
Lost: the other hosts.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="maxtext",
        doc=__doc__,
        hint="completed step: ",
        begins=re.compile(r"completed step: \d+, seconds: "),
        record=re.compile(
            rf"completed step: (?P<step>\d+), seconds: (?P<step_s>{NUM}),"
            rf" (?:train_step_time_ms: (?P<step_ms>{NUM}), )?TFLOP/s(?:/device)?: ",
            re.IGNORECASE,
        ),
        pairs=re.compile(
            r", (?P<key>TFLOP/s(?:/device)?|Tokens/s/device|total_weights|loss|grad_norm): "
            rf"(?P<number>{NUM})(?=,|\s*\Z)",
            re.IGNORECASE,
        ),
        kind="single",
        rest=re.compile(r"seconds: \S+, \S* ?TFLOP/s"),
    )
)
