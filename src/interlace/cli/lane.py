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
from interlace.files import open_sweep_dir, write_json
from interlace.lanes import Session, session_path, sessions
from interlace.node import PACKAGES, installed_versions, node_name
from interlace.plan import add_round
from interlace.records import attempts, is_finished, read_plan, remaining
from interlace.slurm.nodelist import compact
from interlace.sweepfile import read_sweep

if TYPE_CHECKING:
    from types import FrameType

    from interlace.files import SweepDir
    from interlace.schema import Plan

S_PER_MIN = 60.0


@dataclass(frozen=True)
class RunLane:
    """The function that is submitted; `folder` is the lane's."""

    folder: str

    def __call__(self) -> int:
        """Measure what is left of the lane, on its nodes, within the job's time; return the exit code of a sweep."""
        sweep_dir = open_sweep_dir(Path(self.folder))
        sweep, plan = read_sweep(sweep_dir), read_plan(sweep_dir)
        before = sessions(sweep_dir)
        launchers = sweep.config.launchers
        others = agents_of_job(os.environ, launchers)
        nodes = compact([node_name(), *(other.name for other in others)])
        # SLURM's warning comes as early as it was asked for, and up to a minute earlier (sbatch(1), --signal).
        limit_s = launchers.timeout_min * S_PER_MIN - launchers.slurm_signal_delay_s - S_PER_MIN
        started_at = time.time()
        me = Session(
            os.environ.get("SLURM_JOB_ID", f"pid-{os.getpid()}"), nodes, sys.executable,
            installed_versions(PACKAGES), started_at, started_at + limit_s,
        )  # fmt: skip
        path = session_path(sweep_dir, me.job_id)
        write_json(path, me)
        signal.signal(signal.SIGUSR2, _stop)  # sent some time before the job's time is up
        ended = "failed"
        try:
            if before and before[-1].node != me.node:
                plan = without_cut_rounds(sweep_dir, plan, f"its lane moved from {before[-1].node} to {me.node}")
                write_json(sweep_dir.plan, plan)
            code, _ = measure(sweep_dir, sweep, plan, anywhere=True, ends_at=me.ends_at, other_nodes=others)
            ended = _ended(sweep_dir, code)
        except KeyboardInterrupt:  # before the first run: its agents were about to start
            code, ended = EXIT_INTERRUPTED, "interrupted"
        except InterlaceError as error:
            ended = f"failed ({error})"
            raise
        finally:
            write_json(path, replace(me, ended_at=time.time(), ended=ended))
        return code


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _ended(sweep_dir: SweepDir, code: int) -> str:
    """Say in a word how the lane's job ended."""
    if code == EXIT_INTERRUPTED:
        return "interrupted"
    return "out of time" if remaining(sweep_dir, read_plan(sweep_dir)) else "finished"


def without_cut_rounds(sweep_dir: SweepDir, plan: Plan, why: str) -> Plan:
    """Plan every round anew of which a part was measured elsewhere: a round never mixes two nodes."""
    for number in sorted({run.round for run in plan.runs if run.round > 0} - plan.repeated):
        done = [is_finished(attempts(sweep_dir, run)) for run in plan.runs if run.round == number]
        if any(done) and not all(done):
            plan = add_round(plan, f"it repeats round {number}: {why}", repeats=number)
    return plan
