"""Reader `torchvision`: the meters of torchvision's reference trainers, and of DETR and others that took them over.

Clock: time.time() of the printing rank between two batches; the device is waited for where the loss is read.
Includes: data loading (also printed alone), copies, forward, backward, optimizer; not evaluation or checkpoints.
Ranks: the main rank alone.
Resolution: 0.1 ms, of a mean over the last 20 batches.
Lost: single batches; windows of 20 overlap where more than one line in 20 is printed.
"""

from __future__ import annotations

import re

from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.lines import NUM, LineFormat

READER = PerEpochReader(
    LineFormat(
        name="torchvision",
        doc=__doc__,
        hint="Epoch: [",
        begins=re.compile(r"Epoch: \[\d+\]\s+\[\s*\d+/\d+\]\s+eta:"),
        record=re.compile(
            r"Epoch: \[(?P<epoch>\d+)\]\s+\[\s*(?P<n>\d+)/(?P<of>\d+)\]\s+eta: .*?"
            rf"\s{{2}}time: (?P<step_s>{NUM})\s+data: "
        ),
        kind="smoothed",
        rest=re.compile(r"\s{2}time: \S+\s+data: "),
    ),
    first_epoch=0,
)
