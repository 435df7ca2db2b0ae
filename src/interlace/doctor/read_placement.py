"""Asks the code that binds ranks where it would put them, one for each visible GPU. Binds nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from interlace.doctor.facts import Placement, PlannedRank
from interlace.node import gpu_map
from interlace.rank import numa
from interlace.rank.binding import allowed_cpus
from interlace.rank.gpu_map import gpus_passed
from interlace.rank.visible import visible_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.monitor.readings import Gpu
    from interlace.rank.visible import GpuRef

AllowedCpus = Callable[[], tuple[numa.Cpus, numa.Cpus]]
TryNumactl = Callable[[Iterable[int], numa.Cpus], str | None]


def kernel_cpus() -> tuple[numa.Cpus, numa.Cpus]:
    """Return the CPUs of the inherited mask, and those the kernel would allow."""
    affinity = frozenset(os.sched_getaffinity(0))
    return affinity, allowed_cpus(affinity)


def planned(
    gpus: Sequence[Gpu], environ: Mapping[str, str], sysfs: str, cpus: AllowedCpus, try_numactl: TryNumactl
) -> Placement:
    """Plan a rank for each GPU that a program started from here would see."""
    affinity, cpuset = cpus()
    refs = gpus_passed({"INTERLACE_GPU_MAP": json.dumps(gpu_map(gpus))})
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **environ}  # as the wrapper of a rank sets it
    count = len(visible_gpus(env.get("CUDA_VISIBLE_DEVICES"), refs))
    plans = [
        numa.plan_binding(rank, env, refs, affinity=affinity, cpuset=cpuset, sysfs_root=sysfs) for rank in range(count)
    ]
    refusal = try_numactl(*_to_try(plans, cpuset, sysfs))
    ranks = tuple(_rank(number, numa.alike(plans, number)) for number in range(count))
    return Placement(numa.format_cpulist(affinity), numa.format_cpulist(cpuset), ranks, refusal)


def _to_try(plans: Sequence[numa.Binding], cpuset: numa.Cpus, sysfs: str) -> tuple[tuple[int, ...], numa.Cpus]:
    """Return what numactl is tried on: the nodes of the plan with their CPUs, else every node that has CPUs."""
    bound = [plan for plan in plans if plan.action == "bind" and plan.whole_node]
    if bound:
        nodes = sorted({plan.node for plan in bound if plan.node is not None})
        return tuple(nodes), frozenset().union(*(plan.cpus for plan in bound))
    cpu_nodes = tuple(node for node in numa.online_nodes(sysfs) if numa.cpus_of_node(node, sysfs) & cpuset)
    if not cpu_nodes:
        return (0,), cpuset
    return cpu_nodes, frozenset().union(*(numa.cpus_of_node(node, sysfs) for node in cpu_nodes)) & cpuset


def _rank(number: int, plan: numa.Binding) -> PlannedRank:
    gpu: GpuRef | None = plan.gpu
    return PlannedRank(
        number,
        gpu.ordinal if gpu else None,
        plan.action,
        plan.node,
        numa.format_cpulist(plan.cpus),
        plan.whole_node,
        plan.code,
        plan.reason,
        plan.warnings,
    )
