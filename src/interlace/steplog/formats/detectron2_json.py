"""Reader `detectron2_json`: metrics.json of detectron2, one JSON object a line (`iteration`, `time`, `data_time`).

Clock: as `detectron2`: time.perf_counter of the main process around one iteration.
Includes: data loading (`data_time`), forward, backward, optimizer; not the hooks (evaluation, checkpoints).
Ranks: the main process alone.
Resolution: that of a float, of the median over the last 20 iterations, marked as smoothed.
Lost: single iterations, slow ones above all. Iterations are counted from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlace.steplog.facts import facts_in
from interlace.steplog.formats.json_lines import JsonLinesReader, columns, count, number
from interlace.steplog.model import Remarks, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS = facts_in(__doc__)
_TAKEN = ("iteration", "time")


class Detectron2JsonReader(JsonLinesReader):
    """Takes the rows that have an iteration's time."""

    name = "detectron2_json"
    facts = FACTS
    kind = "smoothed"
    hint = '"iteration"'
    mark = "detectron2's metrics with `iteration`, `time` and `data_time`"

    def row(self, fields: Mapping[str, Any], line: int, remarks: Remarks) -> Row | None:
        """Return the row of a training record."""
        del remarks
        step, step_s = count(fields.get("iteration")), number(fields.get("time"))
        if step is None or step_s is None or "data_time" not in fields:
            return None
        return Row(step, step_s, extra=columns(fields, _TAKEN), line=line)


READER = Detectron2JsonReader()
