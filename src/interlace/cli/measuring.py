"""From a decided sweep to its report: what `sweep`, `aa` and `resume` have in common."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from interlace import __version__, history, process
from interlace.checkout import checked_out
from interlace.cli import EXIT_INTERRUPTED
from interlace.cli.agents import held_allocation
from interlace.errors import UsageError
from interlace.extend import extended, stopped_because
from interlace.files import SweepDir, locked, make_sweep_dir, write_json
from interlace.lane.lane import Lane
from interlace.lane.loop import close_cut_runs, execute
from interlace.lane.nodes.environ import rank_environ
from interlace.lane.nodes.node import all_of
from interlace.lane.nodes.remote import agents, first_address
from interlace.loaded import LoadedSweep, load
from interlace.monitor.source import open_source
from interlace.node import fingerprint
from interlace.plan import make_plan
from interlace.records import remaining
from interlace.report.console import stdout
from interlace.report.terminal import TerminalObserver, next_steps, print_analysis
from interlace.report.written import write_report
from interlace.sweepfile import write_sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlace.lane.nodes.remote import AgentCommand, RemoteNode
    from interlace.monitor.readings import GpuSource
    from interlace.schema import Plan, Sweep
    from interlace.settings import Source

EXIT_RUN_FAILED = 1
EXIT_VERDICT = 3


def measured_new(sweep: Sweep) -> tuple[int, LoadedSweep]:
    """Write down what was decided, check out, measure, report; return the exit code and what is on disk."""
    plan = make_plan(sweep)
    sweep_dir = make_sweep_dir(Path(sweep.config.output_dir), sweep.name, datetime.now().astimezone())
    write_sweep(sweep_dir, sweep, plan, __version__)
    write_json(sweep_dir.plan, plan)
    return measured_here(sweep_dir, sweep, plan)


def measured_here(sweep_dir: SweepDir, sweep: Sweep, plan: Plan, *, anywhere: bool = False) -> tuple[int, LoadedSweep]:
    """Measure on this machine, or on the nodes of the allocation whose first one it is, within its time."""
    held = held_allocation(os.environ, sweep.config.launchers)
    return measure(sweep_dir, sweep, plan, anywhere=anywhere, ends_at=held.ends_at, other_nodes=held.others)


def measure(
    sweep_dir: SweepDir,
    sweep: Sweep,
    plan: Plan,
    *,
    anywhere: bool = False,
    ends_at: float | None = None,
    other_nodes: Sequence[AgentCommand] = (),
) -> tuple[int, LoadedSweep]:
    """Measure what is left of a plan, then report. Interrupted or not, what was measured is on disk.

    A sweep goes on on the node on which it began, unless `anywhere`; no round is begun that would not be over by
    `ends_at` (unix seconds). `other_nodes` make one lane together with this one. Raises UsageError, SourceError and
    NodeLostError.
    """
    rounds = len({run.round for run in plan.runs if run.round})
    observer = TerminalObserver(sweep.names, len(plan.runs), rounds)
    interrupted = False
    with contextlib.ExitStack() as held:
        held.enter_context(locked(sweep_dir))
        held.enter_context(process.stops_interrupt())
        monitors = {kind: held.enter_context(contextlib.closing(open_source(kind))) for kind in _sources(sweep)}
        gpus = next(iter(monitors.values()))
        held.callback(sweep_dir.state.unlink, missing_ok=True)
        held.callback(observer.close)
        others = held.enter_context(agents(other_nodes, os.environ, _sources(sweep), sweep_dir.nodes))
        _same_node(sweep_dir, gpus, others, anywhere=anywhere)
        for cut in close_cut_runs(sweep_dir, plan, others):
            observer.say(f"{cut.run.id} was cut; it is measured again")
        try:
            _measure_left(sweep_dir, sweep, plan, monitors, others, observer, ends_at)
        except KeyboardInterrupt:
            interrupted = True
            observer.close()
            observer.say("interlace: interrupted; what was measured is kept")
        _remember_noise(sweep_dir)
    loaded = load(sweep_dir.path)
    write_report(loaded)
    code = EXIT_INTERRUPTED if interrupted else exit_code(loaded, observer.say)
    with contextlib.suppress(OSError):  # a terminal that was closed; the report's files are written
        _show(loaded)
    if not interrupted and (why := stopped_because(loaded)):
        observer.say(f"adaptive: {why}")
    return code, loaded


def _sources(sweep: Sweep) -> list[Source]:
    """List every `monitor.source` that an arm names; one that sees GPUs comes first, for gate and fingerprint."""
    kinds = dict.fromkeys(arm.config.monitor.source for arm in sweep.arms)
    return sorted(kinds, key=lambda kind: kind == "off")


def _measure_left(
    sweep_dir: SweepDir,
    sweep: Sweep,
    plan: Plan,
    monitors: Mapping[Source, GpuSource],
    others: tuple[RemoteNode, ...],
    observer: TerminalObserver,
    ends_at: float | None,
) -> None:
    observer.say(f"{len(plan.runs)} runs of {len(sweep.arms)} arms into {sweep_dir.path}")
    if extended(load(sweep_dir.path)) == plan and not remaining(sweep_dir, plan):
        observer.say("every run of the plan is finished; nothing is left to measure")
        return
    with checked_out(sweep, sweep_dir.path, observer.say) as trees:
        gpus = next(iter(monitors.values()))
        lane = Lane(
            sweep_dir, sweep, trees, gpus, rank_environ(gpus, os.environ), observer, monitors, ends_at,
            others=others, address=first_address(others),
        )  # fmt: skip
        execute(lane, plan, lambda _: extended(load(sweep_dir.path)))


def _same_node(sweep_dir: SweepDir, gpus: GpuSource, others: Sequence[RemoteNode], *, anywhere: bool) -> None:
    """Write the fingerprint of every node at the start; later, refuse to go on with a sweep that began elsewhere."""
    begun = sweep_dir.node.exists()
    if begun and anywhere:
        return
    here, there = fingerprint(gpus), all_of([one.fingerprint() for one in others])
    if not begun:
        for other, found in zip(others, there, strict=True):
            write_json(sweep_dir.nodes / f"{other.name}.json", found)
        write_json(sweep_dir.node, here)
        return
    before = history.fingerprints(sweep_dir)
    now = [msgspec.to_builtins(one) for one in (here, *there)]
    if sorted(map(history.node_key, before)) != sorted(map(history.node_key, now)):
        where = " and ".join(str(one.get("hostname")) for one in before)
        raise UsageError(
            f"{sweep_dir.path} was begun on {where} (or with other GPUs); a round may not mix nodes. "
            "Go on there, or start anew here; --anywhere goes on all the same"
        )


def _remember_noise(sweep_dir: SweepDir) -> None:
    """Add the sweep to the node's history, and keep in its folder what is unusual: a report is made anew from there."""
    loaded = load(sweep_dir.path)
    analysis, workload = loaded.analysis, history.workload_key(loaded.sweep.config.workload)
    if analysis.s_run is None or analysis.left:
        return
    node = history.machine_key(sweep_dir)
    noise = history.Noise(node, workload, history.now(), analysis.s_run, analysis.drift, str(sweep_dir.path))
    word = history.unusual(noise, history.remember(noise, history.history_path()))
    write_json(sweep_dir.noise, {"noise": noise, "unusual": word})


