"""`interlace resume DIR`: the plan minus what is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.cli.folders import folder_parser

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.schema import Plan


def run(argv: list[str]) -> int:
    """Measure the runs that are missing, then report."""
    parser = folder_parser("resume", "Go on with a sweep: finished runs stay, a cut one is measured again.")
    parser.add_argument("--rounds", type=int, metavar="N", help="add whole rounds until there are N")
    parser.add_argument("--anywhere", action="store_true", help="go on even on other nodes than the sweep began on")
    arguments = parser.parse_args(argv)
    from interlace.cli.measuring import measured_here  # noqa: PLC0415 (--help stays light)
    from interlace.files import locked, open_sweep_dir, write_json  # noqa: PLC0415
    from interlace.lanes import read_lanes  # noqa: PLC0415
    from interlace.records import read_plan  # noqa: PLC0415
    from interlace.sweepfile import read_sweep  # noqa: PLC0415

    sweep_dir = open_sweep_dir(arguments.directory)
    if read_lanes(sweep_dir) is not None:
        return _resume_lanes(sweep_dir, arguments.rounds)
    sweep, plan = read_sweep(sweep_dir), read_plan(sweep_dir)
    longer = with_rounds(plan, arguments.rounds) if arguments.rounds is not None else plan
    if longer != plan:
        with locked(sweep_dir):
            write_json(sweep_dir.plan, longer)
    return measured_here(sweep_dir, sweep, longer, anywhere=arguments.anywhere)[0]


def _resume_lanes(sweep_dir: SweepDir, rounds: int | None) -> int:
    """Submit the lanes that have runs left, each with `rounds` rounds where that is given."""
    from interlace.cli.submitting import submit_left  # noqa: PLC0415 (--help stays light)
    from interlace.sweepfile import read_sweep  # noqa: PLC0415

    if rounds is not None:
        _lengthen_lanes(sweep_dir, rounds)
    return submit_left(sweep_dir, read_sweep(sweep_dir))


def _lengthen_lanes(sweep_dir: SweepDir, rounds: int) -> None:
    """Add rounds to every lane, or to none where one is at work or has as many."""
    from contextlib import ExitStack  # noqa: PLC0415 (--help stays light)

    from interlace.files import locked, write_json  # noqa: PLC0415
    from interlace.lanes import lane_dir, read_lanes  # noqa: PLC0415
    from interlace.records import read_plan  # noqa: PLC0415

    lanes = read_lanes(sweep_dir)
    folders = [lane_dir(sweep_dir, lane) for lane in lanes.lanes] if lanes is not None else []
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(locked(folder))
        longer = [with_rounds(read_plan(folder), rounds) for folder in folders]
        for folder, plan in zip(folders, longer, strict=True):
            write_json(folder.plan, plan)


def with_rounds(plan: Plan, rounds: int) -> Plan:
    """Add rounds by hand until there are `rounds`. Raises UsageError where there are as many already."""
    from interlace.errors import UsageError  # noqa: PLC0415 (--help stays light)
    from interlace.plan import add_round  # noqa: PLC0415

    planned = len({run.round for run in plan.runs if run.round > 0})
    if rounds <= planned:
        raise UsageError(f"--rounds {rounds}: the plan has {planned} rounds already; rounds can only be added")
    for _ in range(rounds - planned):
        plan = add_round(plan, "it was asked for by hand")
    return plan
