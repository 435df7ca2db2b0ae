"""Reader `torch_imagenet`: the log of PyTorch's ImageNet example and the many trainers that copied its meters.

Clock: time.time() of the printing rank between two batches; the device is waited for where the loss is read.
Includes: data loading (also printed alone), copies, forward, backward, optimizer; not validation or checkpoints.
Ranks: the printing rank alone (in the example every process that is first on its node).
Resolution: 1 ms, of the one batch that is printed (the mean since the epoch's start stands in brackets, unused).
Lost: the batches in between.
"""

from __future__ import annotations

import re

from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.lines import NUM, LineFormat

READER = PerEpochReader(
    LineFormat(
        name="torch_imagenet",
        doc=__doc__,
        hint="Epoch: [",
        begins=re.compile(r"Epoch: \[\d+\]\[\s*\d+/"),
        record=re.compile(rf"Epoch: \[(?P<epoch>\d+)\]\[\s*(?P<n>\d+)/(?P<of>\d+)\]\s+Time:?\s+(?P<step_s>{NUM})\s+\("),
        kind="single",
    ),
    first_epoch=0,
)
