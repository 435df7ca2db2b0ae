"""Which NUMA node a rank belongs on, and which CPUs of it may be used: pure functions over sysfs and text.

Standard library only, and named tuples instead of dataclasses: every rank imports this before it starts,
and `dataclasses` alone would cost it 10 ms of CPU.
Sources: Documentation/ABI/stable/sysfs-devices-node, numactl(8), sched_setaffinity(2).
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from interlace.rank.visible import GpuRef, gpu_of_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SYSFS = "/sys"
Cpus = frozenset[int]


class Binding(NamedTuple):
    """Where one rank is to run.

    `action`: `bind` (to `cpus`, which are whole nodes with memory when `whole_node`), `noop` (where it should
    be already), or `unpinned`. `code` is a short word and `reason` the sentence for anything but a plain
    `bind`; `warnings` are codes of what is odd about a binding that is made all the same. `scope` is how far
    `cpus` reach: the `node`, the `socket` around it, or an exclusive share of its `cores`.
    """

    action: str
    node: int | None = None
    cpus: Cpus = frozenset()
    whole_node: bool = False
    gpu: GpuRef | None = None
    code: str | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    scope: str = "node"


# ---------------------------------------------------------------- reading sysfs


def parse_cpulist(text: str) -> Cpus:
    """Read a list such as `0-3,8,10-11`; blanks are fine. Raises ValueError on anything else."""
    cpus: set[int] = set()
    for part in text.replace("\n", "").split(","):
        if part.strip():
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpulist(cpus: Iterable[int]) -> str:
    """Write CPUs as the kernel does: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def online_nodes(sysfs_root: str = SYSFS) -> tuple[int, ...]:
    """Return the ids of all online NUMA nodes, with or without CPUs; empty where sysfs knows none."""
    return tuple(sorted(_list_in(f"{sysfs_root}/devices/system/node/online")))


def cpus_of_node(node: int, sysfs_root: str = SYSFS) -> Cpus:
    """Return the CPUs of a node; empty for a node of memory alone."""
    return _list_in(f"{sysfs_root}/devices/system/node/node{node}/cpulist")


def nodes_of(cpus: Cpus, sysfs_root: str = SYSFS) -> tuple[int, ...]:
    """Return the NUMA nodes that have any of these CPUs."""
    return tuple(node for node in online_nodes(sysfs_root) if cpus & cpus_of_node(node, sysfs_root))


@lru_cache(maxsize=4)
def packages(sysfs_root: str = SYSFS) -> dict[int, int]:
    """Return CPU -> package (socket) of every CPU of every node; CPUs whose package is not told are left out."""
    cpus: Cpus = frozenset().union(*(cpus_of_node(node, sysfs_root) for node in online_nodes(sysfs_root)))
    texts = {
        cpu: _read(f"{sysfs_root}/devices/system/cpu/cpu{cpu}/topology/physical_package_id").strip() for cpu in cpus
    }
    return {cpu: int(text) for cpu, text in texts.items() if text.isdigit()}  # -1: the firmware does not say


def cpus_of_socket(node: int, sysfs_root: str = SYSFS) -> Cpus:
    """Return the CPUs of the package or packages that hold a node; empty where the topology is not told."""
    package_of = packages(sysfs_root)
    of_node = cpus_of_node(node, sysfs_root)
    if not of_node <= package_of.keys():
        return frozenset()
    mine = {package_of[cpu] for cpu in of_node}
    return frozenset(cpu for cpu, package in package_of.items() if package in mine)


def siblings_of(cpu: int, sysfs_root: str = SYSFS) -> Cpus:
    """Return the CPUs of one physical core; the CPU alone where the topology is not told."""
    return _list_in(f"{sysfs_root}/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") | {cpu}


def has_memory(node: int, sysfs_root: str = SYSFS) -> bool:
    """Tell whether a node has memory of its own; true where the kernel does not say."""
    path = f"{sysfs_root}/devices/system/node/has_memory"
    return node in _list_in(path) if os.path.exists(path) else True  # noqa: PTH110 (pathlib costs 10 ms)


def node_of_gpu(bus_id: str, sysfs_root: str = SYSFS) -> int | None:
    """Return the NUMA node sysfs gives for a PCI device; None for -1 and where there is no such device."""
    text = _read(f"{sysfs_root}/bus/pci/devices/{bus_id}/numa_node").strip()
    return int(text) if text.isdigit() else None


def nearest_cpu_node(node: int, sysfs_root: str = SYSFS) -> int | None:
    """Return the one CPU node nearest to a node without CPUs (a GPU's own memory, say); None on a tie."""
    nodes = online_nodes(sysfs_root)
    text = _read(f"{sysfs_root}/devices/system/node/node{node}/distance").split()
    if len(text) != len(nodes) or not all(part.isdigit() for part in text):
        return None
    distances = sorted(
        (int(distance), other) for distance, other in zip(text, nodes, strict=True) if cpus_of_node(other, sysfs_root)
    )
    if not distances or (len(distances) > 1 and distances[0][0] == distances[1][0]):
        return None
    return distances[0][1]


def _list_in(path: str) -> Cpus:
    try:
        return parse_cpulist(_read(path))
    except ValueError:
        return frozenset()


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:  # noqa: PTH123 (as above)
            return stream.read()
    except OSError:
        return ""


# ---------------------------------------------------------------- the plan


