"""How a lane of several nodes starts its agents: one step of the job on every other node. Pure."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.slurm.environment import inside_job
from interlace.slurm.nodelist import expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AGENT = ("-P", "-m", "interlace.lane.nodes.agent")
"""What an agent is; -P keeps the current folder from shadowing the standard library."""


def srun_argv(job_id: str, node: str, srun_args: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that starts the agent of a node; `srun_args` come last, so that they win.

    --overlap: a step of the user's may be there as well. --cpu-bind=none, --mem=0 and no --cpus-per-task: the step
    has all CPUs, memory and GPUs of the job on that node (a step that names CPUs gets these alone since 22.05).
    """
    return (
        "srun", f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--cpu-bind=none",
        "--mem=0", "--job-name=interlace-agent", *srun_args, sys.executable, *AGENT,
    )  # fmt: skip


def other_nodes(environ: Mapping[str, str], nodes: int) -> tuple[str, ...]:
    """Return the first nodes of this job beside the one we are on: `nodes` in all.

    Raises UsageError where there are fewer.
    """
    names = nodes_of(environ)
    here = environ.get("SLURMD_NODENAME")
    if inside_job(environ) is None or here not in names:
        raise UsageError(f"launchers.nodes={nodes} needs a job of so many nodes, and this is on no node of any")
    if len(names) < nodes:
        raise UsageError(f"launchers.nodes={nodes}, and this job has {len(names)} ({', '.join(names)})")
    return tuple(name for name in names if name != here)[: nodes - 1]


def nodes_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes of this job, none outside of any."""
    return expand(environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST") or "")
