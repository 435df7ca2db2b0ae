"""`interlace doctor`: is this node fit to measure on; looks, says what to do, and changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from interlace.cli.folders import Parser

DESCRIPTION = "Is this node fit to measure on? One screen: what is well, what is not, and what to do about it."
EPILOG = "exit code: 0 when nothing is a problem (there may be warnings), 1 when something is, 2 for wrong arguments"


def run(argv: list[str]) -> int:
    """Look at this node once and print what was found. Returns 1 when something is a problem."""
    parser = Parser(prog="interlace doctor", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--json", action="store_true", help="print one JSON object: verdict, findings, facts")
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, default=Path("outputs"), help="where results would go (outputs)"
    )
    parser.add_argument(
        "--torch", metavar="PYTHON", nargs="?", const=sys.executable,
        help="also ask torch what it sees, in a process of its own: of this environment, or of another interpreter",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    from interlace.doctor.examine import examine  # noqa: PLC0415 (--help stays light)
    from interlace.doctor.finding import all_findings, is_fit  # noqa: PLC0415
    from interlace.doctor.read import read_node  # noqa: PLC0415
    from interlace.monitor.source import open_source  # noqa: PLC0415

    source = open_source()
    try:
        facts = read_node(source, output_dir=arguments.output_dir, torch_python=arguments.torch)
    finally:
        source.close()
    sections = examine(facts)
    if arguments.json:
        from interlace.files import as_json_text  # noqa: PLC0415
        from interlace.report.doctor import as_object  # noqa: PLC0415

        sys.stdout.write(as_json_text(as_object(facts, sections)))
    else:
        from interlace.report.console import stdout  # noqa: PLC0415
        from interlace.report.doctor import print_screen  # noqa: PLC0415

        print_screen(facts, sections, stdout())
    return 0 if is_fit(all_findings(sections)) else 1
