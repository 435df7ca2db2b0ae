"""Readers `mmengine` and `mmcv`: the logs of OpenMMLab's runners, today's and the one before.

Clock: time.time() of rank 0 between the hooks of two iterations; the device is waited for only by what reads it.
Includes: data loading (`data_time`), forward, backward, optimizer and the hooks; not validation or checkpoints.
Ranks: rank 0 alone.
Resolution: 0.1 ms (mmcv: 1 ms), of a mean over the last 10 iterations (mmcv: over the whole interval).
Lost: single iterations. With an interval below 10, mmengine's means overlap and are marked as smoothed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.gaps import usual_gap
from interlace.steplog.lines import NUM, LineFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Kind, Row

WINDOW = 10
"""Iterations that mmengine's LogProcessor takes means over, unless it is configured otherwise."""

_PAIRS = re.compile(rf"(?<!\S)(?P<key>[A-Za-z][\w./]*): (?P<number>{NUM})(?=[,\s]|$)", re.IGNORECASE)


class MmengineReader(PerEpochReader):
    """Says by the distance of its records whether the means overlap."""

    def kind_of(self, rows: list[Row], header: Mapping[str, float]) -> Kind:
        """Return `smoothed` where less than a window lies between two records."""
        del header
        return overlapping(rows)


def overlapping(rows: list[Row]) -> Kind:
    """Return `smoothed` for means that overlap, since less than a window lies between two records; else `mean`."""
    return "smoothed" if 0 < usual_gap(rows, WINDOW) < WINDOW else "mean"


MMENGINE = MmengineReader(
    LineFormat(
        name="mmengine",
        doc=__doc__,
        hint="(train)",
        begins=re.compile(r"(?:Epoch|Iter)\(train\)\s"),
        record=re.compile(
            r"(?:Epoch\(train\)\s+\[\s*(?P<epoch>\d+)\]\[\s*(?P<n>\d+)/(?P<of>\d+)\]"
            r"|Iter\(train\)\s+\[\s*(?P<step>\d+)/(?P<total>\d+)\])\s.*?"
            rf"(?<=\s)time: (?P<step_s>{NUM})\s+data_time: (?P<data_time>{NUM})(?:\s|$)",
            re.IGNORECASE,
        ),
        pairs=_PAIRS,
        kind="mean",
        header={"world_size": re.compile(r"GPU number: (\d+)")},
    ),
    first_epoch=1,
)

MMCV = PerEpochReader(
    LineFormat(
        name="mmcv",
        doc=__doc__,
        hint="data_time: ",
        begins=re.compile(r"(?:Epoch|Iter) \[\d+[\]/]"),
        record=re.compile(
            r"(?:Epoch \[(?P<epoch>\d+)\]\[(?P<n>\d+)/(?P<of>\d+)\]|Iter \[(?P<step>\d+)/(?P<total>\d+)\])\s.*?"
            rf"(?<=\s)time: (?P<step_s>{NUM}),\s+data_time: (?P<data_time>{NUM})(?:,|\s|$)",
            re.IGNORECASE,
        ),
        pairs=_PAIRS,
        kind="mean",
    ),
    first_epoch=1,
)
