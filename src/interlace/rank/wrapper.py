"""The per-rank wrapper: finds out which rank this is, binds it, writes down what came of it, becomes CMD.

Nothing about NUMA or GPUs that is missing or refused can fail the run. Standard library only and light: it
is paid for once per rank and run. How the binding is made and proved: docs/node.md.

Environment, all of it optional: INTERLACE_RUN_DIR (where `ranks/rank-N.json` goes), INTERLACE_GPU_MAP (JSON
list of {"index", "uuid", "bus_id", "name"?, "mig"?} in PCI order), INTERLACE_NUMA_BIND (`auto` or `off`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from interlace.rank import numa
from interlace.rank.gpu_map import gpus_found, gpus_passed, read_facts, which

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECORD_FORMAT_VERSION = 1
"""Version of rank-N.json. 1: first."""

USAGE = """\
usage: interlace rank -- CMD [ARG...]

Binds this rank to the NUMA node of its GPU, then becomes CMD. Use it under any launcher:
    torchrun --standalone --nproc-per-node=2 --no-python interlace rank -- python train.py
INTERLACE_NUMA_BIND=off leaves the rank where it is."""


class Identity(NamedTuple):
    """Which rank this is, and by whose variables. Alone: rank 0 of 1 by `none`."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int | None = None
    launcher: str = "none"


class Outcome(NamedTuple):
    """How a binding was made: `numactl`, `sched_setaffinity`, or None and why not."""

    binding: numa.Binding
    how: str | None = None


