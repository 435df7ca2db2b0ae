from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlace import numactl
from interlace.gpu_map import gpus_found, gpus_passed
from interlace.numa import (
    Binding,
    alike,
    cpus_of_node,
    format_cpulist,
    nearest_cpu_node,
    node_of_gpu,
    online_nodes,
    parse_cpulist,
    plan_binding,
)
from interlace.visible import GpuRef, gpu_of_rank, visible_gpus

if TYPE_CHECKING:
    from pathlib import Path

GPUS = tuple(
    GpuRef(index, f"GPU-{letter * 4}", f"0000:{bus}:00.0")
    for index, letter, bus in ((0, "a", "1b"), (1, "b", "3d"), (2, "c", "9b"), (3, "d", "bd"))
)
TWO_NODES = {
    "devices/system/node/online": "0-1\n",
    "devices/system/node/node0/cpulist": "0-3,8-11\n",
    "devices/system/node/node1/cpulist": "4-7,12-15\n",
    **{f"bus/pci/devices/0000:{bus}:00.0/numa_node": "0\n" for bus in ("1b", "3d")},
    **{f"bus/pci/devices/0000:{bus}:00.0/numa_node": "1\n" for bus in ("9b", "bd")},
}
ALL = frozenset(range(16))
NODE_1 = parse_cpulist("4-7,12-15")


