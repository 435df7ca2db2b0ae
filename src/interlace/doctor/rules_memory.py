"""What the facts say about memory, shared memory, the limits of processes, and the disk of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.doctor.finding import Finding, ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import NodeFacts

FEW_MIB = 4096.0
FEW_SHARE = 0.1
DOCKER_SHM_MIB = 64.0
SMALL_SHM_MIB = 1024.0
FULL_SHM_MIB = 256.0
FEW_FILES = 4096
FEW_PROCESSES = 4096
LITTLE_GIB, TOO_LITTLE_GIB = 10.0, 1.0

_NETWORK = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "wekafs", "afs")
_ELSEWHERE = "give another folder: output_dir=DIR (here: --output-dir DIR)"
_SHM = "start the container with --shm-size=16g or --ipc=host: DataLoader workers and NCCL die without it"


def memory(facts: NodeFacts) -> Iterator[Finding]:
    """Say how much main memory is left, within the cgroup as well."""
    total, available = facts.node.memory_total_mib, facts.memory.available_mib
    if total is None or available is None:
        yield warning("memory", "cannot be read from /proc/meminfo", "see whether /proc is mounted")
        return
    what = f"{_gib(available)} of {_gib(total)} available; {_swap(facts)}"
    what += f"; huge pages {facts.memory.huge_pages}" if facts.memory.huge_pages else ""
    limit = facts.node.limits.memory_max_mib
    what += f"; the cgroup allows {_gib(limit)}" if limit is not None and limit < total else ""
    usable = min(available, limit) if limit is not None else available
    if usable < FEW_MIB or available < FEW_SHARE * total:
        yield warning("memory", what, "end what holds it (`ps aux --sort=-rss | head`): swapping ruins every step time")
    else:
        yield ok("memory", what)


def _swap(facts: NodeFacts) -> str:
    total, free = facts.memory.swap_total_mib, facts.memory.swap_free_mib
    if total is None or free is None:
        return "swap unknown"
    return f"{_gib(total - free)} of {_gib(total)} swap in use" if total else "no swap"


def shared_memory(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether DataLoader workers and NCCL have room to pass their data."""
    name = "shared memory"
    size, free = facts.node.limits.dev_shm_mib, facts.node.limits.dev_shm_free_mib
    if size is None or free is None:
        why = facts.node.missing.get("limits.dev_shm_mib", "cannot be read")
        yield warning(name, why, "mount it (`mount -t tmpfs tmpfs /dev/shm`): DataLoader workers need it")
    elif size <= DOCKER_SHM_MIB:
        yield problem(name, f"{size:.0f} MiB in /dev/shm, as Docker gives by default", _SHM)
    elif size < SMALL_SHM_MIB:
        yield warning(name, f"{size:.0f} MiB in /dev/shm", _SHM)
    elif free < FULL_SHM_MIB:
        yield warning(
            name,
            f"{free:.0f} MiB of {_gib(size)} free in /dev/shm",
            "remove what ended programs left: `ls -l /dev/shm`",
        )
    else:
        yield ok(name, f"{_gib(free)} of {_gib(size)} free in /dev/shm")


def limits(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether ranks with their workers would run into a limit of open files, processes or locked memory."""
    limit = facts.ulimits
    low = False
    if limit.nofile is not None and limit.nofile < FEW_FILES:
        low = True
        may = "unlimited" if limit.nofile_hard is None else str(limit.nofile_hard)
        yield warning(
            "open files", f"ulimit -n is {limit.nofile}",
            f"`ulimit -n 65536` in this shell (up to {may}; more: limits.conf): workers pass tensors as open files",
        )  # fmt: skip
    if limit.nproc is not None and limit.nproc < FEW_PROCESSES:
        low = True
        yield warning(
            "processes",
            f"ulimit -u is {limit.nproc}",
            "`ulimit -u 65536`: every thread counts, and ranks have hundreds",
        )
    if limit.memlock_kib is not None and facts.surroundings.infiniband:
        low = True
        yield warning(
            "locked memory", f"ulimit -l is {limit.memlock_kib:.0f} KiB, and there is InfiniBand",
            "`ulimit -l unlimited` (limits.conf; Docker: --ulimit memlock=-1): RDMA registers memory by locking it",
        )  # fmt: skip
    if not low:
        yield ok(
            "ulimits", f"{_of(limit.nofile)} open files, {_of(limit.nproc)} processes, "
            f"{_of(limit.memlock_kib, ' KiB')} locked memory, core files {_of(limit.core_kib, ' KiB')}",
        )  # fmt: skip


def _of(value: float | None, unit: str = "") -> str:
    return "unlimited" if value is None else f"{value:.0f}{unit}"


def output(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether results can be written, and how much fits."""
    folder = facts.output
    where = folder.path if folder.exists else f"{folder.path}, to be made in {folder.nearest}"
    if folder.unusable is not None:
        yield problem("output", f"{where}: {folder.unusable}", _ELSEWHERE)
        return
    kind = folder.file_system or "unknown file system"
    free = "free space unknown" if folder.free_gib is None else f"{folder.free_gib:.1f} GiB free"
    what = f"{where}: {free} on {kind}{_nature(kind)}"
    if not folder.inodes_left:
        yield problem("output", f"{what}, no inodes left", f"remove files there, or {_ELSEWHERE}")
    elif folder.free_gib is not None and folder.free_gib < TOO_LITTLE_GIB:
        yield problem("output", what, f"make room, or {_ELSEWHERE}")
    elif folder.free_gib is not None and folder.free_gib < LITTLE_GIB:
        yield warning("output", what, f"make room, or {_ELSEWHERE}")
    else:
        yield ok("output", what)


def _nature(kind: str) -> str:
    if kind in _NETWORK or kind.startswith("fuse"):
        return " (over the network: logs of the steps go there during a run)"
    return {"tmpfs": " (in memory: gone after a reboot)", "overlay": " (of the container: gone with it)"}.get(kind, "")


def _gib(value_mib: float) -> str:
    return f"{value_mib / 1024:.1f} GiB"
