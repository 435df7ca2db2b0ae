"""What a surrounding Slurm job left in the environment: what may not be handed on, and what it says of us. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.errors import ReadError
from interlace.slurm.nodelist import expand

if TYPE_CHECKING:
    from collections.abc import Mapping

SITES_CHOICE = frozenset(
    {
        "SLURM_ACCOUNT", "SLURM_BITSTR_LEN", "SLURM_CLUSTERS", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT",
        "SLURM_MPI_TYPE", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION", "SLURM_TIME_FORMAT", "SLURM_WCKEY",
    }
)  # fmt: skip
"""Of all SLURM_*, those that a user or a site sets and Slurm does not set inside a job."""

_OF_A_JOB = re.compile(
    r"SLURM_.*|SLURMD_.*|SRUN_(CPUS_PER_TASK|DEBUG)|SBATCH_(CPU|MEM)_BIND.*"
    # what Slurm hides from this job's ranks is not what the next job may see
    r"|(CUDA|HIP|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
    # the rank that this process is, by srun's PMI, mpirun or torchrun
    r"|PMI_(RANK|SIZE|FD|ID|JOBID|LOCAL\w*|SPAWNED)|PMI2_\w+|PMIX_(?!MCA_)\w+|OMPI_(COMM_WORLD_\w+|UNIVERSE_SIZE)"
    r"|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)|TORCHELASTIC_.*"
)

GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

_FOLDERS = ("TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR")

LAUNCHERS = frozenset({"torchrun", "accelerate"})
"""These start the ranks of a node themselves, so one of them has to run on each node."""


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what describes a job, a step or a rank; what the site chose stays.

    Options handed down by a job (SLURM_MEM_PER_CPU beside SLURM_MEM_PER_NODE, SLURM_CPU_BIND) make sbatch and srun
    refuse, or lay ranks out wrongly. A job's own temporary folder goes with it.
    """
    job_id = inside_job(environ)
    return {
        name: value
        for name, value in environ.items()
        if (name in SITES_CHOICE or not _OF_A_JOB.fullmatch(name)) and not _is_folder_of(job_id, name, value)
    }


def for_a_step(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what srun is to see inside its own job: nothing that the job or a site would have it ask for in our name.

    What SLURM itself hides of the GPUs here is not what it hides on another node; a user's own choice is handed on.
    """
    by_slurm = any(name in environ for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"))
    return {
        name: value
        for name, value in environ.items()
        if name in SITES_CHOICE or not _OF_A_JOB.fullmatch(name) or (name in GPU_LISTS and not by_slurm)
    }


def inside_job(environ: Mapping[str, str]) -> str | None:
    """Return the job whose allocation this shell holds (salloc, sbatch, srun --pty); None outside of any."""
    job_id = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    return job_id if re.fullmatch(r"[1-9]\d*", job_id) else None


def on_node_of_job(environ: Mapping[str, str], hostname: str) -> bool:
    """Tell whether this process runs on a node of its allocation; plain `salloc` leaves the shell where it was."""
    if inside_job(environ) is None:
        return False
    if "SLURMD_NODENAME" in environ:
        return True
    try:
        nodes = expand(environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST") or "")
    except ReadError:
        return False
    return hostname.partition(".")[0] in {node.partition(".")[0] for node in nodes}


def refuse_several_tasks(environ: Mapping[str, str]) -> str | None:
    """Say why this process may not measure: srun started it several times. None when it did not."""
    tasks = _first(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if tasks is None or tasks == 1 or not _in_step(environ):
        return None
    return (
        f"srun started this {tasks} times (SLURM_STEP_NUM_TASKS={tasks}), and each would measure beside the others; "
        "start it once, it starts the ranks itself: srun --nodes=1 --ntasks=1 --cpus-per-task=N interlace sweep ..."
    )


def refuse_layout(environ: Mapping[str, str], kind: str, nproc: int) -> str | None:
    """Say why ranks cannot be started in this job's tasks; None when they can.

    `kind` is how the ranks of a node start, `nproc` how many each start makes. What starts more than one rank has to
    run once on each node; ranks that Slurm starts itself run once a task.
    """
    tasks, nodes = tasks_and_nodes(environ)
    if tasks is None or not starts_ranks(kind, nproc) or tasks == nodes or _is_batch_step(environ, nodes):
        return None
    made = f"SLURM_NTASKS={tasks} on {nodes} node{'s' if nodes > 1 else ''}"
    if tasks < nodes:
        return f"{kind} would run on {tasks} of {nodes} nodes ({made}); ask for one task on each node"
    return (
        f"{kind} would be started once per task: {made} with nproc={nproc} make {tasks * nproc} ranks where "
        f"{nodes * nproc} are meant; ask for one task on each node (--ntasks-per-node=1)"
    )


def world_size(environ: Mapping[str, str], nproc: int) -> int:
    """Return how many ranks one start in each task of this job makes; without tasks, one start."""
    tasks, nodes = tasks_and_nodes(environ)
    return nproc * (1 if tasks is None or _is_batch_step(environ, nodes) else tasks)


def starts_ranks(kind: str, nproc: int) -> bool:
    """Tell whether one start makes the ranks of a whole node."""
    return kind in LAUNCHERS or nproc > 1


def tasks_and_nodes(environ: Mapping[str, str]) -> tuple[int | None, int]:
    """Return the tasks of this step or job, if it says, and its nodes (1 where it does not)."""
    nodes = _first(environ, "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES") or 1
    tasks = _first(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    if tasks is None:
        tasks = _total(environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE") or "")
    if tasks is None and (per_node := _first(environ, "SLURM_NTASKS_PER_NODE")) is not None:
        tasks = per_node * nodes
    return tasks, nodes


def _is_batch_step(environ: Mapping[str, str], nodes: int) -> bool:
    """Tell a batch script by its missing step number: it runs once, however many tasks its job may start."""
    started = environ.get("SLURM_PROCID") == "0" and "SLURMD_NODENAME" in environ
    return started and not _in_step(environ) and nodes == 1


def _in_step(environ: Mapping[str, str]) -> bool:
    """Tell a task that srun started from a batch script and from a shell that salloc left where it was."""
    return "SLURM_STEP_ID" in environ or "SLURM_STEPID" in environ


def _first(environ: Mapping[str, str], *names: str) -> int | None:
    found = (environ[name] for name in names if re.fullmatch(r"[1-9]\d*", environ.get(name, "")))
    return next(map(int, found), None)


def _total(per_node: str) -> int | None:
    """Add up `8(x2),4`: Slurm's tasks per node."""
    total = 0
    for part in per_node.split(","):
        counted = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if counted is None:
            return None
        total += int(counted[1]) * int(counted[2] or 1)
    return total or None


def _is_folder_of(job_id: str | None, name: str, value: str) -> bool:
    """Tell a prolog's private folder (/tmp/slurm.4242), which exists on that job's nodes only."""
    return job_id is not None and name in _FOLDERS and re.search(rf"(?<!\d){job_id}(?!\d)", value) is not None
