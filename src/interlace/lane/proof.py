"""The proof of what ran where: ranks and their loader workers read back while they run, and judged.

`Proof` looks at /proc; the rest is pure. A rank's own wrapper wrote down what it bound (`ranks/rank-N.json`), but
a program may change its binding later: what counts is where it is found once it makes steps.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.lane.ranks import read_ranks
from interlace.rank.identity import TELLS_RANK, identity
from interlace.rank.numa import parse_cpulist
from interlace.wording import first_of, sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from interlace.monitor.foreign import Sighting

WORKER_NAME = "pt_data_worker"
"""What torch (2.4 and later) calls the processes of a DataLoader."""

KERNELS_WORD = {"bind": "bind", "preferred": "prefer"}
"""How the kernel names the policies that numactl sets."""

SHOWN = 4


@dataclass(frozen=True)
class Running:
    """One rank as the kernel gave it back at `step`; CPU and memory-node lists as the kernel writes them.

    `memory_policy` is the kernel's word for its memory (`default`, `bind:0`, `prefer:0`), None where it gives none.
    `world_below` is the world size of the ranks that it started itself, None where it started none.
    """

    pid: int
    step: int
    cpus_allowed: str
    mems_allowed: str | None
    threads: int
    workers: int = 0
    worker_cpus_allowed: tuple[str, ...] = ()
    memory_policy: str | None = None
    world_below: int | None = None


class Proof:
    """Reads the ranks of a run back twice: at its first step, and past the middle of its window.

    In a lane of several nodes `node` is this one: ranks of the others are not to be found here.
    """

    def __init__(
        self, run_dir: Path, window: Sequence[int], proc: Path = Path("/proc"), *, node: str | None = None
    ) -> None:
        self._run_dir = run_dir
        self._node = node
        self._proc = proc
        self._due = due(window)
        self._found: dict[int, Running] = {}

    def at(self, step: int) -> None:
        """Look, if it is time to; the later look replaces the earlier one, and trouble is no trouble of the run.

        Loader workers end when they have handed out their last batch, in fast steps before the later look: those of the
        look that found more of them are kept; ranks of another launcher likewise.
        """
        if not self._due or step < self._due[0]:
            return
        self._due = [due for due in self._due if due > step]
        for rank in self._ranks():
            with contextlib.suppress(OSError, ValueError, KeyError):
                number, seen = int(rank["rank"]), running(int(rank["pid"]), step, self._proc)
                self._found[number] = _with_earlier(seen, self._found.get(number))

    def placements(self, sightings: Iterable[Sighting]) -> list[dict[str, Any]]:
        """Return what each rank's wrapper wrote, and beside it, under `running`, what was read back."""
        computing: dict[int, Sighting] = {}
        for one in sightings:
            other = computing.get(one.pid)
            if other is None or (one.used_mib or 0.0) > (other.used_mib or 0.0):
                computing[one.pid] = one
        return [self._placement(rank, computing) for rank in self._ranks()]

    def _ranks(self) -> list[dict[str, Any]]:
        return [rank for rank in read_ranks(self._run_dir) if self._node in (None, rank.get("node"))]

    def _placement(self, rank: dict[str, Any], computing: Mapping[int, Sighting]) -> dict[str, Any]:
        found = self._found.get(int(rank.get("rank") or 0))
        on_gpu = computing.get(int(rank.get("pid") or 0))
        seen = {**asdict(found), "gpu_uuid": on_gpu.uuid if on_gpu else None} if found else None
        return {**rank, "running": seen}


