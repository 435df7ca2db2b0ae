from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from interlace.doctor.examine import examine
from interlace.doctor.facts import (
    SHOWN_FROM_PCT,
    CpuLoad,
    CpuSettings,
    GpuSigns,
    Memory,
    OutputFolder,
    Surroundings,
    TorchSees,
)
from interlace.doctor.finding import all_findings
from interlace.doctor.once import AskedOnce
from interlace.doctor.read import gpu_signs, memory, read_node
from interlace.doctor.read_cpu import cpu_settings, load_over
from interlace.doctor.read_disk import file_system_of, output_folder
from interlace.doctor.read_placement import planned
from interlace.doctor.read_software import ask_torch, software, torch_build
from interlace.doctor.read_surroundings import HOST_PID_NAMESPACE, surroundings
from interlace.monitor.fake import FakeGpus
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, GpuSample, ProcessList
from tests.monitor.contract import SAMPLED, MonitorContract

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


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


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


# ---------------------------------------------------------------- disk


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 0:30 / /data rw,relatime shared:1 - nfs4 server:/data rw
29 28 0:31 / /data/my\\040own rw - lustre server:/own rw
30 27 0:32 / /data rw - xfs /dev/vdb rw
a line that is no mount
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/other", "ext4"), ("/data/x", "xfs"), ("/data/my own/x", "lustre"), ("/database", "ext4")],
)
def test_the_file_system_is_that_of_the_nearest_mount_and_the_last_of_two(tmp_path: Path, path: str, kind: str) -> None:
    tree(tmp_path, {"proc/self/mountinfo": MOUNTS})

    assert file_system_of(Path(path), tmp_path) == kind


def test_a_folder_that_is_not_there_is_judged_by_its_nearest_parent_and_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = output_folder(tmp_path / "new" / "outputs", tmp_path)

    assert (folder.exists, folder.nearest, folder.unusable, folder.inodes_left) == (False, str(tmp_path), None, True)
    assert folder.free_gib is not None
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_the_reason_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert output_folder(tmp_path / "file").unusable == "is not a folder"
    assert (output_folder(Path("/proc/self")).unusable or "").startswith("cannot be written: ")


# ---------------------------------------------------------------- software and surroundings


def test_requirements_are_those_of_our_metadata_and_not_those_of_developers() -> None:
    found = software()

    names = [one.name for one in found.requirements]
    assert {"hydra-core", "psutil", "torch"} <= set(names)
    assert "pytest" not in names
    assert next(one for one in found.requirements if one.name == "psutil").installed == metadata.version("psutil")
    assert found.torch_sees is None
    assert found.git


def test_torchs_build_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        {
            "torch-9.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 9.9.0\n",
            "torch/version.py": "debug = False\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n",
        },
    )
    monkeypatch.syspath_prepend(tmp_path)

    build = torch_build()

    assert build is not None
    assert (build.version, build.cuda) == ("9.9.0", "13.0")


def test_an_interpreter_without_torch_or_without_itself_is_a_failure_that_is_told(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -I "$@"\n')
    bare.chmod(0o755)

    assert ask_torch(str(bare)) == TorchSees(str(bare), failure="ModuleNotFoundError: No module named 'torch'")
    assert ask_torch(str(tmp_path / "none")).failure == f"cannot start {tmp_path / 'none'}: No such file or directory"


def test_only_watched_variables_are_taken(tmp_path: Path) -> None:
    env = {"SECRET": "x", "NCCL_DEBUG": "INFO", "ACCELERATE_A": "1", "SLURM_JOB_ID": "7", "SLURM_JWT": "y"}

    assert surroundings(env, tmp_path) == Surroundings(
        {"SLURM_JOB_ID": "7"}, None, None, (), {"NCCL_DEBUG": "INFO", "ACCELERATE_A": "1"}
    )


@pytest.mark.parametrize(
    ("files", "env", "kind"),
    [
        ({".dockerenv": ""}, {}, "Docker"),
        ({"run/.containerenv": ""}, {}, "Podman"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1\n"}, {}, "Kubernetes"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
        ({}, {"APPTAINER_NAME": "x.sif"}, "Apptainer"),
        ({}, {"container": "lxc"}, "lxc"),
    ],
)
def test_a_container_is_known_by_its_marks(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], kind: str | None
) -> None:
    assert surroundings(env, tree(tmp_path, files)).container == kind


@pytest.mark.parametrize(("namespace", "host"), [(HOST_PID_NAMESPACE, True), ("pid:[4026532513]", False)])
def test_the_first_pid_namespace_is_the_hosts(tmp_path: Path, namespace: str, host: bool) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)

    found = surroundings({}, tmp_path)

    assert (found.host_pids, found.infiniband) == (host, ("mlx5_0",))


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


def test_the_output_folder_as_facts_says_where_it_was_looked_for(tmp_path: Path) -> None:
    found = output_folder(tmp_path, tmp_path)

    assert found == OutputFolder(str(tmp_path), exists=True, nearest=str(tmp_path), free_gib=found.free_gib)
