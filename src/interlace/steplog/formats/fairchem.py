"""Reader `fairchem`: the step lines of fairchem's training (`INFO:root:{'train/loss': ..., 'train/step': 0, ...}`).

Clock: time.time() of each rank from the end of one step to the end of the next. The line has samples a second,
from the rank's own samples, that clock and the number of data-parallel ranks, so a step's time is
num_samples_on_rank x ranks / samples_per_second; the ranks come from the start-up output.
Includes: data loading, forward, backward, optimizer, EMA; what falls between two steps as well.
Ranks: every rank prints, without saying which it is: the slowest of a step's lines counts.
Resolution: that of a float.
Lost: which rank it is; steps in between where print_every is above 1. The first step counts from the set-up.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.lines import NUM, LineFormat, LineReader
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Remarks, Row

TWO_RUNS = "components.benchmark.training:"
"""What fairchem's TrainingBenchmarkRunner logs, which trains twice in one process."""

_RANKS = re.compile(r"Running in local mode with (\d+) ranks")
_NODES = re.compile(r"'ranks_per_node': (\d+), 'num_nodes': (\d+)|'num_nodes': (\d+),.*?'ranks_per_node': (\d+)")
_GRAPH_PARALLEL = re.compile(r"'graph_parallel_group_size': (\d+)")


class FairchemReader(LineReader):
    """Turns samples a second into seconds a step."""

    def recognise(self, head: str) -> str | None:
        """Recognise a step line of one training; its ranks may be said far above it."""
        return None if TWO_RUNS in head else super().recognise(head)

    def listen(self, text: str, header: dict[str, float]) -> None:
        """Take in the number of ranks, and of those that share one batch."""
        if TWO_RUNS in text:
            header["two_runs"] = 1.0
        if match := _RANKS.search(text):
            header["world_size"] = float(match[1])
        elif "world_size" not in header and (match := _NODES.search(text)):
            header["world_size"] = float(match[1] or match[4]) * float(match[2] or match[3])
        if match := _GRAPH_PARALLEL.search(text):
            header["graph_parallel"] = float(match[1])
        if "world_size" in header:
            header["data_parallel"] = header["world_size"] / header.get("graph_parallel", 1.0)

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return samples of all ranks / samples a second."""
        rate, samples = (parse_number(fields[name], count=True).value for name in ("rate", "num_samples_on_rank"))
        if "two_runs" in header:
            return "two_runs: the log holds two trainings (TrainingBenchmarkRunner), whose steps cannot be told apart"
        if "data_parallel" not in header:
            return "no_world_size: the log does not say above this line how many ranks there are"
        if not rate or not samples:
            return math.nan, math.nan
        return samples * header["data_parallel"] / rate, math.nan

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say how times were worked out."""
        if rows:
            ranks = f"{header['data_parallel']:g} ranks"
            remarks.note("derived", f"times are num_samples_on_rank x {ranks} / samples_per_second(approx)")


READER = FairchemReader(
    LineFormat(
        name="fairchem",
        doc=__doc__,
        hint="'train/samples_per_second(approx)'",
        begins=re.compile(r"\{'train/loss': "),
        record=re.compile(
            rf"\{{'train/loss': (?P<loss>{NUM}), .*?'train/step': (?P<step>\d+), .*?"
            rf"'train/samples_per_second\(approx\)': (?P<rate>{NUM}), .*?"
            rf"'train/num_samples_on_rank': (?P<num_samples_on_rank>\d+)(?:, 'train/grad_norm': (?P<grad_norm>{NUM}))?"
            r"[,}]",
            re.IGNORECASE,
        ),
        kind="single",
        end="Training Completed",
        rest=re.compile(r"'train/num_samples_on_rank': "),
    )
)