# launcher: local rank, rank, world size, local world size. The first whose local rank is set gives all four,
# because a batch job's own SLURM_* stay set in the ranks that mpirun or torchrun starts inside it.
_LAUNCHERS = {
    "torchrun": ("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    "openmpi": (
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpich": ("MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    "mvapich2": (
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    "pals": ("PALS_LOCAL_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_SIZE"),
    "flux": ("FLUX_TASK_LOCAL_ID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_SIZE"),
    "jsrun": (
        "JSM_NAMESPACE_LOCAL_RANK",
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        "JSM_NAMESPACE_LOCAL_SIZE",
    ),
    "slurm": ("SLURM_LOCALID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
}


def main(argv: list[str], *, sysfs_root: str = numa.SYSFS) -> int:
    """Run `interlace rank -- CMD`. Returns only where CMD cannot be started: 2, or 126 and 127 as a shell."""
    if argv[:1] in (["-h"], ["--help"]):
        print(USAGE)  # noqa: T201 (the help text is the result)
        return 0
    command = argv[1:] if argv[:1] == ["--"] else argv
    if not command:
        print(f"interlace rank: error: CMD is missing\n{USAGE}", file=sys.stderr)  # noqa: T201
        return 2
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # or an index means another GPU to CUDA than to us
    who = identity(os.environ)
    outcome = bind(who, os.environ, sysfs_root)
    _tell(who, outcome)
    program = which(command[0])
    _record(who, outcome, command, program)
    return _become(command, program, outcome)


def identity(env: Mapping[str, str]) -> Identity:
    """Read rank and sizes as whichever launcher set them; a value that is no number counts as unset."""
    for launcher, names in _LAUNCHERS.items():
        local_rank, rank, world, local_world = (_number(env.get(name)) for name in names)
        if local_rank is not None and not (launcher == "slurm" and "SLURM_STEP_ID" not in env):
            return Identity(local_rank if rank is None else rank, local_rank, world or 1, local_world, launcher)
    return Identity(rank=_number(env.get("RANK")) or 0, world_size=_number(env.get("WORLD_SIZE")) or 1)


def _number(text: str | None) -> int | None:
    """Read a count; SLURM's `2(x3)` is 2. None for anything else, -1 included."""
    digits = (text or "").strip().partition("(")[0]
    return int(digits) if digits.isdigit() else None


def bind(who: Identity, env: Mapping[str, str], sysfs_root: str = numa.SYSFS) -> Outcome:
    """Bind this process as planned, the same way for every rank of the node, and check that it took."""
    if env.get("INTERLACE_NUMA_BIND", "auto") == "off":
        return _unpinned("off", "numa.bind=off")
    try:
        plans = _plans(who, env, sysfs_root)
        mine = numa.alike(plans, who.local_rank if len(plans) > 1 else 0)
        return _apply(mine, plans) if mine.action == "bind" else Outcome(mine)
    except Exception as error:  # noqa: BLE001 (a run must never fail because of its binding)
        return _unpinned("failed", f"{type(error).__name__}: {error}")


def _plans(who: Identity, env: Mapping[str, str], sysfs_root: str) -> list[numa.Binding]:
    """Plan for every rank of this node where their number is known, else for this one alone."""
    if sum(bool(numa.cpus_of_node(node, sysfs_root)) for node in numa.online_nodes(sysfs_root)) < 2:  # noqa: PLR2004
        gpus = gpus_passed(env)  # nothing to bind to, so nobody is asked for GPUs
    else:
        gpus = gpus_passed(env) or gpus_found()
    affinity = frozenset(os.sched_getaffinity(0))
    cpuset = allowed_cpus(affinity)
    ranks = range(who.local_world_size) if who.local_world_size else [who.local_rank]
    if who.local_rank not in ranks:
        ranks = [who.local_rank]
    return [
        numa.plan_binding(rank, env, gpus, affinity=affinity, cpuset=cpuset, sysfs_root=sysfs_root) for rank in ranks
    ]


def allowed_cpus(affinity: numa.Cpus) -> numa.Cpus:
    """Ask the kernel what it would allow: ask for every CPU, read back, and return to where we were."""
    try:
        os.sched_setaffinity(0, range((os.cpu_count() or 1) * 2 + max(affinity)))
        allowed = frozenset(os.sched_getaffinity(0))
        os.sched_setaffinity(0, affinity)
    except OSError:
        return affinity
    return allowed


def _apply(binding: numa.Binding, plans: Sequence[numa.Binding]) -> Outcome:
    """Bind by numactl where it can take whole nodes for all ranks, else by the CPU list for all ranks.

    In both ways this process binds itself first and reads back what it got; its pid stays that of CMD.
    numactl, started next, then sets the same CPUs once more.
    """
    how = "sched_setaffinity"
    warnings = binding.warnings
    bound = [plan for plan in plans if plan.action == "bind"]
    if all(plan.whole_node for plan in bound):
        from interlace.rank import numactl  # noqa: PLC0415 (ranks that are not bound need not pay for it)

        nodes = {plan.node for plan in bound if plan.node is not None}
        refused = numactl.why_not(nodes, frozenset().union(*(plan.cpus for plan in bound)))
        how, warnings = ("numactl", warnings) if refused is None else (how, (*warnings, refused))
    try:
        os.sched_setaffinity(0, binding.cpus)
    except OSError as error:
        return _unpinned("affinity_rejected", f"sched_setaffinity: {error.strerror}", binding)
    got = frozenset(os.sched_getaffinity(0))
    if got != binding.cpus:
        text = f"asked for CPUs {numa.format_cpulist(binding.cpus)}, got {numa.format_cpulist(got)}"
        return _unpinned("not_taken", text, binding)
    return Outcome(binding._replace(warnings=warnings), how)


def _unpinned(code: str, reason: str, binding: numa.Binding | None = None) -> Outcome:
    asked = binding or numa.Binding("unpinned")
    return Outcome(asked._replace(action="unpinned", code=code, reason=reason))


# ---------------------------------------------------------------- telling and becoming


def _tell(who: Identity, outcome: Outcome) -> None:
    """Say once per node that ranks are not bound, or not in the way that was meant."""
    binding = outcome.binding
    if who.local_rank != 0:
        return
    if outcome.how is None:
        print(f"interlace rank: unpinned: {binding.reason}", file=sys.stderr)  # noqa: T201
    for warning in binding.warnings:
        print(f"interlace rank: note: {warning}", file=sys.stderr)  # noqa: T201


def _record(who: Identity, outcome: Outcome, command: Sequence[str], program: str | None) -> None:
    """Write ranks/rank-N.json under a temporary name and rename it; trouble is told, not raised."""
    run_dir = os.environ.get("INTERLACE_RUN_DIR")
    if not run_dir:
        return
    folder = f"{run_dir}/ranks"
    temporary = f"{folder}/.rank-{who.rank}.json.{os.getpid()}"
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 (pathlib costs 10 ms)
        with open(temporary, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(facts_of(who, outcome, command, program), stream, indent=2, allow_nan=False)
        os.replace(temporary, f"{folder}/rank-{who.rank}.json")  # noqa: PTH105
    except OSError as error:
        print(f"interlace rank: note: cannot write {folder}: {error.strerror}", file=sys.stderr)  # noqa: T201


def facts_of(who: Identity, outcome: Outcome, command: Sequence[str], program: str | None) -> dict[str, Any]:
    """Return what rank-N.json holds; the CPUs and memory nodes as the kernel gives them now."""
    status = read_facts("/proc/self/status")
    binding = outcome.binding
    return {
        "format_version": RECORD_FORMAT_VERSION,
        **who._asdict(),
        "pid": os.getpid(),
        "hostname": os.uname().nodename,
        "started_at": time.time(),
        "executable": program,
        "argv": list(command),
        "cpus_allowed": status.get("Cpus_allowed_list"),
        "mems_allowed": status.get("Mems_allowed_list"),
        "binding": {
            "action": binding.action,
            "how": outcome.how,
            "numa_node": binding.node,
            "cpus": numa.format_cpulist(binding.cpus) or None,
            "gpu": binding.gpu
            and {"index": binding.gpu.ordinal, "uuid": binding.gpu.uuid, "bus_id": binding.gpu.bus_id},
            "code": binding.code,
            "reason": binding.reason,
            "warnings": list(binding.warnings),
        },
        **{
            name.lower(): os.environ.get(name)
            for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        },
    }


def _become(command: Sequence[str], program: str | None, outcome: Outcome) -> int:
    """Turn this process into the command; returns the exit code of a failure to do so."""
    if program is None:
        print(f"interlace rank: error: command not found: {command[0]}", file=sys.stderr)  # noqa: T201
        return 127
    argv = list(command)
    if outcome.how == "numactl" and outcome.binding.node is not None:
        from interlace.rank import numactl  # noqa: PLC0415 (as above)

        argv = [*numactl.arguments([outcome.binding.node]), *command]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606 (to become the command is the purpose)
    except OSError as error:
        print(f"interlace rank: error: cannot start {command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 126
