"""Which GPUs a rank could be given: as the orchestrator passed them, else as the driver lists them.

Standard library only and light: every rank imports this before it starts.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from interlace.rank.visible import GpuRef

if TYPE_CHECKING:
    from collections.abc import Mapping


def gpus_passed(env: Mapping[str, str]) -> tuple[GpuRef, ...]:
    """Read the map the orchestrator passed; empty where there is none or it cannot be read."""
    try:
        entries = json.loads(env.get("INTERLACE_GPU_MAP") or "[]")
        return tuple(
            GpuRef(
                entry["index"],
                entry["uuid"],
                entry["bus_id"],
                entry.get("name") or "",
                tuple(entry.get("mig") or ()),
            )
            for entry in entries
            if entry["index"] is not None and entry["bus_id"]
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def gpus_found(proc: str = "/proc", dev: str = "/dev", *, slices: bool = False) -> tuple[GpuRef, ...]:
    """Return the GPUs this process may use, in PCI order: from the driver's files, else from nvidia-smi.

    `slices`: UUIDs of MIG slices are needed, which nvidia-smi alone tells. NVIDIA_VISIBLE_DEVICES is not read: it
    is for the container's runtime, and `void` there may go with GPUs that were put in by another way (CDI).
    """
    found = []
    folder = f"{proc}/driver/nvidia/gpus"
    for bus_id in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():  # noqa: PTH112, PTH208 (pathlib costs 10 ms)
        facts = read_facts(f"{folder}/{bus_id}/information")
        # A container or a cgroup shows fewer devices than the driver has; CUDA counts only those.
        if os.access(f"{dev}/nvidia{facts.get('Device Minor', '?')}", os.R_OK | os.W_OK):
            found.append((facts.get("GPU UUID", ""), bus_id.lower(), facts.get("Model", "")))
    by_files = tuple(GpuRef(index, *facts) for index, facts in enumerate(found))
    return by_files if by_files and not slices else _gpus_by_smi() or by_files


def read_facts(path: str) -> dict[str, str]:
    """Read a file of `Name: value` lines, as /proc has many."""
    with open(path, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 (as above)
        pairs = (line.partition(":") for line in stream)
        return {name.strip(): value.strip() for name, _, value in pairs}


def _gpus_by_smi() -> tuple[GpuRef, ...]:
    """Ask nvidia-smi, the last resort: it can take seconds."""
    if which("nvidia-smi") is None:
        return ()
    from interlace.monitor.readings import GpuReadError  # noqa: PLC0415 (never paid for under Interlace)
    from interlace.monitor.smi import NvidiaSmi  # noqa: PLC0415

    try:
        gpus = NvidiaSmi().inventory()
    except GpuReadError:
        return ()
    return tuple(
        GpuRef(gpu.index, gpu.uuid, gpu.bus_id, gpu.name or "", tuple(one.uuid for one in gpu.mig))
        for gpu in gpus
        if gpu.index is not None and gpu.bus_id
    )


def which(program: str) -> str | None:
    """Find a program as execvp would."""
    places = [""] if "/" in program else [f"{place or '.'}/" for place in os.get_exec_path()]
    return next((place + program for place in places if os.access(place + program, os.F_OK)), None)
