"""Binds this rank as planned, the same way for every rank of its node, and reads back what came of it.

Nothing about NUMA or GPUs that is missing or refused raises. Standard library only and light.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from interlace.rank import layers, numa
from interlace.rank.gpu_map import gpus_found, gpus_passed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.rank.identity import Identity

SCOPES = ("node", "socket", "cores")
POLICIES = ("off", "preferred", "bind")


class Wanted(NamedTuple):
    """What is asked for. `notes` are values that could not be read; without `numactl` the CPU list alone is set."""

    bind: bool = True
    scope: str = "node"
    memory: str = "off"
    notes: tuple[str, ...] = ()
    numactl: bool = True


class Memory(NamedTuple):
    """The memory policy CMD gets: `policy` on `nodes`, which the kernel reported as `reported`; or None and why not."""

    policy: str | None = None
    nodes: tuple[int, ...] = ()
    reported: str | None = None
    reason: str | None = None


class Outcome(NamedTuple):
    """How a binding was made: `numactl`, `sched_setaffinity`, or None and why not.

    `numactl` are the arguments that CMD is started through, if any; `layer` is somebody else who binds this rank;
    `sharing` counts the ranks of this node, this one included, that have the same CPUs (0: not known).
    """

    binding: numa.Binding
    how: str | None = None
    wanted: Wanted = Wanted()
    memory: Memory = Memory()
    numactl: tuple[str, ...] = ()
    layer: str | None = None
    sharing: int = 0


def wanted_from(env: Mapping[str, str]) -> Wanted:
    """Read INTERLACE_NUMA_BIND, _SCOPE and _MEMORY; a value that means nothing is noted and the default taken."""
    scope, memory = env.get("INTERLACE_NUMA_SCOPE") or "node", env.get("INTERLACE_NUMA_MEMORY") or "off"
    notes = []
    if scope not in SCOPES:
        notes.append(f"INTERLACE_NUMA_SCOPE={scope} is none of {', '.join(SCOPES)}; node is taken")
    if memory not in POLICIES:
        notes.append(f"INTERLACE_NUMA_MEMORY={memory} is none of {', '.join(POLICIES)}; off is taken")
    return Wanted(
        env.get("INTERLACE_NUMA_BIND", "auto") != "off",
        scope if scope in SCOPES else "node",
        memory if memory in POLICIES else "off",
        tuple(notes),
        env.get("INTERLACE_NUMACTL") != "off",
    )


def bind(who: Identity, env: Mapping[str, str], sysfs_root: str = numa.SYSFS) -> Outcome:
    """Bind this process as planned, unless somebody else does, and check that it took."""
    wanted = wanted_from(env)
    if not wanted.bind:
        return _unpinned("off", "numa.bind=off")._replace(wanted=wanted)
    try:
        outcome = _bind(who, env, wanted, sysfs_root)
    except Exception as error:  # noqa: BLE001 (a run must never fail because of its binding)
        outcome = _unpinned("failed", f"{type(error).__name__}: {error}")
    if wanted.memory != "off" and outcome.memory == Memory():
        outcome = outcome._replace(memory=Memory(reason="this rank is not bound"))
    notes = (*wanted.notes, *_memory_notes(outcome, wanted))
    warnings = (*outcome.binding.warnings, *notes)
    return outcome._replace(wanted=wanted, binding=outcome.binding._replace(warnings=warnings))


def _memory_notes(outcome: Outcome, wanted: Wanted) -> tuple[str, ...]:
    if wanted.memory == "off" or outcome.memory.policy or outcome.how is None:
        return ()
    return (f"numa.memory={wanted.memory} is not applied, CPUs alone are bound: {outcome.memory.reason}",)


def _bind(who: Identity, env: Mapping[str, str], wanted: Wanted, sysfs_root: str) -> Outcome:
    affinity = frozenset(os.sched_getaffinity(0))
    cpuset = allowed_cpus(affinity)
    plans = _plans(who, env, wanted, sysfs_root, affinity, cpuset)
    mine = numa.alike(plans, who.local_rank if len(plans) > 1 else 0)
    layer = layers.other_layer(env, who.launcher, affinity=affinity, cpuset=cpuset, parent=_mask_of(os.getppid()))
    if layer is not None:
        # The CPUs are those where it belongs, to be compared later with where it is.
        cpus: numa.Cpus = frozenset() if mine.action == "unpinned" else mine.cpus
        left = mine._replace(action="noop", cpus=cpus, code="other_layer", reason=f"bound by {layer}", warnings=())
        return Outcome(left, layer=layer, memory=Memory(reason="another layer binds this rank"))
    outcome = _apply(mine, plans, wanted, sysfs_root) if mine.action == "bind" else Outcome(mine)
    known = outcome.binding.action != "unpinned" and len(plans) == who.local_world_size
    return outcome._replace(sharing=sum(plan.cpus == mine.cpus for plan in plans) if known else 0)


def _plans(
    who: Identity, env: Mapping[str, str], wanted: Wanted, sysfs_root: str, affinity: numa.Cpus, cpuset: numa.Cpus
) -> list[numa.Binding]:
    """Plan for every rank of this node where their number is known, else for this one alone."""
    if sum(bool(numa.cpus_of_node(node, sysfs_root)) for node in numa.online_nodes(sysfs_root)) < 2:  # noqa: PLR2004
        gpus = gpus_passed(env)  # nothing to bind to, so nobody is asked for GPUs
    else:
        gpus = gpus_passed(env) or gpus_found(slices=env.get("CUDA_VISIBLE_DEVICES", "").strip().startswith("MIG-"))
    known = who.local_world_size is not None and who.local_rank < who.local_world_size
    ranks = range(who.local_world_size or 1) if known else [who.local_rank]
    scope = "node" if wanted.scope == "cores" else wanted.scope
    plans = [
        numa.plan_binding(
            rank, env, gpus, affinity=affinity, cpuset=cpuset, sysfs_root=sysfs_root, scope=scope
        ) for rank in ranks
    ]  # fmt: skip
    if wanted.scope != "cores":
        return plans
    from interlace.rank.cores import shared  # noqa: PLC0415 (the other scopes need not pay for it)

    # torchrun's ranks inherit its mask; one that was made for this rank alone has been found before.
    mask_shared = who.launcher == "torchrun" or who.local_world_size == 1
    return shared(
        plans, affinity=affinity, cpuset=cpuset, mask_shared=mask_shared, known=known, sysfs_root=sysfs_root
    )  # fmt: skip


def allowed_cpus(affinity: numa.Cpus) -> numa.Cpus:
    """Ask the kernel what it would allow: ask for every CPU, read back, and return to where we were."""
    try:
        os.sched_setaffinity(0, range((os.cpu_count() or 1) * 2 + max(affinity)))
        allowed = frozenset(os.sched_getaffinity(0))
        os.sched_setaffinity(0, affinity)
    except OSError:
        return affinity
    return allowed


def _mask_of(pid: int) -> numa.Cpus | None:
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return None


# ---------------------------------------------------------------- making it so


def _apply(binding: numa.Binding, plans: Sequence[numa.Binding], wanted: Wanted, sysfs_root: str) -> Outcome:
    """Bind by numactl where it can take whole nodes for all ranks, else by the CPU list for all ranks.

    In both ways this process binds itself first and reads back what it got; its pid stays that of CMD.
    numactl, started next, then sets the same CPUs once more, and the memory policy, which CMD inherits.
    """
    how = "sched_setaffinity"
    bound = [plan for plan in plans if plan.action == "bind"]
    if wanted.numactl and all(plan.whole_node for plan in bound):
        from interlace.rank import numactl  # noqa: PLC0415 (ranks that need no numactl need not pay for it)

        cpus: numa.Cpus = frozenset().union(*(plan.cpus for plan in bound))
        refused = numactl.why_not(numa.nodes_of(cpus, sysfs_root), cpus)
        how = "numactl" if refused is None else how
        binding = binding if refused is None else binding._replace(warnings=(*binding.warnings, refused))
    whole = how == "numactl"
    memory = _memory(binding, plans, wanted, sysfs_root, whole=whole)
    try:
        os.sched_setaffinity(0, binding.cpus)
    except OSError as error:
        return _unpinned("affinity_rejected", f"sched_setaffinity: {error.strerror}", binding)
    got = frozenset(os.sched_getaffinity(0))
    if got != binding.cpus:
        text = f"asked for CPUs {numa.format_cpulist(binding.cpus)}, got {numa.format_cpulist(got)}"
        return _unpinned("not_taken", text, binding)
    return Outcome(binding, how, wanted, memory, _command(binding, memory, sysfs_root, whole=whole))


def _unpinned(code: str, reason: str, binding: numa.Binding | None = None) -> Outcome:
    asked = binding or numa.Binding("unpinned")
    return Outcome(asked._replace(action="unpinned", code=code, reason=reason))


def _command(binding: numa.Binding, memory: Memory, sysfs_root: str, *, whole: bool) -> tuple[str, ...]:
    if not whole and memory.policy is None:
        return ()
    from interlace.rank import numactl  # noqa: PLC0415 (as above)

    nodes = numa.nodes_of(binding.cpus, sysfs_root) if whole else ()
    return tuple(numactl.arguments(nodes, memory.policy, memory.nodes))


def _memory(
    mine: numa.Binding, plans: Sequence[numa.Binding], wanted: Wanted, sysfs_root: str, *, whole: bool
) -> Memory:
    """Try the memory policy of every rank of this node; one that is refused leaves all of them without."""
    if wanted.memory == "off":
        return Memory()
    if sum(numa.has_memory(node, sysfs_root) for node in numa.online_nodes(sysfs_root)) < 2:  # noqa: PLR2004
        return Memory(reason="one NUMA node has memory")
    if any(plan.action != "bind" for plan in plans):
        return Memory(reason="a rank of this node is left where it is")
    asked = {plan: memory_nodes(plan, wanted.memory, sysfs_root) for plan in plans}
    if not all(asked.values()):
        return Memory(reason="the NUMA node of a rank has no memory of its own, or is not known")
    return _tried(wanted.memory, asked, mine, sysfs_root, whole=whole)


def memory_nodes(plan: numa.Binding, policy: str, sysfs_root: str) -> tuple[int, ...]:
    """Return the nodes of a policy: all that are bound to, or the one of the GPU where only one can be preferred."""
    if policy == "preferred":
        nodes: tuple[int, ...] = () if plan.node is None else (plan.node,)
    else:
        nodes = numa.nodes_of(plan.cpus, sysfs_root)
    return tuple(node for node in nodes if numa.has_memory(node, sysfs_root))


def _tried(
    policy: str, asked: Mapping[numa.Binding, tuple[int, ...]], mine: numa.Binding, sysfs_root: str, *, whole: bool
) -> Memory:
    from interlace.rank import numactl  # noqa: PLC0415 (as above)

    own, reported = memory_nodes(mine, policy, sysfs_root), None
    tries = {}
    for plan, nodes in asked.items():
        cpu_nodes = numa.nodes_of(plan.cpus, sysfs_root) if whole else ()
        tries[cpu_nodes, nodes] = plan.cpus if whole else frozenset(os.sched_getaffinity(0))
    for (cpu_nodes, nodes), cpus in tries.items():
        probe = numactl.probe(cpu_nodes, cpus, policy, nodes)
        if probe.refused is not None:
            return Memory(reason=probe.refused)
        reported = probe.policy if nodes == own else reported
    return Memory(policy, own, reported)
