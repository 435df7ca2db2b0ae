"""`interlace cancel DIR`: stop the jobs of a submitted sweep. What was measured is kept."""

from __future__ import annotations

import sys

from interlace.cli.folders import folder_parser


def run(argv: list[str]) -> int:
    """Cancel every job of the sweep that waits or runs."""
    parser = folder_parser("cancel", "Stop the jobs of a sweep under SLURM; resume goes on with it later.")
    arguments = parser.parse_args(argv)
    from interlace.cli.lanes_state import lane_states, told  # noqa: PLC0415 (--help stays light)
    from interlace.files import open_sweep_dir  # noqa: PLC0415
    from interlace.slurm.queue import cancel  # noqa: PLC0415

    states = [state for state in lane_states(open_sweep_dir(arguments.directory)) if state.alive]
    if not states:
        sys.stdout.write("no job of this sweep waits or runs\n")
        return 0
    cancel([state.lane.job_ids[-1] for state in states if not state.given_up])
    for state in states:
        if state.given_up:
            sys.stdout.write(f"{told(state)}; scancel cannot reach it: end it on its node\n")
        else:
            sys.stdout.write(f"lane {state.lane.number}: job {state.lane.job_ids[-1]} is cancelled\n")
    sys.stdout.write(f"go on:   interlace resume {arguments.directory}\n")
    return 0
