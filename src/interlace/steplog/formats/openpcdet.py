"""Reader `openpcdet`: the training log of OpenPCDet (`Batch time: 0.31(0.35)`).

Clock: time.time() of rank 0; the device is not waited for, but the loss is read back in each iteration.
Includes: data loading (also printed alone), forward, backward, optimizer.
Ranks: rank 0 alone, or means over the ranks, as the version has it.
Resolution: 10 ms, of the one iteration that is logged (the running mean stands in brackets, unused).
Lost: the iterations in between.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="openpcdet",
        doc=__doc__,
        hint="Batch time:",
        begins=re.compile(r"Train:\s+\d+/\d+ \("),
        record=re.compile(
            r"Train:\s+(?P<epoch>\d+)/\d+ \([^)]*\) \[.*?\bAcc_iter (?P<step>\d+)\s.*?"
            rf"\bBatch time: (?P<step_s>{NUM})\s?\(",
            re.IGNORECASE,
        ),
        kind="single",
        rest=re.compile(r"Forward time: \S+ +Batch time: "),
    )
)
