"""What the facts say about the job, the container and the environment that a measurement would run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.doctor.finding import Finding, ok, problem, warning
from interlace.rank.numa import parse_cpulist
from interlace.slurm.environment import on_node_of_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import NodeFacts

_UNSET = "unset it before you measure"


def slurm(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether this is a SLURM job, and whether the node is all its own."""
    job = facts.surroundings.slurm
    if "SLURM_JOB_ID" not in job:
        yield ok("SLURM", "not in a job")
        return
    if "SLURM_JOB_NODELIST" in job and not on_node_of_job(job, facts.node.hostname):
        what = f"this shell holds job {job['SLURM_JOB_ID']} on {job['SLURM_JOB_NODELIST']}, and this is no node of it"
        yield warning("SLURM", what, "look at the node itself: srun --nodes=1 --ntasks=1 interlace doctor")
        return
    given, online = job.get("SLURM_CPUS_ON_NODE", ""), len(parse_cpulist(facts.cpu.online))
    gpus = job.get("SLURM_GPUS_ON_NODE") or job.get("SLURM_JOB_GPUS")
    what = f"job {job['SLURM_JOB_ID']}: {given or 'unknown'} of {online or 'unknown'} CPUs"
    what += f", GPUs: {gpus}" if gpus else ""
    if given.isdigit() and int(given) < online:
        yield warning("SLURM", what, "ask for the whole node (--exclusive), or other jobs may compute beside the ranks")
    else:
        yield ok("SLURM", what)


def container(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether this is a container, and whether processes outside it can be seen."""
    around = facts.surroundings
    kind = around.container or "none seen"
    if around.host_pids is False and facts.node.gpus:
        yield warning(
            "container", f"{kind}; its own PID namespace: GPU processes of others have other pids, or none",
            "start it with --pid=host to have them named; memory and load of the GPUs are judged all the same",
        )  # fmt: skip
    else:
        own = {True: "the host's PID namespace", False: "a PID namespace of its own", None: "PID namespace unknown"}
        yield ok("container", f"{kind}; {own[around.host_pids]}")


def environment(facts: NodeFacts) -> Iterator[Finding]:
    """Say which variables of this shell every rank would inherit, to the surprise of who measures."""
    env = facts.surroundings.env
    found = [*_visible(facts), *_order(env), *_debugging(env), *_threads(env), *_accelerate(env)]
    yield from found or [ok("environment", "no variable that changes a measurement is set")]


def _visible(facts: NodeFacts) -> Iterator[Finding]:
    visible = facts.surroundings.env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return
    name, what = (
        "CUDA_VISIBLE_DEVICES",
        f"{visible!r}: {len(facts.placement.ranks)} of {len(facts.node.gpus)} GPUs visible",
    )
    if not facts.node.gpus or "SLURM_JOB_ID" in facts.surroundings.slurm:
        yield ok(name, what)
    else:
        yield warning(name, what, "unset it unless you mean it: ranks get only these GPUs, in this order")


def _order(env: dict[str, str]) -> Iterator[Finding]:
    order = env.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if order != "PCI_BUS_ID":
        yield warning(
            "CUDA_DEVICE_ORDER", f"{order}: CUDA numbers GPUs in another order than nvidia-smi and Interlace",
            f"{_UNSET}: Interlace then sets PCI_BUS_ID",
        )  # fmt: skip


def _debugging(env: dict[str, str]) -> Iterator[Finding]:
    if env.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        yield problem("CUDA_LAUNCH_BLOCKING", f"{env['CUDA_LAUNCH_BLOCKING']}: every kernel is waited for", _UNSET)
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in env:
        yield problem("PYTORCH_NO_CUDA_MEMORY_CACHING", "set: every tensor is a cudaMalloc, which synchronises", _UNSET)
    if env.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        yield warning("TORCH_DISTRIBUTED_DEBUG", "DETAIL: every collective is checked among ranks first", _UNSET)
    if (level := env.get("NCCL_DEBUG", "").upper()) in ("INFO", "TRACE"):
        yield warning(
            "NCCL_DEBUG", f"{level}: NCCL writes to the log that step times are read from", f"{_UNSET}, or WARN"
        )
    if "PYTHONPROFILEIMPORTTIME" in env:
        yield warning("PYTHONPROFILEIMPORTTIME", "set: every import is timed and printed", _UNSET)


def _threads(env: dict[str, str]) -> Iterator[Finding]:
    if threads := env.get("OMP_NUM_THREADS"):
        yield warning(
            "OMP_NUM_THREADS", f"{threads}: ranks take it from this shell",
            f"{_UNSET}, or say it where it is recorded: ranks.omp_num_threads={threads}",
        )  # fmt: skip


def _accelerate(env: dict[str, str]) -> Iterator[Finding]:
    names = sorted(name for name in env if name.startswith("ACCELERATE_"))
    if names:
        what = ", ".join(f"{name}={env[name]}" for name in names)
        yield warning(
            "ACCELERATE_*", f"{what}: accelerate obeys these in every rank", f"{_UNSET}, or give it as env of an arm"
        )
