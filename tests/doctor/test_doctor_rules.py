from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlace.doctor.examine import TOPICS, examine
from interlace.doctor.facts import CpuUser, PlannedRank
from interlace.doctor.finding import all_findings, is_fit, ok, problem, to_do, verdict, warning
from interlace.doctor.rules_cpu import clock, load, speed
from interlace.doctor.rules_placement import allowed_cpus, binding, numa_map
from interlace.node import NumaNode
from tests.doctor.handmade import HEALTHY, facts, said

ONE_NODE = (NumaNode(0, "0-15", 512 * 1024.0, (10,)),)

# ---------------------------------------------------------------- the whole


def test_on_a_healthy_node_there_is_nothing_to_see_to() -> None:
    sections = examine(HEALTHY)

    assert [section.title for section in sections] == list(TOPICS)
    assert {finding.level for finding in all_findings(sections)} == {"ok"}
    assert verdict(all_findings(sections)) == "fit to measure"


def test_a_warning_leaves_a_node_fit_and_a_problem_does_not() -> None:
    mild, bad = warning("a", "1", "x"), problem("b", "2", "y")

    assert (is_fit([mild]), verdict([mild, mild])) == (True, "fit to measure: 2 warnings")
    assert (is_fit([mild, bad]), verdict([mild, bad])) == (False, "not fit to measure: 1 problem, 1 warning")


def test_problems_come_first_and_one_remedy_is_said_once() -> None:
    findings = [warning("a", "1", "x"), problem("GPU 0", "2", "y"), ok("c", "3"), problem("GPU 1", "4", "y")]

    assert to_do(findings) == (("problem", ("GPU 0", "GPU 1"), "y"), ("warning", ("a",), "x"))


@pytest.mark.parametrize("name", [finding.name for finding in all_findings(examine(HEALTHY))])
def test_a_name_stands_once_on_the_screen(name: str) -> None:
    assert [finding.name for finding in all_findings(examine(HEALTHY))].count(name) == 1


# ---------------------------------------------------------------- placement


def test_the_map_names_cpus_and_gpus_of_each_node() -> None:
    assert said(numa_map, HEALTHY) == {
        "NUMA": ("ok", "2 nodes: 0 = CPUs 0-3,8-11 with GPU 0; 1 = CPUs 4-7,12-15 with GPU 1")
    }


def test_a_gpu_without_a_node_is_a_warning_only_where_there_are_several_nodes() -> None:
    lost = tuple(replace(one, numa_node=None) for one in HEALTHY.node.gpus)

    assert said(numa_map, facts(node={"gpus": lost}))["NUMA of GPUs"] == (
        "warning", "sysfs gives no node for GPU 0 (0000:1b:00.0), GPU 1 (0000:9b:00.0): their ranks run unpinned",
    )  # fmt: skip
    assert said(numa_map, facts(node={"gpus": lost, "numa": ONE_NODE})) == {"NUMA": ("ok", "1 node: 0 = CPUs 0-15")}


