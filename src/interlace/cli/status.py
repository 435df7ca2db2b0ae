"""`interlace status DIR`: how far a sweep is, from the records on disk."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.cli.folders import folder_parser

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.records import Attempt
    from interlace.schema import Plan, Run, Sweep


def run(argv: list[str]) -> int:
    """Print the state of every run, what is on now, and what to type next."""
    parser = folder_parser("status", "Progress of a running or stopped sweep.", json=True)
    arguments = parser.parse_args(argv)
    from interlace.files import as_json_text, is_locked, open_sweep_dir  # noqa: PLC0415 (--help stays light)
    from interlace.lanes import read_lanes  # noqa: PLC0415
    from interlace.records import attempts, read_plan  # noqa: PLC0415
    from interlace.sweepfile import read_sweep  # noqa: PLC0415

    sweep_dir = open_sweep_dir(arguments.directory)
    if read_lanes(sweep_dir) is not None:
        return _lanes(sweep_dir, as_json=arguments.json)
    plan, sweep = read_plan(sweep_dir), read_sweep(sweep_dir)
    running = is_locked(sweep_dir)
    rows = [_row(run, attempts(sweep_dir, run), sweep, running=running) for run in plan.runs]
    current = _current(sweep_dir, plan, sweep) if running else None
    state = _state(rows, current, running=running)
    if arguments.json:
        sys.stdout.write(as_json_text({**state, "runs": rows}, indent=0))
    else:
        _print(sweep_dir, state, rows)
    return 0


def _lanes(sweep_dir: SweepDir, *, as_json: bool) -> int:
    """Print a line for every lane, and its runs."""
    from interlace.cli.lanes_state import ending, lane_states, told  # noqa: PLC0415
    from interlace.files import as_json_text  # noqa: PLC0415
    from interlace.lanes import lane_dir  # noqa: PLC0415
    from interlace.records import attempts, read_plan  # noqa: PLC0415
    from interlace.sweepfile import read_sweep  # noqa: PLC0415

    sweep, shown = read_sweep(sweep_dir), []
    states = lane_states(sweep_dir)
    for state in states:
        folder = lane_dir(sweep_dir, state.lane)
        plan = read_plan(folder)
        rows = [_row(run, attempts(folder, run), sweep, running=state.runs) for run in plan.runs]
        now = _current(folder, plan, sweep) if state.runs else None
        shown.append({**asdict(state), "alive": state.alive, "told": told(state), "now": now, "runs": rows})
        if not as_json:
            why = ending(sweep_dir, state)
            sys.stdout.write(f"{told(state, now['step'] if now else None)}\n" + (f"{why}\n" if why else ""))
            sys.stdout.writelines(f"  {_line(row)}\n" for row in rows)
    if as_json:
        sys.stdout.write(as_json_text({"lanes": shown}, indent=0))
    elif any(state.left and not state.alive for state in states):
        sys.stdout.write(f"go on:   interlace resume {sweep_dir.path}\n")
    return 0


def _line(row: dict[str, Any]) -> str:
    from interlace.report.table import milliseconds  # noqa: PLC0415

    detail = (row.get("cause") or "").partition("\n")[0] or (
        milliseconds(row["median_s"]) + " a step" if row.get("median_s") else ""
    )
    again = f" (attempt {row['attempts']})" if row["attempts"] > 1 else ""
    return f"{row['run']}  {row['status']}{again}  {detail}".rstrip()


def _row(run: Run, tries: list[Attempt], sweep: Sweep, *, running: bool) -> dict[str, Any]:
    from interlace.records import is_finished  # noqa: PLC0415

    name = sweep.arm(run.arm).name
    row = {"run": run.id, "round": run.round, "arm": name, "attempts": len(tries), "done": is_finished(tries)}
    record = next((one.record for one in reversed(tries) if one.record is not None), None)
    if record is None:
        return {**row, "status": ("running" if running else "cut") if tries else "to do"}
    cause = record.cause.message if record.cause else None
    median_s = record.steps.median_s if record.steps else None
    return {**row, "status": record.status, "median_s": median_s, "wall_s": record.wall_s, "cause": cause}


def _current(sweep_dir: SweepDir, plan: Plan, sweep: Sweep) -> dict[str, Any] | None:
    """Look at the run that is on: its step count comes from its own logs."""
    from interlace.errors import ReadError  # noqa: PLC0415
    from interlace.files import read_json  # noqa: PLC0415
    from interlace.lane.runlog import StepCounter  # noqa: PLC0415
    from interlace.records import attempts  # noqa: PLC0415

    try:
        state = read_json(sweep_dir.state, dict)
    except ReadError:  # there is none, or it went while we looked
        return None
    run = next((run for run in plan.runs if run.id == state.get("run")), None)
    tries = attempts(sweep_dir, run) if run else []
    if run is None or not tries:
        return None
    arm = sweep.arm(run.arm)
    steps = StepCounter(tries[-1].path, arm.config.measure, _log(tries[-1].path))()
    return {"run": run.id, "round": run.round, "arm": arm.name, "step": steps,
            "steps": arm.config.workload.steps, "for_s": round(time.time() - float(state["since"]), 1)}  # fmt: skip


def _log(run_dir: Path) -> Path | None:
    """Return the log that the running trainer writes outside its folder, where it does."""
    from interlace.files import read_json  # noqa: PLC0415
    from interlace.records import Started  # noqa: PLC0415

    started = run_dir / "started.json"
    log = read_json(started, Started).log if started.is_file() else None
    return Path(log) if log else None


def _state(rows: list[dict[str, Any]], current: dict[str, Any] | None, *, running: bool) -> dict[str, Any]:
    from interlace.plan import FIRST_RUN_GUESS_S  # noqa: PLC0415

    done = [row for row in rows if row["done"]]
    walls = [row["wall_s"] for row in done if row.get("wall_s")]
    each_s = sum(walls) / len(walls) if walls else FIRST_RUN_GUESS_S
    return {
        "state": "running" if running else "finished" if len(done) == len(rows) else "stopped",
        "done": len(done), "total": len(rows), "not_ok": sum(row["status"] not in ("ok", "to do") for row in done),
        "left_s": round(each_s * (len(rows) - len(done)), 1), "now": current,
    }  # fmt: skip


def _print(sweep_dir: SweepDir, state: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    from interlace.report.console import stdout  # noqa: PLC0415
    from interlace.report.terminal import minutes, next_steps  # noqa: PLC0415

    console = stdout()
    left = f", about {minutes(state['left_s'])} left" if state["done"] < state["total"] else ""
    bad = f", {state['not_ok']} not ok" if state["not_ok"] else ""
    console.print(f"{state['state']}: {state['done']} of {state['total']} runs done{bad}{left}")
    if now := state["now"]:
        of = f" of {now['steps']}" if now["steps"] else ""
        console.print(f"now: {now['run']}  step {now['step']}{of}  for {minutes(now['for_s'])}")
    for row in rows:
        console.print(f"  {_line(row)}", markup=False, soft_wrap=True)
    if state["state"] != "running":
        for line in next_steps(sweep_dir, left=state["total"] - state["done"]):
            console.print(line, soft_wrap=True)
