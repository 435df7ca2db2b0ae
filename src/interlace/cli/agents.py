"""The job that a lane runs in: the agents of its other nodes, and when its time is up."""

from __future__ import annotations

import platform
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.lane.nodes.remote import AgentCommand
from interlace.slurm.environment import for_a_step, inside_job, on_node_of_job
from interlace.slurm.queue import job_states
from interlace.slurm.steps import other_nodes, srun_argv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.settings import LaunchersConfig

LAST_MOMENTS_S = 60.0
"""Of an allocation's time, what the report and SLURM's own ending may need."""


@dataclass(frozen=True)
class Allocation:
    """What a lane has of an allocation that the user holds; `ends_at` in unix seconds, None for no limit."""

    others: tuple[AgentCommand, ...] = ()
    ends_at: float | None = None


def held_allocation(environ: Mapping[str, str], launchers: LaunchersConfig) -> Allocation:
    """Return what the job has whose node this is; nothing outside of any. Asks squeue for the time.

    Raises UsageError where the job has fewer nodes than were asked for.
    """
    others = agents_of_job(environ, launchers)
    job = inside_job(environ)
    if job is None or not on_node_of_job(environ, platform.node()):
        return Allocation(others)
    left_s = job_states([job], {})[job].left_s
    return Allocation(others, None if left_s is None else time.time() + left_s - LAST_MOMENTS_S)


def agents_of_job(environ: Mapping[str, str], launchers: LaunchersConfig) -> tuple[AgentCommand, ...]:
    """Return an agent for every further node of this lane; none for a lane of one node.

    Raises UsageError where the job has fewer nodes than were asked for.
    """
    if launchers.nodes == 1:
        return ()
    handed, job_id = for_a_step(environ), environ.get("SLURM_JOB_ID", "")
    return tuple(
        AgentCommand(name, srun_argv(job_id, name, launchers.slurm_srun_args), handed)
        for name in other_nodes(environ, launchers.nodes)
    )


def plan_agents(launchers: LaunchersConfig) -> list[str]:
    """Return, for a reader, how a lane of several nodes would start its agents."""
    if launchers.nodes == 1:
        return []
    command = shlex.join(srun_argv("<id>", "<node>", launchers.slurm_srun_args))
    return [f"a lane has {launchers.nodes} nodes; on every one but the first it starts its agent:", f"  {command}"]