def plan_binding(
    local_rank: int,
    env: Mapping[str, str],
    gpus: Sequence[GpuRef],
    *,
    affinity: Cpus,
    cpuset: Cpus,
    sysfs_root: str = SYSFS,
    scope: str = "node",
) -> Binding:
    """Decide where a rank runs: on the NUMA node of its GPU, or with `scope=socket` on the socket around it.

    `affinity` is the mask this process inherited, `cpuset` what the kernel would allow it. A parent's mask
    is only a habit and may be widened; a SLURM task's is a promise to its neighbours and is kept.
    """
    gpu, code, reason = gpu_of_rank(local_rank, env, gpus)
    cpu_nodes = [node for node in online_nodes(sysfs_root) if cpus_of_node(node, sysfs_root)]
    if len(cpu_nodes) < 2:  # noqa: PLR2004 (two nodes are the first to differ)
        node = cpu_nodes[0] if cpu_nodes else None
        return Binding("noop", node, affinity, gpu=gpu, code="one_node", reason="this node has one NUMA node")
    if gpu is None:
        return Binding("unpinned", code=code, reason=reason)
    node, warnings, reason = _cpu_node_of(gpu, sysfs_root)
    if node is None:
        return Binding("unpinned", gpu=gpu, code="numa_node_unknown", reason=reason)
    domain, scope, lacking = _domain(node, scope, sysfs_root)
    warnings += lacking
    narrowed = affinity < cpuset
    if narrowed and affinity <= domain:
        reason = f"bound to this {scope} already"
        return Binding("noop", node, affinity, gpu=gpu, code="already_bound", reason=reason, warnings=lacking)
    if narrowed:
        warnings += ("parent_affinity_narrower_than_cpuset",)
    if not has_memory(node, sysfs_root):
        warnings += ("node_without_memory",)
    allowed = affinity if narrowed and "SLURM_JOB_ID" in env else cpuset
    return _within(node, domain, allowed, sysfs_root)._replace(gpu=gpu, warnings=warnings, scope=scope)


def _domain(node: int, scope: str, sysfs_root: str) -> tuple[Cpus, str, tuple[str, ...]]:
    """Return the CPUs that a scope allows around a node, the scope that this is, and a warning if it had to shrink."""
    socket = cpus_of_socket(node, sysfs_root) if scope == "socket" else frozenset()
    if socket:
        return socket, "socket", ()
    return cpus_of_node(node, sysfs_root), "node", ("socket_unknown",) if scope == "socket" else ()


def _cpu_node_of(gpu: GpuRef, sysfs_root: str) -> tuple[int | None, tuple[str, ...], str]:
    node = node_of_gpu(gpu.bus_id, sysfs_root)
    if node is None:
        return None, (), f"sysfs gives no NUMA node for GPU {gpu.bus_id}"
    if cpus_of_node(node, sysfs_root):
        return node, (), ""
    nearest = nearest_cpu_node(node, sysfs_root)
    reason = f"NUMA node {node} of GPU {gpu.bus_id} has no CPUs, and no other is clearly nearest"
    return nearest, ("gpu_node_without_cpus",), reason


def _within(node: int, domain: Cpus, allowed: Cpus, sysfs_root: str) -> Binding:
    """Bind to what may be used of a domain. numactl refuses a node without memory, so that is not `whole_node`."""
    usable = domain & allowed
    if not usable & cpus_of_node(node, sysfs_root):
        reason = f"no CPU of NUMA node {node} is allowed here (allowed: {format_cpulist(allowed)})"
        return Binding("unpinned", node, code="no_allowed_cpu_on_node", reason=reason)
    whole = usable == domain and all(has_memory(one, sysfs_root) for one in nodes_of(domain, sysfs_root))
    return Binding("bind", node, usable, whole_node=whole)


def alike(bindings: Sequence[Binding], mine: int) -> Binding:
    """Return the binding of rank `mine`, unpinned when any other rank of the node is."""
    own = bindings[mine]
    other = next((binding for binding in bindings if binding.action == "unpinned"), None)
    if other is None or own.action != "bind":
        return own
    return own._replace(action="unpinned", code=other.code, reason=f"another rank cannot be bound: {other.reason}")


# ---------------------------------------------------------------- how many processes a node has room for


class Capacity(NamedTuple):
    """What the ranks of a NUMA node need and what it has, in CPUs. `suggest` is a scope that has more."""

    numa_node: int
    cpus_on_node: int
    cpus_on_socket: int
    needed: int
    warnings: tuple[str, ...] = ()
    suggest: str | None = None


def capacity(node: int, *, ranks: int, workers: int, allowed: Cpus | None = None, sysfs_root: str = SYSFS) -> Capacity:
    """Compare `ranks` ranks of a node, each with `workers` data loading workers, with the CPUs that it has.

    `allowed` leaves out what the cpuset does not allow. Where sysfs does not tell the socket, it counts as the node.
    """
    of_node = cpus_of_node(node, sysfs_root)
    of_socket = cpus_of_socket(node, sysfs_root) or of_node
    if allowed is not None:
        of_node, of_socket = of_node & allowed, of_socket & allowed
    needed = ranks * (1 + workers)
    if needed <= len(of_node):
        return Capacity(node, len(of_node), len(of_socket), needed)
    suggest = "socket" if len(of_socket) > len(of_node) else None
    return Capacity(node, len(of_node), len(of_socket), needed, ("node_oversubscribed",), suggest)
