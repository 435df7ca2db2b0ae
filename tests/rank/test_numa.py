from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.rank.numa import (
    Binding,
    Capacity,
    alike,
    capacity,
    cpus_of_node,
    cpus_of_socket,
    format_cpulist,
    nearest_cpu_node,
    node_of_gpu,
    online_nodes,
    parse_cpulist,
    plan_binding,
)
from interlace.rank.visible import GpuRef

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
    scope: str = "node",
) -> Binding:
    return plan_binding(local_rank, env or {}, GPUS, affinity=affinity, cpuset=cpuset, sysfs_root=sysfs, scope=scope)


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


# ---------------------------------------------------------------- sockets


FOUR_NODES = {
    "devices/system/node/online": "0-3\n",
    **{f"devices/system/node/node{node}/cpulist": f"{4 * node}-{4 * node + 3}\n" for node in range(4)},
    **{f"devices/system/cpu/cpu{cpu}/topology/physical_package_id": f"{cpu // 8}\n" for cpu in range(16)},
    "bus/pci/devices/0000:9b:00.0/numa_node": "3\n",
}
"""Two sockets of two NUMA nodes each; the GPU of rank 2 is on the last."""


def test_a_socket_is_every_node_of_the_package_that_holds_a_node(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, FOUR_NODES)

    assert cpus_of_socket(0, sysfs) == frozenset(range(8))
    assert cpus_of_socket(3, sysfs) == frozenset(range(8, 16))


def test_a_node_that_holds_two_packages_is_both_of_them(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, FOUR_NODES | {"devices/system/node/node1/cpulist": "4-11\n"})

    assert cpus_of_socket(1, sysfs) == ALL


def test_a_rank_with_the_scope_socket_goes_to_the_socket_of_its_gpu(tmp_path: Path) -> None:
    binding = planned(tree(tmp_path, FOUR_NODES), scope="socket")

    assert binding == Binding("bind", 3, frozenset(range(8, 16)), whole_node=True, gpu=GPUS[2], scope="socket")


def test_a_mask_inside_the_socket_is_left_alone_and_one_outside_widened(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, FOUR_NODES)

    inside = planned(sysfs, affinity=parse_cpulist("8-9"), scope="socket")
    outside = planned(sysfs, affinity=parse_cpulist("0-3"), scope="socket")

    assert (inside.action, inside.code, inside.reason) == ("noop", "already_bound", "bound to this socket already")
    assert (outside.action, outside.cpus) == ("bind", frozenset(range(8, 16)))


def test_a_socket_without_allowed_cpus_on_the_gpus_own_node_is_not_bound(tmp_path: Path) -> None:
    allowed = parse_cpulist("0-11")

    binding = planned(tree(tmp_path, FOUR_NODES), affinity=allowed, cpuset=allowed, scope="socket")

    assert (binding.action, binding.code) == ("unpinned", "no_allowed_cpu_on_node")


def test_a_socket_that_is_not_told_is_the_node_and_said(tmp_path: Path) -> None:
    files = {name: text for name, text in FOUR_NODES.items() if "cpu13" not in name}

    binding = planned(tree(tmp_path, files), scope="socket")

    assert (binding.action, binding.cpus, binding.scope) == ("bind", frozenset(range(12, 16)), "node")
    assert binding.warnings == ("socket_unknown",)


def test_a_socket_with_a_node_without_memory_is_bound_by_cpu_list(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, FOUR_NODES | {"devices/system/node/has_memory": "0-1,3\n"})

    binding = planned(sysfs, scope="socket")

    assert (binding.action, binding.whole_node, binding.warnings) == ("bind", False, ())


def test_ranks_and_workers_beyond_the_cpus_of_a_node_are_oversubscribed(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, FOUR_NODES)

    assert capacity(3, ranks=1, workers=3, sysfs_root=sysfs) == Capacity(3, 4, 8, 4)
    assert capacity(3, ranks=1, workers=4, sysfs_root=sysfs) == Capacity(
        3, 4, 8, 5, ("node_oversubscribed",), "socket"
    )  # fmt: skip
    assert capacity(3, ranks=1, workers=3, allowed=parse_cpulist("12-14"), sysfs_root=sysfs) == Capacity(
        3, 3, 3, 4, ("node_oversubscribed",), None
    )  # fmt: skip


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
        TWO_NODES | {"devices/system/node/online": "0-2\n", "devices/system/node/node2/distance": "80 80 10\n"},
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
