"""The per-rank wrapper: finds out which rank this is, binds it, writes down what came of it, becomes CMD.

Nothing about NUMA or GPUs that is missing or refused can fail the run. Standard library only and light: it
is paid for once per rank and run. How the binding is made and proved: docs/node.md.

Environment, all of it optional: INTERLACE_RUN_DIR (where `ranks/rank-N.json` goes), INTERLACE_GPU_MAP (JSON
list of {"index", "uuid", "bus_id", "name"?, "mig"?} in PCI order), INTERLACE_NUMA_BIND (`auto` or `off`),
INTERLACE_NUMA_SCOPE (`node`, `socket`, `cores`), INTERLACE_NUMA_MEMORY (`off`, `preferred`, `bind`),
INTERLACE_WORKERS (data loading workers a rank), INTERLACE_OMP_BY (who chose OMP_NUM_THREADS),
INTERLACE_NPROC_PER_NODE (ranks of this node, for launchers of one process that do not say so), INTERLACE_NODE (the
node's name, where a run has several), INTERLACE_NUMACTL (`off`: bind without it).
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from interlace.rank import numa
from interlace.rank.binding import bind
from interlace.rank.gpu_map import read_facts, which
from interlace.rank.identity import identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.rank.binding import Outcome
    from interlace.rank.identity import Identity

RECORD_FORMAT_VERSION = 2
"""Version of rank-N.json. 1: first. 2: scope, memory, other layers, intended CPUs, who set OMP_NUM_THREADS."""

USAGE = """\
usage: interlace rank -- CMD [ARG...]

Binds this rank to the NUMA node of its GPU, then becomes CMD. Use it under any launcher:
    torchrun --standalone --nproc-per-node=2 --no-python interlace rank -- python train.py
