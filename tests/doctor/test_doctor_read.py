from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlace.doctor.examine import examine
from interlace.doctor.facts import (
    SHOWN_FROM_PCT,
    CpuLoad,
    CpuSettings,
    GpuSigns,
    Memory,
)
from interlace.doctor.finding import all_findings
from interlace.doctor.once import AskedOnce
from interlace.doctor.read import gpu_signs, memory, read_node
from interlace.doctor.read_cpu import cpu_settings, load_over
from interlace.doctor.read_placement import planned
from interlace.monitor.fake import FakeGpus
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, GpuSample, ProcessList
from tests.doctor.handmade import tree
from tests.monitor.contract import SAMPLED, MonitorContract

if TYPE_CHECKING:
    from pathlib import Path

A, B = "GPU-aaaaaaaa", "GPU-bbbbbbbb"
TWO_GPUS = (Gpu(0, A, "0000:1b:00.0", "NVIDIA H200"), Gpu(1, B, "0000:9b:00.0", "NVIDIA H200"))
TWO_NODES = {
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/devices/system/node/node1/cpulist": "2-3\n",
    "sys/bus/pci/devices/0000:1b:00.0/numa_node": "0\n",
    "sys/bus/pci/devices/0000:9b:00.0/numa_node": "1\n",
}
ALL = frozenset(range(4))


# ---------------------------------------------------------------- GPUs


class TestAskedOnce(MonitorContract):
    @pytest.fixture
    def source(self) -> AskedOnce:
        every = dict.fromkeys(SAMPLED, "[N/A]")
        return AskedOnce(
            FakeGpus([TWO_GPUS[0]], [[GpuSample(0.0, A, reasons=every)]], [ProcessList((GpuProcess(1, A),))])
        )


def test_a_source_is_asked_once_and_its_refusal_is_kept() -> None:
    asked = AskedOnce(
        FakeGpus(
            samples=[GpuReadError("timeout", "did not answer"), ()],
            processes=[ProcessList((), {"*": "first"}), ProcessList()],
        )
    )

    refusals = []
    for _ in range(2):
        with pytest.raises(GpuReadError) as caught:
            asked.sample()
        refusals.append(str(caught.value))

    assert refusals == ["did not answer"] * 2
    assert (asked.processes(), asked.processes()) == (ProcessList((), {"*": "first"}),) * 2


def test_gpus_on_the_bus_are_seen_without_their_driver(tmp_path: Path) -> None:
    devices = "sys/bus/pci/devices"
    tree(
        tmp_path,
        {
            f"{devices}/0000:1b:00.0/vendor": "0x10de\n", f"{devices}/0000:1b:00.0/class": "0x030200\n",
            f"{devices}/0000:1b:00.1/vendor": "0x10de\n", f"{devices}/0000:1b:00.1/class": "0x040300\n",
            f"{devices}/0000:00:02.0/vendor": "0x8086\n", f"{devices}/0000:00:02.0/class": "0x030000\n",
            "proc/driver/nvidia/version": "NVRM version: 570\n",
        },
    )  # fmt: skip

    assert gpu_signs(tmp_path) == GpuSigns(proc_driver=True, pci_bus_ids=("0000:1b:00.0",))
    assert gpu_signs(tmp_path / "nowhere") == GpuSigns()


# ---------------------------------------------------------------- placement


def test_a_rank_is_planned_for_each_visible_gpu(tmp_path: Path) -> None:
    tried: list[tuple[tuple[int, ...], frozenset[int]]] = []
    tree(tmp_path, TWO_NODES)

    placement = planned(
        TWO_GPUS, {}, str(tmp_path / "sys"), lambda: (ALL, ALL), lambda nodes, cpus: tried.append((tuple(nodes), cpus))
    )

    assert [(rank.action, rank.numa_node, rank.cpus, rank.whole_node) for rank in placement.ranks] == [
        ("bind", 0, "0-1", True), ("bind", 1, "2-3", True),
    ]  # fmt: skip
    assert tried == [((0, 1), ALL)]
    assert (placement.affinity, placement.cpuset, placement.numactl_refusal) == ("0-3", "0-3", None)


def test_only_visible_gpus_get_a_rank_in_the_order_cuda_has_them(tmp_path: Path) -> None:
    tree(tmp_path, TWO_NODES)

    placement = planned(
        TWO_GPUS, {"CUDA_VISIBLE_DEVICES": "1"}, str(tmp_path / "sys"), lambda: (ALL, ALL), lambda _nodes, _cpus: "no"
    )

    assert [(rank.gpu_index, rank.numa_node) for rank in placement.ranks] == [(1, 1)]
    assert placement.numactl_refusal == "no"


# ---------------------------------------------------------------- CPUs and memory


START_AN_ORPHAN = """\
import subprocess, sys
spinning = ["sh", "-c", "ulimit -t 20; while :; do :; done"]  # the limit ends it even if this test cannot
print(subprocess.Popen(spinning, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
"""


