"""Readers `paddle` and `paddleclas`: `batch_cost` as the Paddle suites print it (Detection, Seg, OCR, NLP; Clas).

Clock: time.time() of rank 0; the device is waited for by what reads the loss.
Includes: data loading (`reader_cost`), forward, backward, optimizer.
Ranks: rank 0 alone.
Resolution: 10 us to 0.1 ms, of a mean over log_iters steps; PaddleClas prints a mean since the epoch's start
instead, and PaddleDetection one over its window, so `paddleclas` is marked as smoothed.
Lost: single steps.
"""

from __future__ import annotations

import re

from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.lines import NUM, LineFormat

_COST = rf"(?<![\w.])(?:avg_)?batch_cost: ?(?P<step_s>{NUM})\s?(?:s|sec)?(?=[,\s])"
_PAIRS = re.compile(rf"(?<![\w.])(?!\w*batch_cost)(?P<key>[A-Za-z]\w*): (?P<number>{NUM})(?=[,\s]|$)", re.IGNORECASE)

PADDLE = PerEpochReader(
    LineFormat(
        name="paddle",
        doc=__doc__,
        hint="batch_cost:",
        begins=re.compile(
            r"\[TRAIN\] epochs?: |epoch: \[\d+/\d+\], (?:iter: \[\d+/\d+\], )?global_step: ?\d"
            r"|global step \d|Epoch: \[\d+\] \["
        ),
        record=re.compile(
            r"(?:(?:\[TRAIN\] epochs?: \d+(?:/\d+)?, iter: |global step "
            r"|epoch: \[\d+/\d+\], (?:iter: \[\d+/\d+\], )?global_step: ?)(?P<step>\d+)(?:/\d+)?"
            rf"|Epoch: \[(?P<epoch>\d+)\] \[\s*(?P<n>\d+)/(?P<of>\d+)\]),? .*?{_COST}",
            re.IGNORECASE,
        ),
        pairs=_PAIRS,
        kind="mean",
    ),
    first_epoch=0,
)

CLAS = PerEpochReader(
    LineFormat(
        name="paddleclas",
        doc=__doc__,
        hint="batch_cost:",
        begins=re.compile(r"\[(?:Train|Eval)\]\[Epoch \d+"),
        record=re.compile(
            rf"\[Train\]\[Epoch (?P<epoch>\d+)/\d+\]\s?\[Iter: (?P<n>\d+)/(?P<of>\d+)\].*?{_COST}", re.IGNORECASE
        ),
        other=re.compile(r"\A\[Eval\]"),
        pairs=_PAIRS,
        kind="smoothed",
    ),
    first_epoch=1,
)