INTERLACE_NUMA_SCOPE=node|socket|cores says how far (cores: an exclusive share of the node for each rank),
INTERLACE_NUMA_MEMORY=off|preferred|bind what is done about memory; INTERLACE_NUMA_BIND=off leaves the rank where
it is."""

NOTES = {
    "parent_affinity_narrower_than_cpuset": "the mask inherited from a bound parent is widened to the rank's own node",
    "node_without_memory": "the GPU's NUMA node has no memory of its own; its CPUs alone are bound",
    "gpu_node_without_cpus": "the GPU's NUMA node has no CPUs; the nearest one that has is taken",
    "socket_unknown": "numa.scope=socket: sysfs does not tell which CPUs share a socket; the NUMA node is taken",
    "cores_ranks_unknown": "numa.scope=cores: how many ranks this node has is not known; nothing is divided",
    "cores_fewer_than_ranks": "numa.scope=cores: fewer cores than ranks on a NUMA node; nothing is divided",
    "cores_mask_of_a_rank": "numa.scope=cores: this rank's mask is its own already; nothing is divided",
    "few_cpus": "a rank may use one CPU alone, which its data loading workers would share",
    "fewer_cpus_than_threads": "a rank may use fewer CPUs than OMP_NUM_THREADS",
    "node_oversubscribed": "the ranks that share these CPUs and their INTERLACE_WORKERS workers are more than the CPUs",
}
"""What the codes of warnings mean, for stderr. A warning that is not here is a sentence itself."""


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
    outcome = with_cpu_warnings(bind(who, os.environ, sysfs_root), os.environ)
    program = which(command[0])
    record(who, outcome, command, program)
    return _become(command, program, outcome)


def with_cpu_warnings(outcome: Outcome, env: Mapping[str, str]) -> Outcome:
    """Add what is odd about how many CPUs this rank may use now, whoever decided it."""
    cpus = len(os.sched_getaffinity(0))
    threads, workers = (_count(env.get(name)) for name in ("OMP_NUM_THREADS", "INTERLACE_WORKERS"))
    binding, found = outcome.binding, []
    if cpus < 2 and cpus < (os.cpu_count() or 1):  # noqa: PLR2004 (a machine of one CPU has nothing to warn of)
        found.append("few_cpus")
    if threads is not None and cpus < threads:
        found.append("fewer_cpus_than_threads")
    if workers is not None and outcome.sharing * (1 + workers) > cpus:
        found.append("node_oversubscribed")
    return outcome._replace(binding=binding._replace(warnings=(*binding.warnings, *found)))


def _count(text: str | None) -> int | None:
    """Read OMP_NUM_THREADS, a list for nested levels, or a count."""
    first = (text or "").partition(",")[0].strip()
    return int(first) if first.isdigit() else None


# ---------------------------------------------------------------- telling and becoming


def record(who: Identity, outcome: Outcome, command: Sequence[str], program: str | None) -> None:
    """Say on stderr, and write down for the orchestrator, how this rank is bound."""
    _tell(who, outcome)
    _write(who, outcome, command, program)


def _tell(who: Identity, outcome: Outcome) -> None:
    """Say once per node that ranks are not bound, or not in the way that was meant."""
    binding = outcome.binding
    if who.local_rank != 0:
        return
    if outcome.how is None:
        left = "left as it is" if binding.code in ("already_bound", "other_layer") else "unpinned"
        print(f"interlace rank: {left}: {binding.reason}", file=sys.stderr)  # noqa: T201
    for warning in binding.warnings:
        print(f"interlace rank: note: {NOTES.get(warning, warning)}", file=sys.stderr)  # noqa: T201


def _write(who: Identity, outcome: Outcome, command: Sequence[str], program: str | None) -> None:
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
        **({"node": os.environ["INTERLACE_NODE"]} if "INTERLACE_NODE" in os.environ else {}),
        "started_at": time.time(),
        "executable": program,
        "argv": list(command),
        "cpus_allowed": status.get("Cpus_allowed_list"),
        "cpus_intended": (numa.format_cpulist(binding.cpus) or None) if binding.action != "unpinned" else None,
        "mems_allowed": status.get("Mems_allowed_list"),
        "binding": {**_binding_facts(outcome), **_memory_facts(outcome)},
        **{
            name.lower(): os.environ.get(name)
            for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        },
        "omp_num_threads_by": os.environ.get("INTERLACE_OMP_BY") if "OMP_NUM_THREADS" in os.environ else None,
    }


def _binding_facts(outcome: Outcome) -> dict[str, Any]:
    binding, gpu = outcome.binding, outcome.binding.gpu
    return {
        "action": binding.action,
        "how": outcome.how,
        "scope_asked": outcome.wanted.scope,
        "scope": binding.scope if outcome.how else None,
        "numa_node": binding.node,
        "cpus": numa.format_cpulist(binding.cpus) or None,
        "gpu": gpu and {"index": gpu.ordinal, "uuid": gpu.uuid, "bus_id": gpu.bus_id},
        "code": binding.code,
        "reason": binding.reason,
        "other_layer": outcome.layer,
        "warnings": list(binding.warnings),
    }


def _memory_facts(outcome: Outcome) -> dict[str, Any]:
    """Return what was asked for and what CMD gets: numactl sets it, so this is what the kernel said of its trial."""
    memory = outcome.memory
    return {
        "memory_asked": outcome.wanted.memory,
        "memory": memory.policy or "off",
        "memory_nodes": numa.format_cpulist(memory.nodes) or None,
        "memory_reported": memory.reported,
        "memory_reason": memory.reason,
    }


def _become(command: Sequence[str], program: str | None, outcome: Outcome) -> int:
    """Turn this process into the command; returns the exit code of a failure to do so."""
    if program is None:
        print(f"interlace rank: error: command not found: {command[0]}", file=sys.stderr)  # noqa: T201
        return 127
    argv = [*outcome.numactl, *command]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606 (to become the command is the purpose)
    except OSError as error:
        print(f"interlace rank: error: cannot start {command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 126
