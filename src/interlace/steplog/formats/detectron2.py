"""Readers `detectron2` and `detectron2_means`: `iter: 19  total_loss: ...  time: 0.2540  last_time: 0.2345`.

Clock: time.perf_counter of the main process around one iteration; the device is waited for where the losses are read.
Includes: data loading (also printed alone), forward, backward, optimizer; not the hooks (evaluation, checkpoints).
Ranks: the main process alone.
Resolution: 0.1 ms, of the one iteration that is logged (`last_time`). Logs before that was printed have only `time`, a
mean since the start: `detectron2_means`, marked as smoothed.
Lost: the iterations in between, which are counted from 0.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

_BEGINS = re.compile(r"(?<![\w/])iter: \d+  ")
_UP_TO_LR = r"\s*(?:\S+: \S+\s+){0,6}?lr: "
_PAIRS = re.compile(rf"(?<!\S)(?P<key>total_loss|data_time|lr|max_mem): (?P<number>{NUM})(?=\s|M\b)", re.IGNORECASE)

LAST = LineReader(
    LineFormat(
        name="detectron2",
        doc=__doc__,
        hint="last_time: ",
        begins=_BEGINS,
        record=re.compile(
            rf"iter: (?P<step>\d+)  (?:.*?  )?time: (?P<mean_s>{NUM})  last_time: (?P<step_s>{NUM})  {_UP_TO_LR}",
            re.IGNORECASE,
        ),
        pairs=_PAIRS,
        kind="single",
        rest=re.compile(r"(?<!\w)last_time: "),
    )
)

MEANS = LineReader(
    LineFormat(
        name="detectron2_means",
        doc=__doc__,
        hint="data_time: ",
        begins=_BEGINS,
        record=re.compile(
            rf"iter: (?P<step>\d+)  (?:.*?  )?time: (?P<step_s>{NUM})  data_time: {NUM}  {_UP_TO_LR}", re.IGNORECASE
        ),
        pairs=_PAIRS,
        kind="smoothed",
        rest=re.compile(r"(?<!\w)data_time: "),
    )
)
