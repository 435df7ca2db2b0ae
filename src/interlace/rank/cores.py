"""Exclusive shares of physical cores for the ranks of one node (`numa.scope=cores`): pure functions over plans.

Standard library only: every rank with this scope imports this before it starts.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from interlace.rank.numa import SYSFS, Binding, Cpus, nodes_of, siblings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHOUT_GPU = frozenset({"no_gpu", "none_visible"})
"""Codes of ranks that compute on the CPU: no GPU decides where they belong."""


def cores_of(cpus: Cpus, sysfs_root: str = SYSFS) -> list[Cpus]:
    """Group CPUs into physical cores, SMT siblings together; by NUMA node, then by lowest CPU number."""
    left, cores = set(cpus), []
    while left:
        core = siblings_of(min(left), sysfs_root) & cpus
        cores.append(core)
        left -= core
    place = {core: nodes_of(core, sysfs_root) for core in cores} if len(nodes_of(cpus, sysfs_root)) > 1 else {}
    return sorted(cores, key=lambda core: (place.get(core, ()), min(core)))


def divided(cores: Sequence[Cpus], ranks: int) -> list[Cpus]:
    """Give each rank a contiguous run of whole cores, as even as can be; the first ranks get what is left over."""
    each, over = divmod(len(cores), ranks)
    starts = [rank * each + min(rank, over) for rank in range(ranks + 1)]
    return [frozenset().union(*cores[first:last]) for first, last in pairwise(starts)]


def shared(
    plans: Sequence[Binding], *, affinity: Cpus, cpuset: Cpus, mask_shared: bool, known: bool, sysfs_root: str = SYSFS
) -> list[Binding]:
    """Turn the plans of all ranks of this node (of `scope=node`) into exclusive shares, or say in all why not.

    `known`: the plans are those of all local ranks. `mask_shared`: every rank inherited the same mask, so that
    it can be divided; a mask that was made for one rank cannot.
    """
    if not known:
        return _undivided(plans, "cores_ranks_unknown")
    groups = _groups(plans, affinity, sysfs_root)
    if groups is None:
        return list(plans)
    if affinity < cpuset and not mask_shared:
        return _undivided(plans, "cores_mask_of_a_rank")
    shares: dict[int, Cpus] = {}
    for pool, ranks in groups:
        cores = cores_of(pool, sysfs_root)
        if len(cores) < len(ranks):
            return _undivided(plans, "cores_fewer_than_ranks")
        shares |= dict(zip(ranks, divided(cores, len(ranks)), strict=True))
    return [_with_share(plan, shares[rank], sysfs_root) for rank, plan in enumerate(plans)]


def _groups(plans: Sequence[Binding], affinity: Cpus, sysfs_root: str) -> list[tuple[Cpus, list[int]]] | None:
    """Return which CPUs are divided among which ranks; None where some rank has no place for a better reason."""
    everyone = list(range(len(plans)))
    if all(plan.code == "one_node" for plan in plans):
        return [(affinity, everyone)]
    if all(plan.code in WITHOUT_GPU for plan in plans):
        # GPUs that we cannot see may decide where ranks belong: AMD's are listed here.
        return None if os.path.isdir(f"{sysfs_root}/class/kfd/kfd") else [(affinity, everyone)]  # noqa: PTH112 (pathlib costs 10 ms)
    if not all(plan.action == "bind" or plan.code == "already_bound" for plan in plans):
        return None
    pools: dict[int | None, tuple[Cpus, list[int]]] = {}
    for rank, plan in enumerate(plans):
        pools.setdefault(plan.node, (plan.cpus, []))[1].append(rank)
    return list(pools.values())


def _with_share(plan: Binding, share: Cpus, sysfs_root: str) -> Binding:
    nodes = nodes_of(share, sysfs_root)
    node = plan.node if plan.gpu is not None or len(nodes) != 1 else nodes[0]
    return plan._replace(
        action="bind", node=node, cpus=share, whole_node=False, code=None, reason=None, scope="cores"
    )  # fmt: skip


def _undivided(plans: Sequence[Binding], why: str) -> list[Binding]:
    return [plan._replace(warnings=(*plan.warnings, why)) for plan in plans]