def due(window: Sequence[int]) -> list[int]:
    """Return the steps from which on ranks are read back: once they all make steps, and once they are at it."""
    return [1, (window[0] + window[1]) // 2]


def running(pid: int, step: int, proc: Path = Path("/proc")) -> Running:
    """Read one rank and its loader workers. Raises OSError where the process has ended."""
    status = _status(proc / str(pid))
    workers = [child for child in _children(pid, proc) if _name(proc / str(child)) == WORKER_NAME]
    masks = {_status(proc / str(child)).get("Cpus_allowed_list", "") for child in workers}
    return Running(
        pid=pid,
        step=step,
        cpus_allowed=status["Cpus_allowed_list"],
        mems_allowed=status.get("Mems_allowed_list"),
        threads=int(status.get("Threads", "1")),
        workers=len(workers),
        worker_cpus_allowed=tuple(sorted(mask for mask in masks if mask)),
        memory_policy=_memory_policy(proc / str(pid)),
        world_below=_world_below(pid, proc),
    )


def world_below(placements: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the world size of the ranks that ranks of ours started themselves; None unless each of them did.

    A launcher in the command is below every rank, and starts several; one rank alone, or a world of one, may be a
    server or an evaluation beside the training.
    """
    found = [(rank.get("running") or {}).get("world_below") or 1 for rank in placements]
    return max(found) if found and min(found) > 1 else None


def _world_below(pid: int, proc: Path) -> int | None:
    """Read what the processes below a rank were told as they started: workers inherit its rank, a launcher's do not."""
    own = _environ(proc / str(pid))
    sizes, left = [], _children(pid, proc)
    while left:
        child = left.pop()
        left += _children(child, proc)
        told = _environ(proc / str(child))
        if any(told[name] != own.get(name) for name in TELLS_RANK & told.keys()):
            sizes.append(identity(told).world_size)
    return max(sizes, default=None)


def _environ(process: Path) -> dict[str, str]:
    with contextlib.suppress(OSError):
        entries = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        return {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}
    return {}


def _with_earlier(later: Running, earlier: Running | None) -> Running:
    if earlier is None:
        return later
    later = replace(later, world_below=later.world_below or earlier.world_below)
    if earlier.workers <= later.workers:
        return later
    return replace(later, workers=earlier.workers, worker_cpus_allowed=earlier.worker_cpus_allowed)


def _memory_policy(process: Path) -> str | None:
    """Read the policy of the first mapping, which is the process's own; the whole file would walk all its pages."""
    with contextlib.suppress(OSError), (process / "numa_maps").open("rb", buffering=0) as stream:
        words = stream.read(200).split(b"\n")[0].split()
        return words[1].decode() if len(words) > 1 else None
    return None


def _children(pid: int, proc: Path) -> list[int]:
    """List the children of all threads of a process; none where the kernel does not say (CONFIG_PROC_CHILDREN)."""
    found = []
    for task in (proc / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def _name(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text(errors="replace").strip()  # cut after 15 bytes, inside a letter or not
    return ""


def _status(process: Path) -> dict[str, str]:
    lines = (process / "status").read_text(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def doubts(placements: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what speaks against a run's placement: a binding that did not stay, another GPU, too few CPUs."""
    found = sharing((f"rank {rank.get('rank')}", text) for rank in placements for text in _doubts_of(rank))
    return [*(f"{first_of(ranks, SHOWN)}: {text}" for text, ranks in found.items()), *_crowds(placements)]


def _crowds(placements: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which ranks of a node share fewer CPUs than they and their loader workers are."""
    sharing: dict[tuple[str | None, str], list[Mapping[str, Any]]] = {}
    for rank in placements:
        if rank.get("running"):
            sharing.setdefault((rank.get("node"), rank["running"]["cpus_allowed"]), []).append(rank)
    found = []
    for (_, mask), ranks in sharing.items():
        cpus, workers = len(parse_cpulist(mask)), sum(rank["running"]["workers"] for rank in ranks)
        if workers and len(ranks) + workers > cpus:
            names = first_of([f"rank {rank.get('rank')}" for rank in ranks], SHOWN)
            wider = any((rank.get("binding") or {}).get("scope") in ("node", "cores") for rank in ranks)
            hint = ", or a wider numa.scope" if wider else ""
            found.append(
                f"{names}: {len(ranks) + workers} processes ({workers} loader workers) share {cpus} CPUs ({mask}) and "
                f"wait for each other: fewer workers{hint}"
            )
    return found


def _doubts_of(rank: Mapping[str, Any]) -> list[str]:
    seen = rank.get("running")
    binding = rank.get("binding") or {}
    if not seen:
        return ["not read back while it ran: it made no step that was seen in time, or its process had ended"]
    texts = []
    meant = binding.get("cpus") if binding.get("action") == "bind" else None
    intended, layer = rank.get("cpus_intended"), binding.get("other_layer")
    if layer and intended and _differ(intended, seen["cpus_allowed"]):
        texts.append(f"{layer} put it on CPUs {seen['cpus_allowed']}; its GPU is near CPUs {intended}")
    elif meant and _differ(meant, seen["cpus_allowed"]):
        texts.append(f"bound to CPUs {meant}, but runs on {seen['cpus_allowed']}: the binding did not stay")
    elif not meant and rank.get("cpus_allowed") and _differ(rank["cpus_allowed"], seen["cpus_allowed"]):
        texts.append(
            f"started on CPUs {rank['cpus_allowed']}, runs on {seen['cpus_allowed']}: the program bound itself"
        )
    texts += [
        f"its loader workers run on CPUs {mask}, it on {seen['cpus_allowed']}"
        for mask in seen["worker_cpus_allowed"]
        if _differ(mask, seen["cpus_allowed"])
    ]
    asked = binding.get("memory_asked")
    if asked not in (None, "off") and binding.get("memory") == "off":
        texts.append(f"numa.memory={asked} is not applied: {binding.get('memory_reason') or 'no reason recorded'}")
    policy = seen.get("memory_policy")
    if binding.get("memory") in KERNELS_WORD and policy and not policy.startswith(KERNELS_WORD[binding["memory"]]):
        texts.append(f"memory was bound ({binding['memory']}), and its policy is {policy} now: it did not stay")
    scope = binding.get("scope_asked")
    if scope not in (None, "node") and binding.get("scope") != scope:
        texts.append(f"numa.scope={scope} is not applied: {binding.get('reason') or 'bound to its node instead'}")
    expected = (binding.get("gpu") or {}).get("uuid")
    if expected and seen.get("gpu_uuid") and seen["gpu_uuid"] != expected:
        texts.append(f"computes on GPU {seen['gpu_uuid']}, its visible devices say {expected}")
    return texts


def _differ(one: str, other: str) -> bool:
    return parse_cpulist(one) != parse_cpulist(other)
