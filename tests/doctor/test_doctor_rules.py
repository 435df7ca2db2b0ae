from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlace.doctor.examine import TOPICS, examine
from interlace.doctor.facts import CpuUser, PlannedRank, Requirement, TorchBuild, TorchSees
from interlace.doctor.finding import all_findings, is_fit, ok, problem, to_do, verdict, warning
from interlace.doctor.rules_cpu import clock, load, speed
from interlace.doctor.rules_memory import limits, memory, output, shared_memory
from interlace.doctor.rules_placement import allowed_cpus, binding, numa_map
from interlace.doctor.rules_software import git, packages, python, torch
from interlace.doctor.rules_surroundings import container, environment, slurm
from interlace.doctor.versions import satisfies
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


# ---------------------------------------------------------------- memory, limits, disk


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("ok", "500.0 GiB of 512.0 GiB available; no swap; huge pages madvise")),
        (
            {"memory": {"swap_total_mib": 8192.0, "swap_free_mib": 6144.0}},
            ("ok", "500.0 GiB of 512.0 GiB available; 2.0 GiB of 8.0 GiB swap in use; huge pages madvise"),
        ),
        (
            {"memory": {"available_mib": 40 * 1024.0}},
            ("warning", "40.0 GiB of 512.0 GiB available; no swap; huge pages madvise"),
        ),
        (
            {"node": {"limits": replace(HEALTHY.node.limits, memory_max_mib=2048.0)}},
            ("warning", "500.0 GiB of 512.0 GiB available; no swap; huge pages madvise; the cgroup allows 2.0 GiB"),
        ),
        ({"memory": {"available_mib": None}}, ("warning", "cannot be read from /proc/meminfo")),
    ],
)
def test_memory_is_judged_with_its_cgroup(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said(memory, facts(**changes))["memory"] == expected


@pytest.mark.parametrize(
    ("size_mib", "free_mib", "level"),
    [
        (64.0, 64.0, "problem"),
        (512.0, 512.0, "warning"),
        (8192.0, 100.0, "warning"),
        (8192.0, 8000.0, "ok"),
        (None, None, "warning"),
    ],
)
def test_a_small_or_full_shared_memory_is_no_good(size_mib: float | None, free_mib: float | None, level: str) -> None:
    shm = replace(HEALTHY.node.limits, dev_shm_mib=size_mib, dev_shm_free_mib=free_mib)

    assert said(shared_memory, facts(node={"limits": shm}))["shared memory"][0] == level


def test_limits_of_processes_are_warned_of_by_name() -> None:
    low = facts(ulimits={"nofile": 1024, "nproc": 512}, surroundings={"infiniband": ("mlx5_0",)})

    assert said(limits, low) == {
        "open files": ("warning", "ulimit -n is 1024"),
        "processes": ("warning", "ulimit -u is 512"),
        "locked memory": ("warning", "ulimit -l is 8192 KiB, and there is InfiniBand"),
    }
    assert said(limits, HEALTHY) == {
        "ulimits": (
            "ok", "1048576 open files, unlimited processes, 8192 KiB locked memory, core files 0 KiB",
        )
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("ok", "outputs: 900.0 GiB free on ext4")),
        ({"free_gib": 5.0}, ("warning", "outputs: 5.0 GiB free on ext4")),
        ({"free_gib": 0.5}, ("problem", "outputs: 0.5 GiB free on ext4")),
        ({"inodes_left": False}, ("problem", "outputs: 900.0 GiB free on ext4, no inodes left")),
        (
            {"path": "data/outputs", "exists": False, "nearest": "/data", "file_system": "tmpfs"},
            (
                "ok",
                "data/outputs, to be made in /data: 900.0 GiB free on tmpfs (in memory: gone after a reboot)",
            ),
        ),
        (
            {"unusable": "cannot be written: Read-only file system"},
            ("problem", "outputs: cannot be written: Read-only file system"),
        ),
    ],
)
def test_the_disk_of_the_results_is_judged(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert said(output, facts(output=changes))["output"] == expected


# ---------------------------------------------------------------- software


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.3.8", "<1.4,>=1.3.8", True),
        ("1.3.7", "<1.4,>=1.3.8", False),
        ("1.4.0", "<1.4,>=1.3.8", False),
        ("1.10", ">=1.9", True),
        ("2.13.0+cpu", ">=2.4", True),
        ("2.4", ">=2.4.0", True),
        ("3.14.0rc1", "<3.14,>=3.11", False),
        ("1.0", "!=1.0", False),
        ("1.0", "~=1.0", True),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, fits: bool) -> None:
    assert satisfies(version, wanted) is fits


def test_a_python_outside_the_range_is_a_problem() -> None:
    assert said(python, facts(software={"python": "3.14.0"})) == {
        "Python": ("problem", "3.14.0, and Interlace needs <3.14,>=3.11")
    }