def _show(loaded: LoadedSweep) -> None:
    console = stdout()
    print_analysis(loaded.analysis, console, loaded.sweep_dir.path)
    for line in next_steps(loaded.sweep_dir, left=loaded.analysis.left):
        console.print(line, soft_wrap=True)


def exit_code(loaded: LoadedSweep, say: Callable[[str], None]) -> int:
    """Return 1 if a run is not ok, 3 if `fail_if` says so (and say so), else 0."""
    rule = loaded.sweep.config.fail_if
    verdicts = [one.verdict for one in loaded.analysis.comparisons]
    if fails := _fails(rule, verdicts):
        say(f"fail_if={rule}: the verdicts are {', '.join(verdicts)}")
    if _not_ok(loaded):
        return EXIT_RUN_FAILED
    return EXIT_VERDICT if fails else 0


def _not_ok(loaded: LoadedSweep) -> bool:
    """Tell whether a run of the plan is not ok; one that was cut counts no longer once its round was planned anew."""
    counted = {attempt.run.id for attempt in loaded.used}
    failed = {one.run.id for one in loaded.tries if one.record is not None and one.record.status != "interrupted"}
    return any(
        run.id not in counted and (run.round not in loaded.plan.repeated or run.id in failed)
        for run in loaded.plan.runs
    )


def _fails(rule: str | None, verdicts: Sequence[str]) -> bool:
    if rule == "slower":
        return "slower" in verdicts
    return rule == "not_faster" and any(verdict != "faster" for verdict in verdicts)
