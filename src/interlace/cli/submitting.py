"""`launchers=slurm`: lanes are laid out, submitted, watched, and reported when their jobs are over."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interlace import __version__
from interlace.cli import EXIT_INTERRUPTED
from interlace.cli.lane import RunLane
from interlace.cli.lanes_state import LaneState, ending, lane_states, told
from interlace.cli.measuring import EXIT_RUN_FAILED, exit_code
from interlace.errors import UsageError
from interlace.files import make_sweep_dir, write_json
from interlace.lanes import LaneJob, Lanes, lane_dir, read_lanes, write_lanes
from interlace.loaded import load
from interlace.node import environment_versions
from interlace.plan import make_plan
from interlace.report.console import stdout
from interlace.report.terminal import next_steps, print_analysis
from interlace.report.written import write_report
from interlace.slurm.environment import scrubbed
from interlace.submission import script, submit
from interlace.sweepfile import write_sweep

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.schema import Sweep

UNSHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 (to warn of them)


def submitted_new(sweep: Sweep) -> int:
    """Lay out the lanes of a new sweep, submit them and, unless `wait=false`, wait and report."""
    config = sweep.config
    sweep_dir = make_sweep_dir(Path(config.output_dir), sweep.name, datetime.now().astimezone())
    write_sweep(sweep_dir, sweep, make_plan(sweep), __version__)
    lanes = [LaneJob(number, f"lanes/{number}") for number in range(config.launchers.lanes)]
    for lane in lanes:
        _lay_out(lane_dir(sweep_dir, lane), sweep, lane.number)
    for note in sweep.notes:
        _say(f"note: {note}")
    write_lanes(sweep_dir, Lanes(tuple(lanes), sys.executable, environment_versions()))
    return submit_left(sweep_dir, sweep)


def _lay_out(folder: SweepDir, sweep: Sweep, number: int) -> None:
    """Write a lane's own sweep and plan; every lane draws another order, which balances what one order leaves."""
    own = replace(sweep, config=replace(sweep.config, seed=sweep.config.seed + number))
    plan = make_plan(own)
    folder.path.mkdir(parents=True)
    write_sweep(folder, own, plan, __version__)
    write_json(folder.plan, plan)


def submit_left(sweep_dir: SweepDir, sweep: Sweep) -> int:
    """Submit a job for every lane that has runs left and no job alive; then wait for all, or say how to look.

    Where nothing is left, report. Raises UsageError where SLURM refuses the only jobs that there would be.
    """
    states = lane_states(sweep_dir)
    for state in states:
        if state.alive:
            _say(f"{told(state)}; it is left alone")
        elif not state.left:
            _say(f"{told(state)}; nothing is left to measure")
    if not any(state.alive or state.left for state in states):
        return report(sweep_dir, states)
    refused = _submit_all(sweep_dir, sweep, states)
    _say_how_to_look(sweep_dir)
    if sweep.config.launchers.wait:
        return wait_for(sweep_dir, sweep)
    return EXIT_RUN_FAILED if refused else 0


def _submit_all(sweep_dir: SweepDir, sweep: Sweep, states: list[LaneState]) -> bool:
    """Submit what is left, up to the first refusal; tell whether there was one. Raises it where no job is alive."""
    alive = any(state.alive for state in states)
    for state in states:
        if state.alive or not state.left:
            continue
        try:
            _submit(sweep_dir, sweep, state.lane)
        except UsageError as error:
            if not alive:
                raise UsageError(f"{error} (nothing was run; {sweep_dir.path} has the plan alone)") from error
            _say(f"lane {state.lane.number} and those after it are not submitted: {error}")
            return True
        alive = True
    return False


def _say_how_to_look(sweep_dir: SweepDir) -> None:
    if any(sweep_dir.path.is_relative_to(place) for place in UNSHARED):
        _say(f"note: {sweep_dir.path} is on a disk that most clusters do not share between nodes (output_dir)")
    _say(f"look:    interlace status {sweep_dir.path}")
    _say(f"stop:    interlace cancel {sweep_dir.path}")
    _say(f"report:  interlace report {sweep_dir.path}")


def _submit(sweep_dir: SweepDir, sweep: Sweep, lane: LaneJob) -> None:
    folder, name, now = lane_dir(sweep_dir, lane), f"interlace-{sweep.name}-{lane.number}", time.time()
    job = submit(folder.path / "slurm", sweep.config.launchers, name, scrubbed(os.environ), RunLane(str(folder.path)))
    later = replace(lane, job_ids=(*lane.job_ids, job), submitted_at=(*lane.submitted_at, now))
    lanes = read_lanes(sweep_dir)
    if lanes is not None:
        others = tuple(later if one.number == lane.number else one for one in lanes.lanes)
        write_lanes(sweep_dir, replace(lanes, lanes=others))
    _say(f"lane {lane.number}: job {job} submitted")


def wait_for(sweep_dir: SweepDir, sweep: Sweep) -> int:
    """Show what the lanes do until their jobs are over, then report. Ctrl-C leaves the jobs alone."""
    shown: dict[int, str] = {}
    try:
        while True:
            states = lane_states(sweep_dir)
            for state in states:
                if shown.get(state.lane.number) != (line := told(state)):
                    _say(line)
                shown[state.lane.number] = line
            if not any(state.alive for state in states):
                return report(sweep_dir, states)
            time.sleep(sweep.config.launchers.poll_s)
    except KeyboardInterrupt:
        _say(f"interlace: no longer waiting; the jobs go on: interlace status {sweep_dir.path} (or cancel)")
        return EXIT_INTERRUPTED


def report(sweep_dir: SweepDir, states: list[LaneState]) -> int:
    """Write and print the report of all lanes; 1 where a lane has not measured all that it was to."""
    loaded = load(sweep_dir.path)
    write_report(loaded)
    unfinished = [state for state in states if state.left]
    if loaded.records:
        print_analysis(loaded.analysis, stdout(), loaded.sweep_dir.path)
        for line in next_steps(sweep_dir, left=len(unfinished)):
            stdout().print(line, soft_wrap=True)
    for state in unfinished:
        if why := ending(sweep_dir, state):
            _say(why)
        _say(f"{told(state)}; go on: interlace resume {sweep_dir.path}")
    return exit_code(loaded, _say) or (EXIT_RUN_FAILED if unfinished else 0)


def plan_script(sweep: Sweep) -> str:
    """Return the sbatch script that every lane would be submitted with."""
    return script(Path("<sweep folder>/lanes/<lane>/slurm"), sweep.config.launchers, f"interlace-{sweep.name}-<lane>")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