def test_a_node_of_cpus_without_memory_is_a_warning_and_one_of_memory_alone_is_not() -> None:
    first, second = HEALTHY.node.numa
    bare = facts(node={"numa": (first, replace(second, memory_mib=0.0))})
    memory_alone = facts(node={"numa": (first, second, NumaNode(2, "", 1024.0))})

    assert said(numa_map, bare)["NUMA memory"][0] == "warning"
    assert said(numa_map, memory_alone)["NUMA"][1].endswith("; 2 = no CPUs")
    assert list(said(numa_map, memory_alone)) == ["NUMA"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("ok", "each of 2 ranks to its GPU's node, by numactl --cpunodebind")),
        (
            {"placement": {"numactl_refusal": "numactl refuses: no"}},
            (
                "ok",
                "each of 2 ranks to its GPU's node, by a list of CPUs (numactl refuses: no)",
            ),
        ),
        ({"placement": {"ranks": ()}}, ("ok", "no GPU is visible, so ranks are not bound; numactl works")),
        ({"node": {"numa": ONE_NODE}}, ("ok", "not needed on one NUMA node; numactl works")),
        (
            {
                "placement": {
                    "ranks": (PlannedRank(0, 0, "unpinned", None, "", whole_node=False, reason="sysfs gives no node"),)
                }
            },
            ("warning", "1 of 1 ranks would run unpinned: sysfs gives no node"),
        ),
    ],
)
def test_how_ranks_would_be_bound_is_said(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said(binding, facts(**changes))["binding"] == expected


def test_a_cpuset_that_cuts_a_node_is_a_warning_with_the_numbers() -> None:
    cut = PlannedRank(0, 0, "bind", 0, "0-3", whole_node=False)

    found = said(binding, facts(placement={"ranks": (cut,)}))

    assert found["cpuset"] == ("warning", "ranks get 4 of the 8 CPUs of node 0")
    assert found["binding"][1].endswith("by a list of CPUs (a cpuset cuts the node)")


@pytest.mark.parametrize(
    ("changes", "name", "what"),
    [
        ({"placement": {"cpuset": "0-7", "affinity": "0-7"}}, "allowed CPUs", "8 of 16: a cpuset allows 0-7 only"),
        ({"placement": {"affinity": "0-3"}}, "CPU mask", "this shell is bound to CPUs 0-3 of 0-15"),
        (
            {"node": {"limits": replace(HEALTHY.node.limits, cpu_quota=2.5)}},
            "CPU quota",
            "the cgroup allows 2.5 CPUs' worth of time on 16 CPUs",
        ),
    ],
)
def test_fewer_cpus_than_the_node_has_are_a_warning(changes: dict[str, Any], name: str, what: str) -> None:
    assert said(allowed_cpus, facts(**changes))[name] == ("warning", what)


def test_a_quota_of_all_cpus_is_no_limit() -> None:
    node = facts(node={"limits": replace(HEALTHY.node.limits, cpu_quota=16.0)})

    assert said(allowed_cpus, node) == {"allowed CPUs": ("ok", "all 16 (0-15)")}


# ---------------------------------------------------------------- CPUs


def test_a_load_at_which_the_gate_would_wait_is_a_problem() -> None:
    node = facts(load={"busy_pct": 51.0}, gate={"cpu_busy_pct": 51.0})

    assert said(load, node)["load"] == ("problem", "51 % of 16 CPUs busy, over 0.5 s")


def test_who_takes_a_core_is_a_warning_and_named() -> None:
    users = (CpuUser(77, "python", "bob", 99.6), CpuUser(78, "top", None, 5.0))

    assert said(load, facts(load={"users": users}))["others"] == (
        "warning", "pid 77 python (bob) 100 %; pid 78 top (user unknown) 5 %",
    )  # fmt: skip
    assert said(load, facts(load={"users": users[1:]}))["others"][0] == "ok"


def test_load_that_no_visible_process_explains_is_a_warning() -> None:
    node = facts(load={"busy_pct": 25.0}, gate={"cpu_busy_pct": 25.0})

    assert said(load, node)["others"] == ("warning", "no process above 5 % of a core, and yet 4.0 cores were busy")


def test_a_load_that_cannot_be_read_says_so() -> None:
    node = facts(load={"busy_pct": None}, gate={"cpu_busy_pct": None})

    assert said(load, node)["load"] == ("warning", "cannot be read from /proc/stat")


@pytest.mark.parametrize(
    ("cpu", "level", "says"),
    [
        ({"governors": {"powersave": 16}, "driver_active": False}, "warning", "lowest frequency"),
        ({"governors": {"powersave": 16}, "preferences": {"balance_performance": 16}}, "ok", "performance is steadier"),
        ({"governors": {"powersave": 16}, "preferences": {"balance_power": 16}}, "warning", "saves power first"),
        ({"governors": {"schedutil": 16}, "driver_active": False}, "warning", "clocks follow the load"),
        ({"governors": {"performance": 15, "powersave": 1}}, "warning", "not the same everywhere: performance on 15"),
        ({"governors": {}}, "ok", "cannot be read"),
    ],
)
def test_governors_are_told_apart_by_their_driver(cpu: dict[str, Any], level: str, says: str) -> None:
    found = said(speed, facts(cpu=cpu))["governor"]

    assert (found[0], says in found[1]) == (level, True)


def test_what_is_known_of_the_cpus_stands_on_one_line() -> None:
    node = facts(cpu={"isolated": "14-15", "offline": "16-31", "boost": None})

    assert said(speed, node)["CPU"] == (
        "ok",
        "Some CPU, 2 sockets, 8 cores, 16 threads, SMT on, boost unknown, isolated: 14-15, offline: 16-31",
    )


@pytest.mark.parametrize(
    ("source", "level"),
    [
        ("tsc", "ok"),
        ("kvm-clock", "ok"),
        ("arch_sys_counter", "ok"),
        (None, "ok"),
        ("hpet", "warning"),
        ("acpi_pm", "warning"),
    ],
)
def test_a_slow_clock_source_is_a_warning(source: str | None, level: str) -> None:
    node = facts(node={"cpu": replace(HEALTHY.node.cpu, clock_source=source)})

    assert said(clock, node)["clock source"][0] == level
