"""From a decided sweep to its report: what `sweep`, `aa` and `resume` have in common."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interlace import __version__, history
from interlace.checkout import checked_out
from interlace.cli import EXIT_INTERRUPTED
from interlace.errors import UsageError
from interlace.extend import extended, stopped_because
from interlace.files import SweepDir, locked, make_sweep_dir, read_json, write_json
from interlace.lane.lane import Lane
from interlace.lane.loop import close_cut_runs, execute
from interlace.load import LoadedSweep, load
from interlace.monitor.readings import GpuReadError
from interlace.monitor.source import open_source
from interlace.node import fingerprint, gpu_map
from interlace.plan import make_plan
from interlace.report.terminal import TerminalObserver, next_steps, print_analysis, stdout
from interlace.report.written import write_report
from interlace.source import without_git_variables
from interlace.sweepfile import write_sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.monitor.readings import GpuSource
    from interlace.schema import Plan, Sweep

EXIT_RUN_FAILED = 1
EXIT_VERDICT = 3


def measured_new(sweep: Sweep) -> tuple[int, LoadedSweep]:
    """Write down what was decided, check out, measure, report; return the exit code and what is on disk."""
    if sweep.config.launchers.kind != "local":
        raise UsageError(f"launchers={sweep.config.launchers.kind} is not there yet; use launchers=local")
    plan = make_plan(sweep)
    sweep_dir = make_sweep_dir(Path(sweep.config.output_dir).expanduser(), sweep.name, datetime.now().astimezone())
    write_sweep(sweep_dir, sweep, plan, __version__)
    write_json(sweep_dir.plan, plan)
    return measure(sweep_dir, sweep, plan)


def measure(sweep_dir: SweepDir, sweep: Sweep, plan: Plan) -> tuple[int, LoadedSweep]:
    """Measure what is left of a plan, then report. Interrupted or not, what was measured is on disk."""
    observer = TerminalObserver({arm.slug: arm.name for arm in sweep.arms}, len(plan.runs), sweep.config.rounds)
    with locked(sweep_dir), contextlib.closing(open_source(sweep.config.monitor.source)) as gpus:
        for cut in close_cut_runs(sweep_dir, plan):
            observer.say(f"{cut.run.id} was cut; it is measured again")
        observer.say(f"{len(plan.runs)} runs of {len(sweep.arms)} arms into {sweep_dir.path}")
        _write_node(sweep_dir, gpus)
        try:
            with checked_out(sweep, sweep_dir.path, observer.say) as trees:
                lane = Lane(sweep_dir, sweep, trees, gpus, _environ(gpus), observer)
                execute(lane, plan, lambda _: extended(load(sweep_dir.path)))
        except KeyboardInterrupt:
            observer.close()
            sys.stderr.write("interlace: interrupted; what was measured is kept\n")
            return EXIT_INTERRUPTED, _show(sweep_dir)
        finally:
            observer.close()
            sweep_dir.state.unlink(missing_ok=True)
        _remember_noise(sweep_dir)
    loaded = _show(sweep_dir)
    if why := stopped_because(loaded):
        observer.say(f"adaptive: {why}")
    return exit_code(loaded), loaded


def _environ(gpus: GpuSource) -> dict[str, str]:
    """Return the calling shell's environment, without a git hook's, and the map of GPUs for the ranks."""
    try:
        found = json.dumps(gpu_map(gpus.inventory()))
    except GpuReadError:
        found = "[]"
    return {**without_git_variables(os.environ), "INTERLACE_GPU_MAP": found}


def _write_node(sweep_dir: SweepDir, gpus: GpuSource) -> None:
    """Write the fingerprint of the node once; a resumed sweep keeps the first one."""
    if not sweep_dir.node.exists():
        write_json(sweep_dir.node, fingerprint(gpus))


def _remember_noise(sweep_dir: SweepDir) -> None:
    """Add the sweep to the node's history, and keep in its folder what is unusual: a report is made anew from there."""
    loaded = load(sweep_dir.path)
    analysis, workload = loaded.analysis, loaded.sweep.config.workload.name
    if analysis.s_run is None or analysis.left:
        return
    node = history.node_key(read_json(sweep_dir.node, dict))
    noise = history.Noise(node, workload, history.now(), analysis.s_run, analysis.drift, str(sweep_dir.path))
    word = history.unusual(noise, history.remember(noise, history.history_path()))
    write_json(sweep_dir.noise, {"noise": noise, "unusual": word})


def _show(sweep_dir: SweepDir) -> LoadedSweep:
    """Write the report's files, then print it."""
    loaded = load(sweep_dir.path)
    write_report(loaded)
    console = stdout()
    print_analysis(loaded.analysis, console)
    for line in next_steps(sweep_dir, left=loaded.analysis.left):
        console.print(line, soft_wrap=True)
    return loaded


def exit_code(loaded: LoadedSweep) -> int:
    """Return 1 if a run is not ok, 3 if `fail_if` says so, else 0."""
    counted = {attempt.run.id for attempt in loaded.used}
    if any(run.id not in counted for run in loaded.plan.runs):
        return EXIT_RUN_FAILED
    verdicts = [one.verdict for one in loaded.analysis.comparisons]
    return EXIT_VERDICT if _fails(loaded.sweep.config.fail_if, verdicts) else 0


def _fails(rule: str | None, verdicts: Sequence[str]) -> bool:
    if rule == "slower":
        return "slower" in verdicts
    return rule == "not_faster" and any(verdict != "faster" for verdict in verdicts)
