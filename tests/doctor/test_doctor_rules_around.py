from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlace.doctor.facts import Requirement, TorchBuild, TorchSees
from interlace.doctor.rules_memory import limits, memory, output, shared_memory
from interlace.doctor.rules_software import git, packages, python, torch
from interlace.doctor.rules_surroundings import container, environment, slurm
from interlace.doctor.versions import satisfies
from tests.doctor.handmade import HEALTHY, facts, said

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
    assert said(torch, facts(software={"torch": build}))["torch build"][0] == level


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
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node-[1-2]"}, ("ok", "job 7: unknown of 16 CPUs")),
        (
            {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "gpu-[1-2]"},
            ("warning", "this shell holds job 7 on gpu-[1-2], and this is no node of it"),
        ),
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
