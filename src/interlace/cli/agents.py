"""The other nodes of the job that a lane runs in, and how their agents are started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.lane.nodes.remote import AgentCommand
from interlace.slurm.environment import for_a_step
from interlace.slurm.steps import other_nodes, srun_argv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.settings import LaunchersConfig


def agents_of_job(environ: Mapping[str, str], launchers: LaunchersConfig) -> list[AgentCommand]:
    """Return an agent for every node of this job but the first; none for a lane of one node.

    Raises UsageError where the job has other nodes than were asked for.
    """
    if launchers.nodes == 1:
        return []
    handed, job_id = for_a_step(environ), environ.get("SLURM_JOB_ID", "")
    return [
        AgentCommand(name, srun_argv(job_id, name, launchers.slurm_srun_args), handed)
        for name in other_nodes(environ, launchers.nodes)
    ]
