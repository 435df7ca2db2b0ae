"""Where ranks ran, over all runs of a sweep: the same placement is said once. Pure but for `read_placements`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlace.errors import ReadError
from interlace.files import read_json
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.records import Attempt

SHOWN = 8


@dataclass(frozen=True)
class Placement:
    """One way in which ranks were placed, and in how many runs; `ranks` were all placed like this.

    `gpu` is the UUID that the driver listed for the process, else the one its visible devices name. `cpus` were read
    back while the rank made steps, None where that did not succeed. `bound` says how (`numactl`,
    `sched_setaffinity`), or why not. `node` is None where the run had one only.
    """

    arm: str
    ranks: tuple[int, ...]
    gpu: str | None
    numa_node: int | None
    cpus: str | None
    bound: str
    workers: int | None
    omp_num_threads: str | None
    runs: int
    node: str | None = None


def read_placements(attempt: Attempt) -> list[dict[str, Any]]:
    """Read placement.json of one run; empty where there is none."""
    try:
        return read_json(attempt.path / "placement.json", list[dict[str, Any]])
    except ReadError:
        return []


def grouped(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> tuple[Placement, ...]:
    """Group (arm, what placement.json holds) of every run: one entry an arm, rank and way of being placed."""
    seen: dict[tuple[Any, ...], int] = {}
    for arm, ranks in runs:
        for rank in ranks:
            key = (arm, int(rank.get("rank") or 0), *_of(rank))
            seen[key] = seen.get(key, 0) + 1
    joined: dict[tuple[Any, ...], list[int]] = {}
    for (arm, rank_number, *rest), count in seen.items():
        joined.setdefault((arm, *rest, count), []).append(rank_number)
    return tuple(
        Placement(arm, tuple(sorted(ranks)), gpu, numa_node, cpus, bound, workers, omp, count, node)
        for (arm, node, gpu, numa_node, cpus, bound, workers, omp, count), ranks in joined.items()
    )


def _of(
    rank: Mapping[str, Any],
) -> tuple[str | None, str | None, int | None, str | None, str, int | None, str | None]:
    binding, running = rank.get("binding") or {}, rank.get("running") or {}
    gpu = running.get("gpu_uuid") or (binding.get("gpu") or {}).get("uuid")
    bound = binding.get("how") or f"not bound: {binding.get('reason') or 'no reason recorded'}"
    if binding.get("how") and binding.get("scope") not in (None, "node"):
        bound += f" ({binding['scope']})"
    if binding.get("memory") not in (None, "off"):
        bound += f", memory {binding['memory']} to node {binding.get('memory_nodes')}"
    cpus, workers = running.get("cpus_allowed"), running.get("workers")
    return rank.get("node"), gpu, binding.get("numa_node"), cpus, bound, workers, rank.get("omp_num_threads")


def lines(placements: Sequence[Placement]) -> list[str]:
    """Write one line a way of being placed, arms that share it together."""
    arms: dict[tuple[Any, ...], list[str]] = {}
    for one in placements:
        key = (one.ranks, one.node, one.gpu, one.numa_node, one.cpus, one.bound, one.workers, one.omp_num_threads)
        arms.setdefault(key, []).append(f"{one.arm} ({one.runs})")
    return [f"{_told(*key)}: {first_of(names, SHOWN)}" for key, names in arms.items()]


def _told(
    ranks: tuple[int, ...], node: str | None, gpu: str | None, numa_node: int | None, cpus: str | None, bound: str,
    workers: int | None, omp: str | None,
) -> str:  # fmt: skip
    parts = [
        f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}",
        f"node {node}" if node else None,
        f"GPU {gpu}" if gpu else "no GPU known",
        None if numa_node is None else f"NUMA node {numa_node}",
        f"CPUs {cpus}" if cpus else "CPUs not read back",
        bound,
        None if workers is None else f"{workers} loader workers",
        f"OMP_NUM_THREADS={omp}" if omp else None,
    ]
    return ", ".join(part for part in parts if part)
