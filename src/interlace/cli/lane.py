"""One lane inside its job: what a submitted job runs. Not a command: SLURM calls it on the lane's node."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.cli import EXIT_INTERRUPTED
from interlace.cli.agents import agents_of_job
from interlace.cli.measuring import measure
from interlace.errors import InterlaceError
from interlace.files import locked, open_sweep_dir, write_json
from interlace.lanes import Session, session_path, sessions
from interlace.node import environment_versions, node_name
from interlace.plan import add_round
from interlace.records import attempts, is_finished, read_plan, remaining
from interlace.slurm.nodelist import compact
from interlace.sweepfile import read_sweep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from interlace.files import SweepDir
    from interlace.lane.nodes.remote import AgentCommand
    from interlace.schema import Plan

S_PER_MIN = 60.0


@dataclass(frozen=True)
class RunLane:
    """The function that is submitted; `folder` is the lane's."""

    folder: str

    def __call__(self) -> int:
        """Measure what is left of the lane, on its nodes, within the job's time.

        Ends the process with the exit code of a sweep where that is not 0: submitit would take it for a result, and
        SLURM would call the job completed.
        """
        _heed_signals()
        sweep_dir = open_sweep_dir(Path(self.folder))
        launchers = read_sweep(sweep_dir).config.launchers
        others = agents_of_job(os.environ, launchers)
        nodes = compact([node_name(), *(other.name for other in others)])
        # SLURM's warning comes as early as it was asked for, and up to a minute earlier (sbatch(1), --signal).
        limit_s = launchers.timeout_min * S_PER_MIN - launchers.slurm_signal_delay_s - S_PER_MIN
        started_at = time.time()
        me = Session(
            os.environ.get("SLURM_JOB_ID", f"pid-{os.getpid()}"), nodes, sys.executable,
            environment_versions(), started_at, started_at + limit_s, restart=_restarts(os.environ),
        )  # fmt: skip
        if code := _session(sweep_dir, me, others):
            raise SystemExit(code)
        return 0


def _session(sweep_dir: SweepDir, me: Session, others: Sequence[AgentCommand]) -> int:
    """Measure, and write down how it ended, whatever that was; return the exit code of a sweep."""
    path, before, ended, code = session_path(sweep_dir, me.job_id, me.restart), sessions(sweep_dir), "failed", 0
    write_json(path, me)
    try:
        plan = _whole_rounds_only(sweep_dir, before, me)
        sweep = read_sweep(sweep_dir)
        code, _ = measure(sweep_dir, sweep, plan, anywhere=True, ends_at=me.ends_at, other_nodes=others)
        ended = _ended(sweep_dir, code)
    except InterlaceError as error:
        ended, code = f"failed ({error})", error.exit_code
        sys.stderr.write(f"interlace: error: {error}\n")
    except KeyboardInterrupt:
        ended, code = "interrupted", EXIT_INTERRUPTED
    finally:
        write_json(path, replace(me, ended_at=time.time(), ended=ended))
    return code


def _heed_signals() -> None:
    """Stop at SIGTERM (scancel, requeue, preemption), and at the warning before the job's time is up as at SIGTERM.

    submitit would pass over SIGTERM, and might requeue the job at the warning.
    """
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGUSR2, lambda _number, _frame: signal.raise_signal(signal.SIGTERM))
    signal.signal(signal.SIGCONT, signal.SIG_DFL)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _restarts(environ: Mapping[str, str]) -> int:
    """Return how often SLURM has requeued this job."""
    count = environ.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdecimal() else 0


def _ended(sweep_dir: SweepDir, code: int) -> str:
    """Say in a word how the lane's job ended."""
    if code == EXIT_INTERRUPTED:
        return "interrupted"
    return "out of time" if remaining(sweep_dir, read_plan(sweep_dir)) else "finished"


def _whole_rounds_only(sweep_dir: SweepDir, before: Sequence[Session], me: Session) -> Plan:
    """Return the plan with every round that an earlier job left in its middle planned anew; write it down."""
    with locked(sweep_dir):  # a job that SLURM gave up may still be at work
        plan = read_plan(sweep_dir)
        if not before:
            return plan
        last = before[-1]
        moved = f"its lane moved from {last.node} to {me.node}" if last.node != me.node else None
        whole = without_cut_rounds(sweep_dir, plan, moved or f"job {last.job_id} ended in the middle of it")
        if whole != plan:
            write_json(sweep_dir.plan, whole)
        return whole


def without_cut_rounds(sweep_dir: SweepDir, plan: Plan, why: str) -> Plan:
    """Plan every round anew of which a part was measured by another job: a round is one job's, on one node."""
    for number in sorted({run.round for run in plan.runs if run.round > 0} - plan.repeated):
        done = [is_finished(attempts(sweep_dir, run)) for run in plan.runs if run.round == number]
        if any(done) and not all(done):
            plan = add_round(plan, f"it repeats round {number}: {why}", repeats=number)
    return plan
