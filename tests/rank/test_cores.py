from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.rank.cores import cores_of, divided, shared
from interlace.rank.numa import Binding, parse_cpulist, plan_binding
from tests.rank.test_numa import GPUS, TWO_NODES, tree

if TYPE_CHECKING:
    from pathlib import Path

SMT = {f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 8},{cpu % 8 + 8}\n" for cpu in range(16)}
"""CPU n and n + 8 are one core: two nodes of four cores each."""
ONE_NODE = {"devices/system/node/online": "0\n", "devices/system/node/node0/cpulist": "0-15\n"}
ALL = frozenset(range(16))


def lists(plans: list[Binding]) -> list[frozenset[int]]:
    return [plan.cpus for plan in plans]


def shares(
    sysfs: str,
    ranks: int,
    affinity: frozenset[int] = ALL,
    cpuset: frozenset[int] = ALL,
    *,
    visible: str | None = None,
    gpus: bool = True,
    mask_shared: bool = True,
    known: bool = True,
) -> list[Binding]:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    plans = [
        plan_binding(rank, env, GPUS if gpus else (), affinity=affinity, cpuset=cpuset, sysfs_root=sysfs)
        for rank in range(ranks)
    ]
    return shared(plans, affinity=affinity, cpuset=cpuset, mask_shared=mask_shared, known=known, sysfs_root=sysfs)


# ---------------------------------------------------------------- dividing


def test_siblings_make_one_core_and_a_cpu_without_topology_is_its_own(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, {"devices/system/cpu/cpu0/topology/thread_siblings_list": "0,8\n"})

    assert cores_of(parse_cpulist("0-1,8-9"), sysfs) == [{0, 8}, {1}, {9}]


@pytest.mark.parametrize(
    ("cores", "ranks", "sizes"), [(4, 2, [2, 2]), (5, 2, [3, 2]), (7, 3, [3, 2, 2]), (3, 3, [1, 1, 1]), (4, 1, [4])]
)
def test_cores_are_divided_evenly_and_what_is_left_goes_to_the_first_ranks(
    cores: int, ranks: int, sizes: list[int]
) -> None:
    parts = divided([frozenset({cpu}) for cpu in range(cores)], ranks)

    assert [len(part) for part in parts] == sizes
    assert [cpu for part in parts for cpu in sorted(part)] == list(range(cores))


# ---------------------------------------------------------------- shares of the ranks of a node


def test_ranks_whose_gpus_share_a_node_get_whole_cores_of_it(tmp_path: Path) -> None:
    found = shares(tree(tmp_path, TWO_NODES | SMT), 4)

    assert lists(found) == [parse_cpulist(text) for text in ("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15")]
    assert {(plan.action, plan.scope, plan.whole_node, plan.warnings) for plan in found} == {
        ("bind", "cores", False, ())
    }
    assert [plan.node for plan in found] == [0, 0, 1, 1]


def test_only_ranks_that_run_have_a_share(tmp_path: Path) -> None:
    found = shares(tree(tmp_path, TWO_NODES | SMT), 3, visible="0,2,3")

    assert lists(found) == [parse_cpulist(text) for text in ("0-3,8-11", "4-5,12-13", "6-7,14-15")]


def test_a_core_is_not_split_where_the_cpuset_has_one_half_of_it(tmp_path: Path) -> None:
    allowed = parse_cpulist("0-3,8,12-13")

    found = shares(tree(tmp_path, TWO_NODES | SMT), 2, allowed, allowed)

    assert lists(found) == [{0, 8, 1}, {2, 3}]


def test_fewer_cores_than_ranks_on_one_node_leave_every_node_undivided(tmp_path: Path) -> None:
    allowed = parse_cpulist("0-7,8,12")

    found = shares(tree(tmp_path, TWO_NODES | SMT), 4, allowed - {1, 2, 3}, allowed - {1, 2, 3})

    assert lists(found) == [{0, 8}, {0, 8}, {4, 5, 6, 7, 12}, {4, 5, 6, 7, 12}]
    assert {(plan.scope, plan.warnings) for plan in found} == {("node", ("cores_fewer_than_ranks",))}


def test_an_unknown_number_of_ranks_divides_nothing(tmp_path: Path) -> None:
    (found,) = shares(tree(tmp_path, TWO_NODES | SMT), 1, known=False)

    assert (found.scope, found.cpus, found.warnings) == ("node", parse_cpulist("0-3,8-11"), ("cores_ranks_unknown",))


def test_one_node_is_divided_with_or_without_gpus(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, ONE_NODE | SMT)

    for gpus in (True, False):
        found = shares(sysfs, 2, gpus=gpus)
        assert lists(found) == [parse_cpulist("0-3,8-11"), parse_cpulist("4-7,12-15")]
        assert {(plan.action, plan.node, plan.code) for plan in found} == {("bind", 0, None)}


def test_ranks_without_gpus_divide_all_nodes_in_their_order(tmp_path: Path) -> None:
    odd = TWO_NODES | {"devices/system/node/node0/cpulist": "0-14:2\n".replace("0-14:2", "0,2,4,6,8,10,12,14")}
    sysfs = tree(tmp_path, odd | {"devices/system/node/node1/cpulist": "1,3,5,7,9,11,13,15\n"} | SMT)

    found = shares(sysfs, 2, visible="")

    assert lists(found) == [frozenset(range(0, 16, 2)), frozenset(range(1, 16, 2))]
    assert [plan.node for plan in found] == [0, 1]


def test_a_share_that_reaches_over_two_nodes_is_on_none(tmp_path: Path) -> None:
    found = shares(tree(tmp_path, TWO_NODES | SMT), 3, gpus=False)

    assert [plan.node for plan in found] == [0, None, 1]


def test_gpus_that_are_not_nvidias_are_not_guessed_around(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES | SMT | {"class/kfd/kfd/dev": "1:1\n"})

    assert {(plan.action, plan.code) for plan in shares(sysfs, 2, gpus=False)} == {("unpinned", "no_gpu")}


def test_a_rank_without_a_place_leaves_the_others_undivided(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, TWO_NODES | SMT | {"bus/pci/devices/0000:3d:00.0/numa_node": "-1\n"})

    assert [(plan.action, plan.scope) for plan in shares(sysfs, 2)] == [("bind", "node"), ("unpinned", "node")]


def test_a_mask_that_all_ranks_inherited_is_divided_and_one_of_a_rank_alone_is_not(tmp_path: Path) -> None:
    sysfs, narrow = tree(tmp_path, TWO_NODES | SMT), parse_cpulist("0-1,8-9")

    inherited = shares(sysfs, 4, narrow)
    own = shares(sysfs, 4, narrow, mask_shared=False)

    assert lists(inherited) == [{0, 8}, {1, 9}, parse_cpulist("4-5,12-13"), parse_cpulist("6-7,14-15")]
    assert [plan.action for plan in own] == ["noop", "noop", "bind", "bind"]
    assert {plan.warnings[-1] for plan in own} == {"cores_mask_of_a_rank"}
