"""What the per-rank wrapper costs at start, beside Python's own start, in turn.

    python benchmarks/rank.py [STARTS]

Prints the median wall and CPU time (of the process and of what it starts) of `python -c pass` and of the wrapper
around `true`, for each scope, and their ratios. A tree in place of /sys makes a machine of two NUMA nodes whose first
one is this machine's, so that the ways through numactl are paid for too. Last, the planning alone for eight
ranks on a large node (2 sockets, 8 NUMA nodes, 256 CPUs), which comes on top there.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from interlace.rank import numa
from interlace.rank.cores import shared
from interlace.rank.visible import GpuRef

STARTS = 21
LOCAL_RANKS = 2
BARE = "python -c pass"
WRAPPER = [sys.executable, "-P", "-m", "interlace.rank", "--", "true"]
ON_TREE = "import sys; from interlace.rank.wrapper import main; sys.exit(main(['--', 'true'], sysfs_root=sys.argv[1]))"


def started(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Return wall and CPU milliseconds of one start, with all that it waited for."""
    began_s = time.perf_counter()
    child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - began_s
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{argv} ended with {child.returncode}")
    return 1000 * wall_s, 1000 * (used.ru_utime + used.ru_stime)


def tree(root: Path, nodes: list[str], gpus: list[int], sockets: int) -> str:
    """Write a sysfs of these nodes (lists of CPUs), GPUs (their nodes) and sockets of equally many nodes."""
    files = {"devices/system/node/online": f"0-{len(nodes) - 1}"}
    for node, cpus in enumerate(nodes):
        files[f"devices/system/node/node{node}/cpulist"] = cpus
        for cpu in numa.parse_cpulist(cpus):
            topology = f"devices/system/cpu/cpu{cpu}/topology"
            files[f"{topology}/physical_package_id"] = str(node * sockets // len(nodes))
            # The large machine has SMT: CPU n and n + 128 are one core.
            files[f"{topology}/thread_siblings_list"] = f"{cpu % 128},{cpu % 128 + 128}" if len(nodes) > 2 else str(cpu)
    files |= {f"bus/pci/devices/{bus_id(gpu)}/numa_node": str(node) for gpu, node in enumerate(gpus)}
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return str(root)


def bus_id(gpu: int) -> str:
    """Return an invented bus id."""
    return f"0000:{gpu:02x}:00.0"


def variants(folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return what is started: name -> command and environment."""
    gpu_map = json.dumps([{"index": gpu, "uuid": f"GPU-{gpu}", "bus_id": bus_id(gpu)} for gpu in range(LOCAL_RANKS)])
    here = numa.format_cpulist(numa.cpus_of_node(0) or os.sched_getaffinity(0))
    sysfs = tree(folder / "two", [here, "4094-4095"], [0] * LOCAL_RANKS, 2)
    env = {name: value for name, value in os.environ.items() if not name.startswith("INTERLACE_")}
    env |= {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": str(LOCAL_RANKS)}
    env |= {"INTERLACE_GPU_MAP": gpu_map, "INTERLACE_RUN_DIR": str(folder)}
    on_tree = [sys.executable, "-P", "-c", ON_TREE, sysfs]
    found = {BARE: ([sys.executable, "-c", "pass"], env)}
    found["rank, numa.bind=off"] = (WRAPPER, env | {"INTERLACE_NUMA_BIND": "off"})
    for scope in ("node", "socket", "cores"):
        found[f"rank, {scope}, this machine"] = (WRAPPER, env | {"INTERLACE_NUMA_SCOPE": scope})
    for scope in ("node", "socket", "cores"):
        found[f"rank, {scope}, two nodes"] = (on_tree, env | {"INTERLACE_NUMA_SCOPE": scope})
    found["rank, node, memory=bind, two nodes"] = (on_tree, env | {"INTERLACE_NUMA_MEMORY": "bind"})
    return found


def planning_ms(sysfs: str, scope: str) -> float:
    """Return the milliseconds that planning for eight ranks takes, sysfs read included."""
    gpus = tuple(GpuRef(gpu, f"GPU-{gpu}", bus_id(gpu)) for gpu in range(8))
    every = frozenset(range(256))
    numa.packages.cache_clear()
    began_s = time.process_time()
    plans = [
        numa.plan_binding(
            rank, {}, gpus, affinity=every, cpuset=every, sysfs_root=sysfs, scope="node" if scope == "cores" else scope
        )
        for rank in range(8)
    ]
    if scope == "cores":
        plans = shared(plans, affinity=every, cpuset=every, mask_shared=True, known=True, sysfs_root=sysfs)
    if {plan.scope for plan in plans} != {scope} or not all(plan.action == "bind" for plan in plans):
        raise SystemExit(f"the large machine was not planned as meant: {plans}")
    return 1000 * (time.process_time() - began_s)


def main() -> None:
    """Start everything in turn and print the tables."""
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else STARTS
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        todo = variants(folder)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in todo}
        for _ in range(starts):
            for name, (argv, env) in todo.items():
                times[name].append(started(argv, env))
        nodes = [f"{16 * node}-{16 * node + 15},{128 + 16 * node}-{143 + 16 * node}" for node in range(8)]
        large = tree(folder / "large", nodes, [3, 3, 1, 1, 7, 7, 5, 5], 2)
        planned = {
            scope: statistics.median(planning_ms(large, scope) for _ in range(starts))
            for scope in ("node", "socket", "cores")
        }
    medians = {
        name: [statistics.median(column) for column in zip(*values, strict=True)] for name, values in times.items()
    }
    bare_wall, bare_cpu = medians[BARE]
    print(f"{starts} starts of each, in turn; medians")
    print(f"{'':36}{'wall, ms':>10}{'ratio':>7}{'CPU, ms':>10}{'ratio':>7}")
    for name, (wall, cpu) in medians.items():
        print(f"{name:36}{wall:10.1f}{wall / bare_wall:7.2f}{cpu:10.1f}{cpu / bare_cpu:7.2f}")
    print("planning for 8 ranks on 8 NUMA nodes and 256 CPUs, CPU ms:", end=" ")
    print("  ".join(f"{scope} {ms:.1f}" for scope, ms in planned.items()))


if __name__ == "__main__":
    main()
