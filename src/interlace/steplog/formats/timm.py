"""Reader `timm`: the training log of timm's train.py.

Clock: time.time() of the printing rank between two updates; the device is waited for at logged updates only.
Includes: data loading, forward, backward, optimizer; not validation or checkpoints. With gradient accumulation
it is one update.
Ranks: rank 0 alone; the loss is reduced, the time is not.
Resolution: 1 ms, of the one update that is logged (the mean since the epoch's start stands in brackets, unused).
Lost: the updates in between. At a logged update the host waits for all that is queued, so its time can differ
from that of the updates around it.
"""

from __future__ import annotations

import re

from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.lines import NUM, LineFormat

READER = PerEpochReader(
    LineFormat(
        name="timm",
        doc=__doc__,
        hint="Train: ",
        begins=re.compile(r"Train: \d+ \["),
        record=re.compile(
            r"Train: (?P<epoch>\d+) \[\s*(?P<n>\d+)/(?P<of>\d+)\b[^\]]*\]\s+.*?"
            rf"\bTime: (?P<step_s>{NUM})s?,?\s+(?P<samples_per_s>{NUM})/s",
            re.IGNORECASE,
        ),
        kind="single",
        header={"world_size": re.compile(r"Training in distributed mode .*?total (\d+)")},
    ),
    first_epoch=0,
)
