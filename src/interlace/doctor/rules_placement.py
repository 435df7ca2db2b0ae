"""What the facts say about NUMA nodes, the binding of ranks, and the CPUs that may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.doctor.finding import Finding, ok, warning
from interlace.rank.numa import format_cpulist, parse_cpulist
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import NodeFacts, PlannedRank
    from interlace.node import NodeGpu, NumaNode

SHOWN = 3


def numa_map(facts: NodeFacts) -> Iterator[Finding]:
    """Say which CPUs and GPUs are on which node, and which of them the firmware leaves out."""
    nodes = facts.node.numa
    if not nodes:
        yield ok("NUMA", "sysfs shows no NUMA nodes: nothing to bind to")
        return
    listed = "; ".join(_node(node, facts.node.gpus) for node in nodes)
    yield ok("NUMA", f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}: {listed}")
    if sum(bool(node.cpus) for node in nodes) > 1:
        yield from _unplaced(facts.node.gpus)
        yield from _without_memory(nodes)


def _node(node: NumaNode, gpus: tuple[NodeGpu, ...]) -> str:
    on_it = [one.gpu.index for one in gpus if one.numa_node == node.node and one.gpu.index is not None]
    holds = f" with GPU {format_cpulist(on_it)}" if on_it else ""
    return f"{node.node} = {f'CPUs {node.cpus}' if node.cpus else 'no CPUs'}{holds}"


def _unplaced(gpus: tuple[NodeGpu, ...]) -> Iterator[Finding]:
    lost = [f"GPU {one.gpu.index} ({one.gpu.bus_id})" for one in gpus if one.numa_node is None and one.gpu.bus_id]
    if lost:
        yield warning(
            "NUMA of GPUs", f"sysfs gives no node for {first_of(lost, SHOWN)}: their ranks run unpinned",
            "ask `nvidia-smi topo -m`; mend it in the firmware, or `echo NODE | sudo tee "
            "/sys/bus/pci/devices/BUS_ID/numa_node` until the next boot",
        )  # fmt: skip


def _without_memory(nodes: tuple[NumaNode, ...]) -> Iterator[Finding]:
    bare = [str(node.node) for node in nodes if node.cpus and node.memory_mib == 0]
    if bare:
        yield warning(
            "NUMA memory", f"node {', '.join(bare)} has CPUs and no memory: all its accesses go to another node",
            "see to the memory modules of that socket, and to the firmware's memory settings",
        )  # fmt: skip


def binding(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether a rank for each visible GPU would be bound, how, and why not."""
    ranks = facts.placement.ranks
    cpu_nodes = [node for node in facts.node.numa if node.cpus]
    if len(cpu_nodes) < 2:  # noqa: PLR2004 (two nodes are the first to differ)
        yield ok("binding", f"not needed on one NUMA node; {_numactl(facts)}")
    elif not ranks:
        yield ok("binding", f"no GPU is visible, so ranks are not bound; {_numactl(facts)}")
    else:
        yield _bound(facts, ranks)
    yield from _cut_nodes(ranks, facts)


def _numactl(facts: NodeFacts) -> str:
    return facts.placement.numactl_refusal or "numactl works"


def _bound(facts: NodeFacts, ranks: tuple[PlannedRank, ...]) -> Finding:
    unpinned = [rank for rank in ranks if rank.action == "unpinned"]
    if unpinned:
        return warning(
            "binding", f"{len(unpinned)} of {len(ranks)} ranks would run unpinned: {unpinned[0].reason}",
            "see the line above, or bind them yourself (numactl before the command): unpinned ranks vary by run",
        )  # fmt: skip
    refusal = facts.placement.numactl_refusal
    by_numactl = refusal is None and all(rank.whole_node for rank in ranks if rank.action == "bind")
    how = "numactl --cpunodebind" if by_numactl else f"a list of CPUs ({refusal or 'a cpuset cuts the node'})"
    odd = sorted({code.replace("_", " ") for rank in ranks for code in rank.warnings})
    return ok("binding", f"each of {len(ranks)} ranks to its GPU's node, by {how}" + "".join(f"; {one}" for one in odd))


def _cut_nodes(ranks: tuple[PlannedRank, ...], facts: NodeFacts) -> Iterator[Finding]:
    of_node = {node.node: parse_cpulist(node.cpus) for node in facts.node.numa}
    cut = {
        rank.numa_node: f"{len(parse_cpulist(rank.cpus))} of the {len(of_node[rank.numa_node])} CPUs of node "
        f"{rank.numa_node}"
        for rank in ranks
        if rank.action == "bind" and rank.numa_node in of_node and parse_cpulist(rank.cpus) < of_node[rank.numa_node]
    }
    if cut:
        yield warning(
            "cpuset", f"ranks get {'; '.join(cut.values())}",
            "ask for the whole node (SLURM: --exclusive; Docker: no --cpuset-cpus), or others compute beside the ranks",
        )  # fmt: skip


def allowed_cpus(facts: NodeFacts) -> Iterator[Finding]:
    """Say which CPUs may be used: by cpuset, by the mask this shell was given, and by quota."""
    affinity, cpuset = parse_cpulist(facts.placement.affinity), parse_cpulist(facts.placement.cpuset)
    online = parse_cpulist(facts.cpu.online)
    if online and len(cpuset & online) < len(online):
        yield warning(
            "allowed CPUs", f"{len(cpuset & online)} of {len(online)}: a cpuset allows {facts.placement.cpuset} only",
            "ask for the whole node (SLURM: --exclusive; Docker: no --cpuset-cpus), or others compute beside the ranks",
        )  # fmt: skip
    else:
        yield ok("allowed CPUs", f"all {len(online) or len(cpuset)} ({facts.placement.cpuset})")
    if affinity < cpuset:
        yield warning(
            "CPU mask", f"this shell is bound to CPUs {facts.placement.affinity} of {facts.placement.cpuset}",
            "start from a shell that is not bound (`taskset -cp $$` shows it): ranks that are not bound inherit it",
        )  # fmt: skip
    quota = facts.node.limits.cpu_quota
    if quota is not None and quota < len(cpuset):
        yield warning(
            "CPU quota", f"the cgroup allows {quota:g} CPUs' worth of time on {len(cpuset)} CPUs",
            "lift it (Docker: no --cpus; Kubernetes: no CPU limit): whoever runs over it is stopped for up to 0.1 s",
        )  # fmt: skip
