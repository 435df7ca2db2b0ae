"""`interlace report DIR [DIR...]`: tables and verdicts from what is on disk."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from interlace.cli.folders import folder_parser

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.loaded import LoadedSweep


def run(argv: list[str]) -> int:
    """Write and print the report of each folder. Each stands alone, unless pooling is asked for."""
    parser = folder_parser(
        "report", "Tables and verdicts from what is on disk; also of a running or stopped sweep.",
        several=True, json=True,
    )  # fmt: skip
    parser.add_argument("--aa", metavar="AA_DIR", help="an A/A sweep of the same session: its spread is pooled in")
    parser.add_argument("--pool", action="store_true", help="judge the rounds of several sweeps at once")
    parser.add_argument(
        "--figures", action="store_true", help="also draw figures/drift.svg (pip install 'interlace[figures]')"
    )
    parser.add_argument("--window", metavar="FIRST:LAST", help="count these steps instead of measure.window")
    parser.add_argument("--baseline", metavar="ARM", help="compare the arms with this one")
    arguments = parser.parse_args(argv)
    from interlace.loaded import load  # noqa: PLC0415 (--help stays light)
    from interlace.pool import pool  # noqa: PLC0415
    from interlace.report.written import write_report  # noqa: PLC0415

    window = _window(arguments.window)
    sweeps = [load(directory, arguments.aa, window, arguments.baseline) for directory in arguments.directory]
    for directory, loaded in zip(arguments.directory, sweeps, strict=True):
        _refuse_out_of_reach(directory, loaded)
    if arguments.pool:
        _show(pool(sweeps), as_json=arguments.json)
        return 0
    for directory, loaded in zip(arguments.directory, sweeps, strict=True):
        where = f"files:  {directory}/report.md  report.json  tables/"
        try:
            write_report(loaded)
        except OSError as error:
            where = f"the report's files cannot be written: {error.strerror}"
        _show(loaded, as_json=arguments.json)
        drawn = _figures(loaded, asked=arguments.figures)
        if not arguments.json:
            sys.stdout.writelines(f"{line}\n" for line in [where, *(f"figure: {path}" for path in drawn)])
    return 0


def _figures(loaded: LoadedSweep, *, asked: bool) -> list[Path]:
    """Draw what is asked for, and anew what an earlier call drew: of other steps, or of fewer runs, by now."""
    if not asked and not (loaded.sweep_dir.path / "figures").is_dir():
        return []
    from interlace.errors import UsageError  # noqa: PLC0415 (--help stays light)
    from interlace.report.figures import write_figures  # noqa: PLC0415 (altair takes a second)

    try:
        return write_figures(loaded)
    except (UsageError, OSError) as error:
        if not asked:
            return []  # no altair, no right to write: the figure itself says of which steps it is
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{loaded.sweep_dir.path}/figures cannot be written: {error.strerror}") from error


def _window(text: str | None) -> tuple[int, int] | None:
    from interlace.errors import UsageError  # noqa: PLC0415 (--help stays light)

    found = re.fullmatch(r"(\d+):(\d+)", text) if text is not None else None
    if text is not None and (found is None or not 1 <= int(found[1]) < int(found[2])):
        raise UsageError(f"--window {text}: give the first and the last step, counted from 1, as in --window 51:300")
    return (int(found[1]), int(found[2])) if found else None


def _refuse_out_of_reach(directory: Path, loaded: LoadedSweep) -> None:
    """Raise UsageError where no run has the steps asked for: an empty report would replace one that is not."""
    from interlace.errors import UsageError  # noqa: PLC0415 (--help stays light)

    if loaded.other_window is None or any(arm.runs for arm in loaded.analysis.arms):
        return
    first, last = loaded.other_window
    most = max((record.steps_seen for record in loaded.records), default=0)
    raise UsageError(
        f"--window {first}:{last}: no run of {directory} has all of these steps; the longest recorded {most}"
    )


def _show(loaded: LoadedSweep, *, as_json: bool) -> None:
    from interlace.files import as_json_text  # noqa: PLC0415
    from interlace.report.console import stdout  # noqa: PLC0415
    from interlace.report.terminal import print_analysis  # noqa: PLC0415
    from interlace.report.written import as_json as report_json  # noqa: PLC0415

    if as_json:
        sys.stdout.write(as_json_text(report_json(loaded), indent=0))
    else:
        print_analysis(loaded.analysis, stdout(), loaded.sweep_dir.path)
