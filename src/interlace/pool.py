"""Several sweeps of the same arms as one: only when asked for, with every session's rounds as blocks of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.history import fingerprints
from interlace.loaded.join import Block, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.loaded import LoadedSweep
    from interlace.schema import Arm


def pool(sweeps: Sequence[LoadedSweep]) -> LoadedSweep:
    """Put the rounds of several sweeps side by side; a round never mixes sessions, so ratios stay within one.

    Sessions differ by up to some percent though nothing changed, so each arm's times may not be compared across
    them. Raises UsageError where the sweeps are not of the same arms.
    """
    first = sweeps[0]
    if len({one.sweep_dir.path for one in sweeps}) < len(sweeps):
        raise UsageError("a sweep is given twice; its rounds would count twice")
    for one in sweeps:
        if one.plan.order in ("screen", "sequential"):
            raise UsageError(
                f"{one.sweep_dir.path} ran in {one.plan.order} order, whose rounds give no verdict; leave it out"
            )
    for other in sweeps[1:]:
        _refuse_others(first, other)
    joined = join(sweeps, chosen=True)
    folders = ", ".join(str(one.sweep_dir.path) for one in sweeps)
    notes = [f"pooled over {len(sweeps)} sweeps, whose sessions may differ by more than the arms do: {folders}"]
    if len({_node(one) for one in sweeps}) > 1:
        notes.append(f"they were measured on different nodes: {', '.join(_node(one) for one in sweeps)}")
    blocks = tuple(Block(str(one.sweep_dir.path), str(one.sweep_dir.path)) for one in sweeps)
    return replace(joined, sweep=replace(first.sweep, notes=(*first.sweep.notes, *notes)), blocks=blocks)


def _node(loaded: LoadedSweep) -> str:
    """Name the node, or nodes, that a sweep was measured on."""
    if not loaded.sweep_dir.node.is_file():
        return "unknown"
    return " + ".join(str(one.get("hostname", "unknown")) for one in fingerprints(loaded.sweep_dir))


def _measured(arm: Arm) -> tuple[object, ...]:
    """Return all that decides what an arm's runs measure."""
    config = arm.config
    return arm.sha, config.workload, config.env, config.ranks, config.numa


def _refuse_others(first: LoadedSweep, other: LoadedSweep) -> None:
    arms = [{arm.name: _measured(arm) for arm in one.sweep.arms} for one in (first, other)]
    differing = sorted(name for name in {*arms[0], *arms[1]} if arms[0].get(name) != arms[1].get(name))
    if differing:
        raise UsageError(
            f"{other.sweep_dir.path} has other arms than {first.sweep_dir.path} ({', '.join(differing)} differ); "
            "sweeps can be pooled only where every arm is the same"
        )
    if first.sweep.config.measure.window != other.sweep.config.measure.window:
        raise UsageError(
            f"{other.sweep_dir.path} has another window than {first.sweep_dir.path}; they cannot be pooled"
        )
