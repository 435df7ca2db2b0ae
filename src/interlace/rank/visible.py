"""Which GPU a rank computes on: the list of visible devices as CUDA reads it, then the local rank.

Standard library only: every rank imports this before it starts.
Source: CUDA C++ Programming Guide, CUDA environment variables; MIG names: MIG User Guide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class GpuRef(NamedTuple):
    """A GPU as far as binding needs it; `ordinal` is its place in PCI order. `mig`: UUIDs of its slices."""

    ordinal: int
    uuid: str
    bus_id: str
    name: str = ""
    mig: tuple[str, ...] = ()


def visible_gpus(visible: str | None, gpus: Sequence[GpuRef]) -> tuple[GpuRef, ...]:
    """Return the GPUs a program sees, in its order, for a value of CUDA_VISIBLE_DEVICES.

    As CUDA reads it: the first entry decides between numbers and UUIDs, an UUID may be cut short as long
    as it stays unique, the list ends at the first entry that is not valid (`-1` among them), and an entry
    given twice empties the list. `gpus` must be in the order of the PCI bus.
    """
    if visible is None:
        return tuple(gpus)
    entries = [entry.strip() for entry in visible.split(",")]
    by_uuid = entries[0].startswith(("GPU-", "MIG-"))
    keys: list[str] = []
    found: list[GpuRef] = []
    for entry in entries:
        match = _by_uuid(entry, gpus) if by_uuid else _by_number(entry, gpus)
        if match is None:
            break
        if match[0] in keys:
            return ()
        keys.append(match[0])
        found.append(match[1])
    return tuple(found)


def _by_number(entry: str, gpus: Sequence[GpuRef]) -> tuple[str, GpuRef] | None:
    # CUDA reads numbers as C's strtol does: what follows the digits is ignored.
    match = re.match(r"\+?(\d+)", entry)
    gpu = next((gpu for gpu in gpus if match and gpu.ordinal == int(match[1])), None)
    return (gpu.uuid, gpu) if gpu else None


def _by_uuid(entry: str, gpus: Sequence[GpuRef]) -> tuple[str, GpuRef] | None:
    if entry.startswith("MIG-GPU-"):  # before driver 470: MIG-<UUID of the GPU>/<instance>/<instance>
        uuid = entry[4:].partition("/")[0]
        return next(((entry, gpu) for gpu in gpus if gpu.uuid == uuid), None)
    known = [(uuid, gpu) for gpu in gpus for uuid in (gpu.uuid, *gpu.mig)]
    matches = [(uuid, gpu) for uuid, gpu in known if entry and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 and len(entry) > len("GPU-") else None


def gpu_of_rank(local_rank: int, env: Mapping[str, str], gpus: Sequence[GpuRef]) -> tuple[GpuRef | None, str, str]:
    """Return the GPU of a rank, or None with a code and a reason.

    The visible list first, then the local rank indexes into it; a list of one GPU is the rank's own
    whatever its local rank is.
    """
    if not gpus:
        return None, "no_gpu", "no GPU is known on this node"
    visible = env.get("CUDA_VISIBLE_DEVICES")
    seen = visible_gpus(visible, gpus)
    if not seen:
        return None, "none_visible", f"no GPU is visible (CUDA_VISIBLE_DEVICES={visible})"
    numbered = visible is None or not visible.strip().startswith(("GPU-", "MIG-"))
    order = env.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    if numbered and order != "PCI_BUS_ID" and len({gpu.name for gpu in gpus}) > 1:
        return (
            None,
            "device_order_ambiguous",
            "GPUs of different models, and CUDA_DEVICE_ORDER is not PCI_BUS_ID",
        )
    if len(seen) == 1 and "SLURM_LOCALID" in env and numbered and visible is not None and len(gpus) > 1:
        return None, "renumbered", "SLURM shows this task one GPU, whose number may not be the node's"
    mine = 0 if len(seen) == 1 else local_rank
    if mine >= len(seen):
        among = f"among the {len(seen)} visible (CUDA_VISIBLE_DEVICES={visible})"
        return None, "no_gpu_for_rank", f"local rank {local_rank} has no GPU {among}"
    return seen[mine], "", ""
