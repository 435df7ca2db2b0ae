from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from interlace.monitor.fake import FakeGpus
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Driver, Gpu, GpuReadError, MigDevice
from interlace.node import (
    Cpu,
    NodeGpu,
    NodeInfo,
    NumaNode,
    cpu_quota,
    fingerprint,
    gpu_map,
    installed_versions,
    memory_max_mib,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MACHINE = {
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n",
    "proc/meminfo": "MemTotal:       2097152 kB\n",
    "sys/devices/system/cpu/online": "0-3\n",
    **{f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": f"{cpu % 2}\n" for cpu in range(4)},
    **{f"sys/devices/system/cpu/cpu{cpu}/topology/core_id": "0\n" for cpu in range(4)},
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0,2\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  1048576 kB\n",
    "sys/devices/system/node/node0/distance": "10 21\n",
    "sys/devices/system/node/node1/cpulist": "1,3\n",
    "sys/bus/pci/devices/0000:1b:00.0/numa_node": "1\n",
    "dev/shm/x": "",
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_a_machine_is_described_from_its_files(tmp_path: Path) -> None:
    gpu = Gpu(0, "GPU-1", "0000:1b:00.0", "NVIDIA H200", 143771.0)
    source = FakeGpus([gpu], driver=Driver("550.54.15", "12.4"))

    node = fingerprint(source, root=tree(tmp_path, MACHINE), packages=())

    assert node.cpu == Cpu("Some CPU @ 2 GHz", 2, 2, 4, "performance", "tsc")
    assert node.numa == (NumaNode(0, "0,2", 1024.0, (10, 21)), NumaNode(1, "1,3", None))
    assert (node.system, node.memory_total_mib) == ("Debian GNU/Linux 12", 2048.0)
    assert node.gpus == (NodeGpu(gpu, 1),)
    assert (node.driver, node.cuda_driver, node.missing) == ("550.54.15", "12.4", {})


def test_what_cannot_be_read_is_none_with_a_reason(tmp_path: Path) -> None:
    node = fingerprint(NoGpus("there are none"), root=tmp_path, packages=())

    assert node.cpu == Cpu(None, None, None, None, None, None)
    assert node.missing == {
        "driver": "there are none",
        "cuda_driver": "there are none",
        "cpu.model": "no model name in /proc/cpuinfo",
        "cpu.governor": "no cpufreq in sysfs (a virtual machine, or the driver is not loaded)",
        "memory_total_mib": "no MemTotal in meminfo",
        "limits.dev_shm_mib": "cannot be read: No such file or directory",
    }


def test_gpus_that_cannot_be_read_do_not_stop_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[Gpu, ...]:
        raise GpuReadError("gpu_lost", "GPU is lost")

    source = FakeGpus()
    monkeypatch.setattr(source, "inventory", fail)

    node = fingerprint(source, root=tmp_path, packages=())

    assert (node.gpus, node.missing["gpus"]) == ((), "GPU is lost")


def test_this_machine_survives_the_way_through_json() -> None:
    node = fingerprint(NoGpus("there are none"))

    assert msgspec.json.decode(msgspec.json.encode(node), type=NodeInfo) == node
    assert node.kernel == platform.release()
    assert node.cpu.threads


def test_versions_come_from_metadata_and_absent_packages_are_left_out() -> None:
    assert installed_versions(["psutil", "no-such-package"]) == {"psutil": importlib.metadata.version("psutil")}


def test_the_fingerprint_imports_no_torch() -> None:
    code = (
        "import sys; from interlace.node import fingerprint; from interlace.monitor.off import NoGpus; "
        "fingerprint(NoGpus('x')); print(sorted({'torch', 'hydra', 'pandas', 'numpy'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_quota_of_version_2_is_the_smallest_on_the_way_up(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/job\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slice/job/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/slice/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/slice/job/memory.max": "1073741824\n",
            "sys/fs/cgroup/slice/memory.max": "max\n",
        },
    )

    assert (cpu_quota(tmp_path), memory_max_mib(tmp_path)) == (2.5, 1024.0)


def test_a_quota_of_version_1_is_read_from_its_own_tree(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )

    assert (cpu_quota(tmp_path), memory_max_mib(tmp_path)) == (4.0, None)


def test_the_map_for_the_ranks_leaves_out_gpus_that_cannot_be_placed() -> None:
    gpus = [Gpu(0, "GPU-1", "0000:1b:00.0", "H200", mig=(MigDevice("1g", 0, "MIG-a"),)), Gpu(None, "lost:1")]

    assert gpu_map(gpus) == [{"index": 0, "uuid": "GPU-1", "bus_id": "0000:1b:00.0", "name": "H200", "mig": ["MIG-a"]}]
