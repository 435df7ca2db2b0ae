"""`interlace resume DIR`: the plan minus what is finished."""

from __future__ import annotations

from interlace.cli.folders import folder_parser


def run(argv: list[str]) -> int:
    """Measure the runs that are missing, then report."""
    parser = folder_parser("resume", "Go on with a sweep: finished runs stay, a cut one is measured again.")
    arguments = parser.parse_args(argv)
    from interlace.cli.measuring import measure  # noqa: PLC0415 (--help stays light)
    from interlace.files import open_sweep_dir  # noqa: PLC0415
    from interlace.records import read_plan  # noqa: PLC0415
    from interlace.sweepfile import read_sweep  # noqa: PLC0415

    sweep_dir = open_sweep_dir(arguments.directory)
    return measure(sweep_dir, read_sweep(sweep_dir), read_plan(sweep_dir))[0]
