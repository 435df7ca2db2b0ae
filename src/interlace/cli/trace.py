"""`interlace trace FILE|DIR...`: what profiler traces say of a step."""

from __future__ import annotations

import math
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.cli.folders import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.trace.verdict import Diagnosis


def run(argv: list[str]) -> int:
    """Print a column a job, and under it what bounds its step; of a sweep, a column an arm, kept beside its report."""
    parser = Parser(
        prog="interlace trace", description="What traces of torch.profiler say of a step, and what bounds it."
    )
    parser.add_argument(
        "path", metavar="FILE|DIR", type=Path, nargs="+",
        help="traces of the ranks of one job (*.json, *.json.gz), a folder of them a job, or the folder of a sweep",
    )  # fmt: skip
    parser.add_argument(
        "--step-ms", type=_milliseconds, default=(), metavar="MS[,MS...]",
        help="the job's step time without the profiler; of several jobs, one for each",
    )  # fmt: skip
    parser.add_argument(
        "--per-rank", action="store_true", help="a column for each rank instead of the one that bounds the job"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one job a line: every step of every rank")
    arguments = parser.parse_args(argv)
    from interlace.errors import UsageError  # noqa: PLC0415 (--help stays light)
    from interlace.files import as_json_text  # noqa: PLC0415
    from interlace.report.trace_table import as_json  # noqa: PLC0415
    from interlace.traced import diagnosed, diagnosed_files, jobs_in_sweep  # noqa: PLC0415

    of_sweep = len(arguments.path) == 1 and (arguments.path[0] / "sweep.yaml").is_file()
    if of_sweep and arguments.step_ms:
        raise UsageError("--step-ms: a sweep knows the step times of its arms; leave it out")
    if of_sweep:
        found = [one for job in jobs_in_sweep(arguments.path[0]) for one in diagnosed(job)]
    else:
        found = diagnosed_files(arguments.path, arguments.step_ms)
    if arguments.json:
        sys.stdout.writelines(as_json_text(as_json(one), indent=0) for one in found)
        return 0
    _show(found, per_rank=arguments.per_rank)
    if of_sweep:
        _keep(found, arguments.path[0])
    return 0


def _milliseconds(text: str) -> tuple[float, ...]:
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        values = ()
    if not values or not all(0 < value < math.inf for value in values):
        raise ArgumentTypeError(f"{text}: give milliseconds, more than 0")
    return values


def _show(found: Sequence[Diagnosis], *, per_rank: bool) -> None:
    from interlace.report.console import stdout  # noqa: PLC0415 (--help stays light)
    from interlace.report.terminal import print_lines, rich_table  # noqa: PLC0415
    from interlace.report.trace_table import limits_lines, trace_lines, trace_table  # noqa: PLC0415
    from interlace.trace.verdict import each_rank  # noqa: PLC0415

    console = stdout()
    columns = [rank for one in found for rank in each_rank(one)] if per_rank else list(found)
    console.print(rich_table(trace_table(columns), console.width))
    for one in found:
        print_lines(console, trace_lines(one, named=len(found) > 1))
    print_lines(console, limits_lines(found), "dim")


def _keep(found: Sequence[Diagnosis], directory: Path) -> None:
    from interlace.files import write_json, write_text  # noqa: PLC0415 (--help stays light)
    from interlace.report.trace_table import as_json  # noqa: PLC0415
    from interlace.report.written import traces_markdown  # noqa: PLC0415

    write_text(directory / "trace.md", traces_markdown(found))
    write_json(directory / "trace.json", [as_json(one) for one in found])
    sys.stdout.write(f"files:  {directory}/trace.md  trace.json\n")
