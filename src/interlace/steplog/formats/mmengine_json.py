"""Reader `mmengine_json`: vis_data/scalars.json of mmengine's local backend, one JSON object a line.

Clock: as `mmengine`: time.time() of rank 0 between the hooks of two iterations.
Includes: data loading (`data_time`), forward, backward, optimizer and the hooks.
Ranks: rank 0 alone.
Resolution: that of a float, of a mean over the last 10 iterations.
Lost: single iterations. Rows of validation carry `time` and `step` (the epoch!) too; they are told by what they
lack, the learning rate and the iteration, and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.json_lines import JsonLinesReader, columns, count, number
from interlace.steplog.formats.mmengine import overlapping
from interlace.steplog.model import Kind, Remarks, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS = facts_in(__doc__)
_TAKEN = ("iter", "time", "step")


class MmengineJsonReader(JsonLinesReader):
    """Takes the rows of training."""

    name = "mmengine_json"
    facts = FACTS
    hint = '"data_time"'
    mark = "mmengine's scalars with `iter`, `time` and a learning rate"

    def row(self, fields: Mapping[str, Any], line: int, remarks: Remarks) -> Row | None:
        """Return the row of a training record."""
        del remarks
        step, step_s = count(fields.get("iter")), number(fields.get("time"))
        # Without `step` it is mmcv's, whose `iter` starts anew with each epoch.
        if step is None or step_s is None or "step" not in fields or not {"lr", "base_lr"} & fields.keys():
            return None
        return Row(step, step_s, extra=columns(fields, _TAKEN), line=line)

    def settled(self, rows: list[Row], remarks: Remarks) -> tuple[list[Row], Kind]:
        """Return the rows, and whether their means overlap."""
        del remarks
        return rows, overlapping(rows)


READER = MmengineJsonReader()