def tree(root: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(root)


def planned(
    sysfs: str,
    local_rank: int = 2,
    env: dict[str, str] | None = None,
    affinity: frozenset[int] = ALL,
    cpuset: frozenset[int] = ALL,
) -> Binding:
    return plan_binding(local_rank, env or {}, GPUS, affinity=affinity, cpuset=cpuset, sysfs_root=sysfs)


# ---------------------------------------------------------------- sysfs


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8,10-11", "63,127"])
def test_a_cpulist_survives_the_way_in_and_out(text: str) -> None:
    assert format_cpulist(parse_cpulist(f"{text}\n")) == text


def test_nodes_and_their_cpus_come_from_sysfs(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES)

    assert online_nodes(sysfs) == (0, 1)
    assert cpus_of_node(1, sysfs) == NODE_1
    assert node_of_gpu("0000:9b:00.0", sysfs) == 1


def test_minus_one_and_a_missing_device_are_no_node(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, {"bus/pci/devices/0000:1b:00.0/numa_node": "-1\n"})

    assert node_of_gpu("0000:1b:00.0", sysfs) is None
    assert node_of_gpu("0000:ff:00.0", sysfs) is None
    assert online_nodes(sysfs) == ()


# ---------------------------------------------------------------- visible devices


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, [0, 1, 2, 3]),
        ("2,3", [2, 3]),
        ("3, 1", [3, 1]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("1,7,0", [1]),
        ("0,0", []),
        ("2gpu,1", [2, 1]),
        ("GPU-cccc,GPU-aaaa", [2, 0]),
        ("GPU-d", [3]),
        ("GPU-", []),
        ("GPU-zzzz", []),
        ("GPU-aaaa,1", [0]),
        ("GPU-aaaa,GPU-aa", []),
        ("1,GPU-aaaa", [1]),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices_are_those_that_cuda_sees(visible: str | None, seen: list[int]) -> None:
    assert [gpu.ordinal for gpu in visible_gpus(visible, GPUS)] == seen


@pytest.mark.parametrize("visible", ["MIG-1234", "MIG-12", "MIG-GPU-eeee/3/0"])
def test_a_slice_belongs_to_its_gpu(visible: str) -> None:
    gpus = (*GPUS, GpuRef(4, "GPU-eeee", "0000:cd:00.0", mig=("MIG-1234", "MIG-5678")))

    assert [gpu.ordinal for gpu in visible_gpus(visible, gpus)] == [4]


def test_two_slices_of_one_gpu_are_two_devices() -> None:
    gpus = (GpuRef(0, "GPU-eeee", "0000:cd:00.0", mig=("MIG-1234", "MIG-5678")),)

    assert [gpu.ordinal for gpu in visible_gpus("MIG-1234,MIG-5678", gpus)] == [0, 0]


def test_the_local_rank_indexes_into_the_visible_list() -> None:
    assert gpu_of_rank(1, {"CUDA_VISIBLE_DEVICES": "2,3"}, GPUS)[0] == GPUS[3]


def test_a_list_of_one_is_the_ranks_own() -> None:
    assert gpu_of_rank(3, {"CUDA_VISIBLE_DEVICES": "2"}, GPUS)[0] == GPUS[2]


def test_one_numbered_device_of_a_slurm_task_may_be_renumbered_and_is_not_trusted() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_LOCALID": "3"}

    assert gpu_of_rank(3, env, GPUS)[:2] == (None, "renumbered")
    assert gpu_of_rank(3, env | {"CUDA_VISIBLE_DEVICES": "GPU-dddd"}, GPUS)[0] == GPUS[3]


def test_numbers_are_ambiguous_among_different_models_without_pci_order() -> None:
    mixed = (GPUS[0]._replace(name="GTX 1660"), GPUS[1]._replace(name="RTX 3090"))

    assert gpu_of_rank(0, {}, mixed)[:2] == (None, "device_order_ambiguous")
    assert gpu_of_rank(0, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, mixed)[0] == mixed[0]
    assert gpu_of_rank(0, {"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, mixed)[0] == mixed[1]


def test_more_ranks_than_visible_gpus_leave_the_last_without_one() -> None:
    assert gpu_of_rank(2, {"CUDA_VISIBLE_DEVICES": "0,1"}, GPUS)[:2] == (None, "no_gpu_for_rank")


# ---------------------------------------------------------------- the plan


def test_a_rank_goes_to_the_node_of_its_gpu(tmp_path: Path) -> None:
    assert planned(tree(tmp_path, TWO_NODES)) == Binding("bind", 1, NODE_1, whole_node=True, gpu=GPUS[2])


def test_a_cpuset_cuts_the_node_and_then_the_list_of_cpus_counts(tmp_path: Path) -> None:
    allowed = parse_cpulist("2-5,12")

    binding = planned(tree(tmp_path, TWO_NODES), affinity=allowed, cpuset=allowed)

    assert binding == Binding("bind", 1, parse_cpulist("4-5,12"), whole_node=False, gpu=GPUS[2])


def test_a_mask_inherited_from_a_bound_parent_is_widened_and_said(tmp_path: Path) -> None:
    binding = planned(tree(tmp_path, TWO_NODES), affinity=parse_cpulist("0-3,8-11"))

    assert (binding.action, binding.cpus) == ("bind", NODE_1)
    assert binding.warnings == ("parent_affinity_narrower_than_cpuset",)


def test_the_mask_of_a_slurm_task_is_never_left(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES)

    inside = planned(sysfs, env={"SLURM_JOB_ID": "7"}, affinity=parse_cpulist("2-5"))
    outside = planned(sysfs, env={"SLURM_JOB_ID": "7"}, affinity=parse_cpulist("0-3"))

    assert (inside.action, inside.cpus) == ("bind", parse_cpulist("4-5"))
    assert (outside.action, outside.code) == ("unpinned", "no_allowed_cpu_on_node")


def test_a_rank_that_somebody_bound_to_its_node_is_left_alone(tmp_path: Path) -> None:
    binding = planned(tree(tmp_path, TWO_NODES), affinity=frozenset({5}))

    assert (binding.action, binding.code, binding.cpus) == ("noop", "already_bound", frozenset({5}))


def test_no_allowed_cpu_on_the_node_leaves_the_rank_unpinned(tmp_path: Path) -> None:
    allowed = parse_cpulist("0-3")

    binding = planned(tree(tmp_path, TWO_NODES), affinity=allowed, cpuset=allowed)

    assert (binding.action, binding.code) == ("unpinned", "no_allowed_cpu_on_node")
    assert binding.reason == "no CPU of NUMA node 1 is allowed here (allowed: 0-3)"


def test_an_unknown_node_on_a_machine_of_two_is_not_guessed(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES | {"bus/pci/devices/0000:9b:00.0/numa_node": "-1\n"})

    binding = planned(sysfs)

    assert (binding.action, binding.node, binding.code) == ("unpinned", None, "numa_node_unknown")


def test_one_node_has_nothing_to_bind_and_is_no_warning(tmp_path: Path) -> None:
    sysfs = tree(
        tmp_path,
        {
            "devices/system/node/online": "0\n",
            "devices/system/node/node0/cpulist": "0-15\n",
            "bus/pci/devices/0000:9b:00.0/numa_node": "-1\n",
        },
    )

    binding = planned(sysfs)

    assert (binding.action, binding.node, binding.cpus, binding.warnings) == ("noop", 0, ALL, ())


def test_a_node_without_memory_is_bound_by_cpu_list(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES | {"devices/system/node/has_memory": "0\n"})

    binding = planned(sysfs)

    assert (binding.action, binding.cpus, binding.whole_node) == ("bind", NODE_1, False)
    assert binding.warnings == ("node_without_memory",)


def test_a_gpu_whose_node_is_memory_alone_goes_to_the_nearest_cpus(tmp_path: Path) -> None:
    sysfs = tree(
        tmp_path,
        TWO_NODES
        | {
            "devices/system/node/online": "0-2\n",
            "devices/system/node/node2/cpulist": "\n",
            "devices/system/node/node2/distance": "120 80 10\n",
            "bus/pci/devices/0000:9b:00.0/numa_node": "2\n",
        },
    )

    binding = planned(sysfs)

    assert (binding.action, binding.node, binding.cpus) == ("bind", 1, NODE_1)
    assert binding.warnings == ("gpu_node_without_cpus",)


def test_two_equally_near_nodes_are_no_answer(tmp_path: Path) -> None:
    sysfs = tree(
        tmp_path,
        TWO_NODES
        | {"devices/system/node/online": "0-2\n", "devices/system/node/node2/distance": "80 80 10\n"},
    )

    assert nearest_cpu_node(2, sysfs) is None


def test_cpu_ranks_stay_where_they_are(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES)

    binding = plan_binding(0, {}, (), affinity=ALL, cpuset=ALL, sysfs_root=sysfs)

    assert binding == Binding("unpinned", code="no_gpu", reason="no GPU is known on this node")


def test_ranks_are_bound_all_or_none() -> None:
    bound, lost = Binding("bind", 0), Binding("unpinned", code="numa_node_unknown", reason="no node")

    assert alike([bound, bound], 0) == bound
    assert alike([bound, lost], 0) == Binding(
        "unpinned", 0, code="numa_node_unknown", reason="another rank cannot be bound: no node"
    )


# ---------------------------------------------------------------- which GPUs there are


def test_the_map_of_the_orchestrator_is_read_and_a_broken_one_is_none() -> None:
    text = '[{"index": 0, "uuid": "GPU-1", "bus_id": "0000:1b:00.0", "mig": ["MIG-a"]}, {"index": null, "uuid": "x", "bus_id": null}]'

    assert gpus_passed({"INTERLACE_GPU_MAP": text}) == (GpuRef(0, "GPU-1", "0000:1b:00.0", "", ("MIG-a",)),)
    for broken in ("", "[", "{}", "[1]", '[{"index": 0}]', "null"):
        assert gpus_passed({"INTERLACE_GPU_MAP": broken}) == ()


def test_the_drivers_files_list_the_gpus_that_this_process_may_open(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/driver/nvidia/gpus/0000:9b:00.0/information": "Model: \t NVIDIA H200\nGPU UUID: \t GPU-3\nDevice Minor: \t 2\n",
            "proc/driver/nvidia/gpus/0000:3d:00.0/information": "Model: \t NVIDIA H200\nGPU UUID: \t GPU-2\nDevice Minor: \t 1\n",
            "proc/driver/nvidia/gpus/0000:1b:00.0/information": "Model: \t NVIDIA H200\nGPU UUID: \t GPU-1\nDevice Minor: \t 0\n",
            "dev/nvidia1": "",
            "dev/nvidia2": "",
        },
    )

    assert gpus_found(f"{tmp_path}/proc", f"{tmp_path}/dev") == (
        GpuRef(0, "GPU-2", "0000:3d:00.0", "NVIDIA H200"),
        GpuRef(1, "GPU-3", "0000:9b:00.0", "NVIDIA H200"),
    )


def test_nvidia_smi_is_asked_where_the_driver_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho index, uuid\necho 0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 5 MiB, [N/A]\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert gpus_found(f"{tmp_path}/proc") == (GpuRef(0, "GPU-1", "0000:1b:00.0", "NVIDIA H200"),)


# ---------------------------------------------------------------- numactl


def test_real_numactl_binds_to_the_node_that_is_here_or_says_why_not() -> None:
    cpus = cpus_of_node(0) or frozenset({0})
    reason = numactl.why_not([0], cpus)

    if reason is not None:
        pytest.skip(f"numactl cannot bind to node 0 here: {reason}")
    assert numactl.why_not([0], cpus | {4095}) is not None


def test_a_node_that_is_not_there_is_refused_in_numactls_words() -> None:
    reason = numactl.why_not([77], frozenset({0}))

    assert reason is not None
    assert reason.startswith("numactl ")


def test_a_numactl_that_hangs_or_is_missing_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numactl, "PROBE_TIMEOUT_S", 0.1)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = numactl.why_not([0], frozenset({0}))
    (tmp_path / "numactl").write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    (tmp_path / "numactl").chmod(0o755)

    hanging = numactl.why_not([0], frozenset({0}))

    assert missing == "numactl cannot be started (No such file or directory)"
    assert hanging == "numactl refuses: no answer in 0.1 s"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("libnuma: Warning: node argument 3 is out of range\n\n<3> is invalid", "bad_node"),
        ("<-1> is invalid\nusage: numactl", "bad_node"),
        ("libnuma: Warning: cpu argument 0-63 is out of range", "bad_cpu"),
        ("setting membind: Operation not permitted", "mempolicy_denied"),
        ("numactl: command not found", "numactl_missing"),
        ("No NUMA support available on this system.", "no_numa"),
    ],
)
def test_a_refusal_is_recognised(text: str, code: str) -> None:
    found = numactl.refusal(text)

    assert found is not None
    assert found.code == code


def test_a_memory_policy_that_cannot_be_read_is_no_harm() -> None:
    assert numactl.refusal("get_mempolicy: Operation not permitted") == (
        "mempolicy_query_denied", None, False, "get_mempolicy: Operation not permitted",
    )  # fmt: skip
    assert numactl.refusal("hello") is None
