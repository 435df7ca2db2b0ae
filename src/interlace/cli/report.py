"""`interlace report DIR [DIR...]`: tables and verdicts from what is on disk."""

from __future__ import annotations

import sys

from interlace.cli.folders import folder_parser


def run(argv: list[str]) -> int:
    """Write and print the report of each folder. Sweeps are never pooled: each stands alone."""
    parser = folder_parser(
        "report", "Tables and verdicts from what is on disk; also of a running or stopped sweep.",
        several=True, json=True,
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    from interlace.files import as_json_text  # noqa: PLC0415 (--help stays light)
    from interlace.load import load  # noqa: PLC0415
    from interlace.report.terminal import print_analysis, stdout  # noqa: PLC0415
    from interlace.report.written import as_json, write_report  # noqa: PLC0415

    for directory in arguments.directory:
        loaded = load(directory)
        write_report(loaded)
        if arguments.json:
            sys.stdout.write(as_json_text(as_json(loaded), indent=0))
            continue
        console = stdout()
        print_analysis(loaded.analysis, console)
        console.print(f"files:  {directory}/report.md  report.json  tables/", soft_wrap=True)
    return 0
