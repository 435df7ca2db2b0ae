"""`interlace plan [overrides]`: what a sweep would do."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.arms import own_settings
from interlace.cli.agents import plan_agents
from interlace.cli.deciding import decide
from interlace.config import run_hydra
from interlace.launch import Rendezvous, build_launch
from interlace.plan import FIRST_RUN_GUESS_S, make_plan
from interlace.report.console import stdout
from interlace.report.terminal import minutes

if TYPE_CHECKING:
    from interlace.launch import Launch
    from interlace.schema import Arm, Plan, Request, Sweep


HELP = """\
usage: interlace plan [overrides]

Shows what `interlace sweep` with the same arguments would do: the arms, the exact order of the runs, the command line
of each arm and an estimate of the time; under launchers=slurm also what sbatch would be given. Runs nothing, writes
nothing. `interlace sweep --help` lists the configuration groups and every key.

  interlace plan workload.batch_size=8,16
  interlace plan workload=command workload.command="python train.py" source.repo=. commit=main,HEAD
"""


def run(argv: list[str]) -> int:
    """Print arms, order, command lines and an estimate."""
    if "-h" in argv or "--help" in argv:
        sys.stdout.write(HELP)
        return 0
    return run_hydra(argv, "interlace plan", _show)


def _show(request: Request) -> int:
    sweep = decide(request)
    plan = make_plan(sweep)
    console = stdout()
    for line in [
        *_arms(sweep),
        "",
        *_order(sweep, plan),
        "",
        *_commands(sweep, plan),
        "",
        *_estimate(sweep, plan),
        *_submission(sweep),
    ]:
        console.print(line, markup=False, soft_wrap=True)
    return 0


def _submission(sweep: Sweep) -> list[str]:
    """Show what sbatch would be given, where a sweep is to be submitted, and what starts on further nodes."""
    launchers = sweep.config.launchers
    agents = plan_agents(launchers)
    if launchers.kind != "slurm":
        return ["", *agents] if agents else []
    from interlace.cli.submitting import plan_script  # noqa: PLC0415 (submitit, for SLURM alone)

    lanes = f"{launchers.lanes} lanes, each of these runs in an order of its own" if launchers.lanes > 1 else "one lane"
    job = [f"{lanes}; the job of a lane:", *(f"  {line}" for line in plan_script(sweep).splitlines())]
    return ["", *job, *agents]


def _arms(sweep: Sweep) -> list[str]:
    lines = [f"arms of {sweep.name}:"]
    for arm in sweep.arms:
        mark = "  (baseline)" if arm.slug == sweep.baseline else "" if arm.measure else "  (measure: false, is not run)"
        lines.append(f"  {arm.name}{mark}{_what_differs(arm)}")
    return lines + [f"note: {note}" for note in sweep.notes]


def _what_differs(arm: Arm) -> str:
    commit = f"  {arm.sha[:9]} {arm.subject}" if arm.sha else ""
    return commit + "".join(f"  {text}" for text in own_settings(arm))


def _order(sweep: Sweep, plan: Plan) -> list[str]:
    names = sweep.names
    lines = [f"order ({plan.order}, seed {plan.seed}), {len(plan.runs)} runs, one at a time:"]
    for number in sorted({run.round for run in plan.runs}):
        turn = [names[run.arm] for run in plan.runs if run.round == number]
        title = f"round {number}" if number else "burn-in (discarded)"
        lines.append(f"  {title}: {'  '.join(turn)}")
    return lines


def _commands(sweep: Sweep, plan: Plan) -> list[str]:
    """Show the first run of each arm; the others differ in their folder alone."""
    stamp = datetime.now().astimezone().strftime("<%Y-%m-%d_%H-%M-%S>")
    root = Path(sweep.config.output_dir).expanduser().resolve() / sweep.name / stamp / "runs"
    lines = ["command lines:"]
    for arm in (arm for arm in sweep.arms if arm.measure):
        run = next(run for run in plan.runs if run.arm == arm.slug and run.round > 0)
        worktree = Path(f"<worktree of {arm.sha[:9]}>") if arm.sha and arm.config.commit else _repo(arm)
        launch = build_launch(arm, root / run.id, worktree, os.environ, _place(sweep.config.launchers.nodes))
        where = "" if launch.cwd == Path.cwd() else f" (in {launch.cwd})"
        lines += [f"  {arm.name}{where}:", f"    {shlex.join([*_environment(arm, launch), *launch.argv])}"]
    return lines


def _environment(arm: Arm, launch: Launch) -> list[str]:
    """Return, as arguments of env(1), the variables that the configuration sets or takes away."""
    config = arm.config
    threads = () if config.ranks.omp_num_threads is None else ("OMP_NUM_THREADS",)
    own = {name: launch.env[name] for name in (*threads, *config.workload.env, *config.env)}
    removed = [word for name, value in own.items() if value is None for word in ("-u", name)]
    words = [*removed, *(f"{name}={value}" for name, value in own.items() if value is not None)]
    return ["env", *words] if words else []


def _place(nodes: int) -> Rendezvous | None:
    """Return words for what differs from node to node, or is known only when a run starts."""
    name, port = "<name>", "<free port there>"
    return Rendezvous(nodes, f"<0 to {nodes - 1}>", name, "<first node>", port) if nodes > 1 else None


def _repo(arm: Arm) -> Path | None:
    return Path(arm.config.source.repo).expanduser().resolve() if arm.config.source.repo else None


def _estimate(sweep: Sweep, plan: Plan) -> list[str]:
    total = len(plan.runs) * FIRST_RUN_GUESS_S
    limit = len(plan.runs) * sweep.config.measure.timeout_s
    return [
        (
            f"time: {len(plan.runs)} runs; {minutes(total)} if a run takes {FIRST_RUN_GUESS_S:g} s, "
            f"{minutes(limit)} at most (measure.timeout_s); nothing was run"
        )
    ]