def test_a_process_that_computes_and_is_not_ours_is_found() -> None:
    # By a parent that ends at once, so that it is no child of this process.
    started = subprocess.run([sys.executable, "-c", START_AN_ORPHAN], capture_output=True, text=True, check=True)
    pid = int(started.stdout)
    try:
        load = load_over(0.5, shown=1000)  # others may compute on this machine, too
    finally:
        os.kill(pid, signal.SIGKILL)

    assert [user.name for user in load.users if user.pid == pid] == ["sh"]
    assert all(user.cpu_pct >= SHOWN_FROM_PCT for user in load.users)
    assert load.busy_pct is not None
    assert load.busy_pct > 0


def test_cpu_settings_are_counted_over_all_cpus(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    tree(
        tmp_path,
        {
            f"{cpus}/online": "0-2\n", f"{cpus}/offline": "3\n", f"{cpus}/isolated": "\n",
            f"{cpus}/smt/control": "on\n",
            f"{cpus}/intel_pstate/status": "active\n", f"{cpus}/intel_pstate/no_turbo": "1\n",
            **{f"{cpus}/cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in (0, 1)},
            f"{cpus}/cpu2/cpufreq/scaling_governor": "performance\n",
            f"{cpus}/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
            f"{cpus}/cpu0/cpufreq/energy_performance_preference": "balance_performance\n",
        },
    )  # fmt: skip

    assert cpu_settings(tmp_path) == CpuSettings(
        "0-2", "3", "", {"powersave": 2, "performance": 1}, {"balance_performance": 1}, "intel_pstate",
        driver_active=True, smt="on", boost=False,
    )  # fmt: skip
    assert cpu_settings(tmp_path / "nowhere") == CpuSettings()


def test_memory_and_swap_are_read_in_mib(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/meminfo": "MemTotal: 4096 kB\nMemAvailable: 2048 kB\nSwapTotal: 1024 kB\nSwapFree: 512 kB\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        },
    )

    assert memory(tmp_path) == Memory(2.0, 1.0, 0.5, "madvise")
    assert memory(tmp_path / "nowhere") == Memory()


# ---------------------------------------------------------------- all of it


def test_a_node_of_which_nothing_can_be_read_gives_findings_and_no_traceback(tmp_path: Path) -> None:
    facts = read_node(
        NoGpus("there are none"), root=tmp_path, output_dir=tmp_path / "outputs", environ={},
        load=lambda: CpuLoad(0.0, None), try_numactl=lambda _nodes, _cpus: "no",
    )  # fmt: skip

    found = {finding.name: finding.level for finding in all_findings(examine(facts))}

    assert {name for name, level in found.items() if level == "warning"} == {"load", "memory", "shared memory"}
    assert "problem" not in found.values()


def test_a_source_that_refuses_everything_is_one_problem(tmp_path: Path) -> None:
    class Refusing(FakeGpus):
        def inventory(self) -> tuple[Gpu, ...]:
            raise GpuReadError("gpu_lost", "GPU is lost")

    facts = read_node(
        Refusing(samples=[GpuReadError("gpu_lost", "GPU is lost")]), root=tmp_path, output_dir=tmp_path, environ={},
        load=lambda: CpuLoad(0.0, 1.0), try_numactl=lambda _nodes, _cpus: None,
    )  # fmt: skip

    assert [(one.name, one.what) for one in all_findings(examine(facts)) if one.level == "problem"] == [
        ("GPUs", "GPU is lost")
    ]


def test_a_node_is_read_from_its_files_and_its_source(tmp_path: Path) -> None:
    tree(tmp_path, {**TWO_NODES, "sys/devices/system/cpu/online": "0-3\n"})
    source = FakeGpus(TWO_GPUS, [[GpuSample(0.0, A, 4.0, 0.0, 345.0, 30.0, 70.0, 1), GpuSample(0.0, B, 4.0, 0.0)]])

    facts = read_node(
        source, root=tmp_path, output_dir=tmp_path, environ={"CUDA_VISIBLE_DEVICES": "0"},
        load=lambda: CpuLoad(0.5, 1.0), cpus=lambda: (ALL, ALL), try_numactl=lambda _nodes, _cpus: None,
    )  # fmt: skip
    found = {finding.name: (finding.level, finding.what) for finding in all_findings(examine(facts))}

    assert found["GPU 0"] == ("ok", "idle: 4 MiB, 0 % busy, 30 C, 70 W, 345 MHz, 0000:1b:00.0 on NUMA node 0")
    assert found["NUMA"] == ("ok", "2 nodes: 0 = CPUs 0-1 with GPU 0; 1 = CPUs 2-3 with GPU 1")
    assert found["binding"] == ("ok", "each of 1 ranks to its GPU's node, by numactl --cpunodebind")
    assert found["CUDA_VISIBLE_DEVICES"] == ("warning", "'0': 1 of 2 GPUs visible")
    assert found["output"] == ("ok", f"{tmp_path}: {facts.output.free_gib:.1f} GiB free on unknown file system")
