"""Reader `deepspeed_breakdown`: the timers of DeepSpeed's wall_clock_breakdown (`time (ms) | fwd: ... | step: ...`).

Clock: events on the device, or time.time() on devices without; printed at every global step. A step's time is
fwd + bwd + step, of all its micro-batches (bwd holds bwd_inner and bwd_allreduce).
Includes: forward, backward, optimizer. Not data loading, nor what the trainer does between the three: these times are
smaller than a step's, and the timers themselves slow it down.
Ranks: rank 0 alone.
Resolution: 10 us for each of the three.
Lost: the step's number (they are counted in their order), and everything outside the three. The lines of single
micro-batches (`fwd_microstep` ...) are not used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.lines import LineFormat, LineReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row

_MS = r"\d+\.\d\d(?![\d.])"  # always two decimals, so a cut number is seen
BEGINS = re.compile(r"time \(ms\) \| fwd: ")
PARTS = ("fwd", "bwd", "step_part")


class BreakdownReader(LineReader):
    """Adds up the parts of a step."""

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return fwd + bwd + step."""
        del header
        return round(sum(float(fields[part]) for part in PARTS) / 1e3, 9), float("nan")

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say what the times are."""
        del header
        if rows:
            remarks.note(
                "derived", "times are fwd + bwd + step: without data loading and what stands between the three"
            )


READER = BreakdownReader(
    LineFormat(
        name="deepspeed_breakdown",
        doc=__doc__,
        hint=" | bwd: ",
        begins=BEGINS,
        record=re.compile(
            rf"time \(ms\) \| fwd: (?P<fwd>{_MS}) \| bwd: (?P<bwd>{_MS})(?: \| bwd_inner: (?P<bwd_inner>{_MS}))?"
            rf"(?: \| bwd_allreduce: (?P<bwd_allreduce>{_MS}))? \| step: (?P<step_part>{_MS})"
        ),
        kind="single",
        rest=re.compile(r" \| bwd: "),
    )
)
