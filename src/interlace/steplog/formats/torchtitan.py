"""Reader `torchtitan`: torchtitan's console log (`step: 10  loss: ...  tps: 7,123  ...`), with or without colours.

Clock: the date in front of each line, wall clock of the printing rank to the millisecond; without dates, what
`tps` (tokens a second and device) and the tokens of a step give. Neither waits for the device by itself, the loss
does.
Includes: everything since the line before: data loading, and evaluation and checkpoints that fall between.
Ranks: rank 0 alone (the last pipeline stage's first rank), its own time.
Resolution: 1 ms divided by log_freq; from tps half a token a second (0.01 % at 7,000 tps).
Lost: single steps where log_freq is above 1; the first record where dates are used.
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.lines import AT, NUM, LineFormat, LineReader
from interlace.steplog.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.steplog.model import Kind, Remarks, Row

_MESH = re.compile(r"Building \d+-D device mesh with (\[[^\]]*\]), (\[[\d, ]*\])")
_DEGREES = re.compile(r"device mesh with parallelism: (\w+=\d+(?:, \w+=\d+)*)")
_MODEL_PARALLEL = re.compile(r"Tensor Parallel|Context Parallel|[Pp]ipeline [Pp]arallel")
_ONE_COPY = ("pp", "cp", "tp")
"""Dimensions of the mesh that share the tokens of one batch."""
_FRACTION = re.compile(r"\d\d:\d\d:\d\d[.,]\d")


class TorchtitanReader(LineReader):
    """Reads steps by their dates, or by their tokens."""

    def recognise(self, head: str) -> str | None:
        """Recognise a record whose time can be known: it has a date, or the log states the tokens of a step."""
        why = super().recognise(head)
        if why is None:
            return None
        header: dict[str, float] = {}
        for line in head.split("\n"):
            self.listen(line, header)
            match = self.form.begins.search(line)
            if match and (_tokens(header) or _FRACTION.search(line[: match.start()])):
                return why
        return None

    def listen(self, text: str, header: dict[str, float]) -> None:
        """Take in batch, sequence, mesh and how fine dates are; `model_parallel` 0: there is one, of unknown size."""
        if "step: " in text:
            if "fine_dates" not in header and _FRACTION.search(text):
                header["fine_dates"] = 1.0
            return
        super().listen(text, header)
        if match := _MESH.search(text):
            header["model_parallel"] = _share(_mesh(match[1], match[2]))
        elif match := _DEGREES.search(text):
            header["model_parallel"] = _share({n: int(size) for n, size in re.findall(r"(\w+)=(\d+)", match[1])})
        elif "model_parallel" not in header and (" device mesh" in text or _MODEL_PARALLEL.search(text)):
            header["model_parallel"] = 0.0

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return the clock where dates have fractions of a second, else the time that the tokens give."""
        tokens, rate = _tokens(header), parse_number(fields["tps"], count=True).value
        if AT in fields and ("fine_dates" in header or tokens is None):
            return math.nan, float(fields[AT])
        if tokens is None:
            return "no_tokens: neither a date nor the tokens of a step are known"
        return (tokens / rate if rate else math.nan), math.nan

    def kind_of(self, rows: list[Row], header: Mapping[str, float]) -> Kind:
        """Return what the values are: differences of a clock, or means since the record before."""
        del header
        return "single" if _dated(rows) else "mean"

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Say where the times come from; dates and tokens are never mixed."""
        if _dated(rows):
            remarks.note("dates", "times are differences of the dates in front of the records")
            start = rows[0].end_s
            rows[:] = [row._replace(end_s=round(row.end_s - start, 6)) for row in rows]
            return
        if undated := [row for row in rows if math.isnan(row.end_s)]:
            assumed = "" if "model_parallel" in header else "; no model parallelism is mentioned, none is assumed"
            remarks.note("derived", f"times are {_tokens(header):g} tokens a step and device / tps{assumed}")
            rows[:] = undated


def _dated(rows: list[Row]) -> bool:
    return bool(rows) and all(math.isfinite(row.end_s) for row in rows)


def _tokens(header: Mapping[str, float]) -> float | None:
    """Return the tokens of a step and device, None where that is not known."""
    share = header.get("model_parallel", 1.0)
    if not share or not {"local_batch", "sequence"} <= header.keys():
        return None
    return header["local_batch"] * header.get("accumulation", 1.0) * header["sequence"] / share


def _mesh(names: str, sizes: str) -> dict[str, int]:
    try:
        return dict(zip(ast.literal_eval(names), ast.literal_eval(sizes), strict=True))
    except (ValueError, SyntaxError):
        return {}


def _share(mesh: Mapping[str, int]) -> float:
    """Return over how many devices the tokens of one batch are spread; 0 where the mesh is not understood."""
    return float(math.prod(mesh.get(name, 1) for name in _ONE_COPY)) if mesh else 0.0


READER = TorchtitanReader(
    LineFormat(
        name="torchtitan",
        doc=__doc__,
        hint="tps: ",
        begins=re.compile(r"(?:(?:validate|evaluation:) +)?step: *\d+ +loss:"),
        record=re.compile(
            rf"step: *(?P<step>\d+) +.*?(?<!\w)tps: (?P<tps>{NUM})(?=\s+[a-z_]+: )"
            rf"(?:.*?\btflops: (?P<tflops>{NUM})(?=\s|$))?"
            rf"(?:.*?\bmfu: (?P<mfu_pct>{NUM})%)?",
            re.IGNORECASE,
        ),
        pairs=re.compile(rf"(?<!\S)(?P<key>loss|grad_norm|memory): +(?P<number>{NUM})(?=\s|GiB|$)", re.IGNORECASE),
        other=re.compile(r"\A(?:validate|evaluation)"),
        kind="mean",
        header={
            "local_batch": re.compile(r"local batch size (\d+)"),
            "accumulation": re.compile(r"gradient accumulation steps (\d+)"),
            "sequence": re.compile(r"sequence length (\d+)"),
            "world_size": re.compile(r"(?<!\w)world[_ ]size[:=]? ?(\d+)"),
        },
    )
)