def test_a_wrong_package_is_a_problem_and_a_missing_torch_a_warning() -> None:
    asked = (Requirement("hydra-core", "<1.4,>=1.3.8", "1.4.0"), Requirement("torch", ">=2.4", None))

    assert said(packages, facts(software={"requirements": asked})) == {
        "hydra-core": ("problem", "1.4.0, and Interlace declares hydra-core<1.4,>=1.3.8"),
        "torch": ("warning", "missing, and Interlace declares torch>=2.4"),
    }


@pytest.mark.parametrize(
    ("build", "level"),
    [
        (TorchBuild("2.8.0+cu128", "12.8"), "ok"),
        (TorchBuild("2.8.0+cu129", "12.9"), "ok"),
        (TorchBuild("2.9.0+cu130", "13.0"), "warning"),
        (TorchBuild("2.8.0+cpu", None), "warning"),
    ],
)
def test_torchs_cuda_is_compared_with_the_drivers(build: TorchBuild, level: str) -> None:
    assert said(torch, facts(software={"torch": build}))["torch"][0] == level


@pytest.mark.parametrize(
    ("sees", "expected"),
    [
        (TorchSees("python", "2.8.0", "12.8", 2, "2.27.3"), ("ok", "2.8.0 sees 2 GPUs of 2 visible; NCCL 2.27.3")),
        (TorchSees("python", "2.8.0", "12.8", 1, "2.27.3"), ("problem", "2.8.0 sees 1 GPU of 2 visible; NCCL 2.27.3")),
        (TorchSees("python", "2.8.0", "12.8", 2, None), ("warning", "2.8.0 sees 2 GPUs of 2 visible; no NCCL")),
        (TorchSees("python", failure="No module named 'torch'"), ("problem", "python: No module named 'torch'")),
    ],
)
def test_what_torch_sees_is_compared_with_what_is_visible(sees: TorchSees, expected: tuple[str, str]) -> None:
    assert said(torch, facts(software={"torch_sees": sees}))["torch asked"] == expected


def test_without_git_no_commits_can_be_measured() -> None:
    assert said(git, facts(software={"git": None})) == {"git": ("warning", "not found, or it does not answer")}


# ---------------------------------------------------------------- surroundings


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({}, ("ok", "not in a job")),
        ({"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "16"}, ("ok", "job 7: 16 of 16 CPUs")),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, ("ok", "job 7: unknown of 16 CPUs, GPUs: 2")),
        ({"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "4"}, ("warning", "job 7: 4 of 16 CPUs")),
    ],
)
def test_a_job_that_has_part_of_a_node_is_a_warning(job: dict[str, str], expected: tuple[str, str]) -> None:
    assert said(slurm, facts(surroundings={"slurm": job}))["SLURM"] == expected


def test_hidden_pids_are_a_warning_only_where_there_are_gpus() -> None:
    hidden = {"container": "Docker", "host_pids": False}

    assert said(container, facts(surroundings=hidden))["container"][0] == "warning"
    assert said(container, facts(surroundings=hidden, node={"gpus": ()})) == {
        "container": ("ok", "Docker; a PID namespace of its own")
    }


@pytest.mark.parametrize(
    ("env", "name", "level"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES", "warning"),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "CUDA_DEVICE_ORDER", "warning"),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING", "problem"),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING", "problem"),
        ({"TORCH_DISTRIBUTED_DEBUG": "detail"}, "TORCH_DISTRIBUTED_DEBUG", "warning"),
        ({"NCCL_DEBUG": "INFO"}, "NCCL_DEBUG", "warning"),
        ({"OMP_NUM_THREADS": "4"}, "OMP_NUM_THREADS", "warning"),
        ({"PYTHONPROFILEIMPORTTIME": "1"}, "PYTHONPROFILEIMPORTTIME", "warning"),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, "ACCELERATE_*", "warning"),
    ],
)
def test_a_variable_that_surprises_a_measurement_is_named(env: dict[str, str], name: str, level: str) -> None:
    found = said(environment, facts(surroundings={"env": env}))

    assert {key: value[0] for key, value in found.items()} == {name: level}


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_LAUNCH_BLOCKING": "0"},
        {"NCCL_DEBUG": "WARN"},
        {"TORCH_DISTRIBUTED_DEBUG": "OFF"},
    ],
)
def test_harmless_values_are_not_warned_of(env: dict[str, str]) -> None:
    assert said(environment, facts(surroundings={"env": env})) == {
        "environment": ("ok", "no variable that changes a measurement is set")
    }


def test_the_gpus_that_slurm_gives_are_no_surprise() -> None:
    inside = {"slurm": {"SLURM_JOB_ID": "7"}, "env": {"CUDA_VISIBLE_DEVICES": "0,1"}}

    assert said(environment, facts(surroundings=inside)) == {
        "CUDA_VISIBLE_DEVICES": ("ok", "'0,1': 2 of 2 GPUs visible")
    }
