from __future__ import annotations

import pytest

from interlace.slurm.environment import (
    for_a_step,
    inside_job,
    on_node_of_job,
    refuse_layout,
    refuse_several_tasks,
    scrubbed,
    world_size,
)

KEPT = {
    "PATH": "/usr/bin", "HOME": "/home/u", "OMP_NUM_THREADS": "4", "SLURM_CONF": "/etc/slurm.conf",
    "SLURM_CLUSTERS": "c1", "SLURM_JWT": "token", "SLURM_ACCOUNT": "proj", "SBATCH_ACCOUNT": "proj",
    "SBATCH_PARTITION": "gpu", "NCCL_SOCKET_IFNAME": "ib0", "PMIX_MCA_gds": "hash", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "TMPDIR": "/scratch/u", "MY_RANK": "1", "PYTHONPATH": "/src",
}  # fmt: skip
DROPPED = {
    "SLURM_JOB_ID": "11", "SLURM_JOBID": "11", "SLURM_NTASKS": "4", "SLURM_MEM_PER_CPU": "8192",
    "SLURM_MEM_PER_NODE": "65536", "SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_GPUS_ON_NODE": "1",
    "SLURM_EXPORT_ENV": "NONE", "SLURM_STEP_ID": "0", "SLURM_TRES_PER_TASK": "cpu:2", "SLURMD_NODENAME": "n0",
    "SRUN_CPUS_PER_TASK": "2", "SBATCH_CPU_BIND": "quiet", "CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "0",
    "PMI_RANK": "0", "PMIX_RANK": "0", "OMPI_COMM_WORLD_RANK": "0", "RANK": "3", "LOCAL_RANK": "3",
    "WORLD_SIZE": "8", "MASTER_ADDR": "n0", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip


def test_what_describes_a_job_is_dropped_and_what_the_site_chose_is_kept() -> None:
    assert scrubbed({**KEPT, **DROPPED}) == KEPT


def test_nothing_is_lost_in_a_plain_shell() -> None:
    assert scrubbed(KEPT) == KEPT


def test_a_step_of_the_job_inherits_no_option_of_the_job_but_its_temporary_folder() -> None:
    job = {"SLURM_JOB_ID": "11", "SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0", "TMPDIR": "/scratch/slurm.11"}

    assert for_a_step({**DROPPED, **KEPT, **job}) == {**KEPT, "TMPDIR": "/scratch/slurm.11"}


def test_gpus_that_a_user_hid_and_slurm_did_not_stay_hidden_in_a_step() -> None:
    assert for_a_step({"SLURM_JOB_ID": "11", "CUDA_VISIBLE_DEVICES": "1"}) == {"CUDA_VISIBLE_DEVICES": "1"}


@pytest.mark.parametrize(
    ("folder", "kept"),
    [("/scratch/slurm.11", False), ("/local/u/11/tmp", False), ("/scratch/job111", True), ("/scratch", True)],
)
def test_a_temporary_folder_of_the_job_itself_goes_with_it(folder: str, kept: bool) -> None:
    assert ("TMPDIR" in scrubbed({"SLURM_JOB_ID": "11", "TMPDIR": folder})) == kept
    assert "TMPDIR" in scrubbed({"TMPDIR": folder})


@pytest.mark.parametrize(
    ("environ", "job"),
    [({"SLURM_JOB_ID": "11"}, "11"), ({"SLURM_JOBID": "12"}, "12"), ({"SLURM_JOB_ID": ""}, None),
     ({"SLURM_JOB_ID": "0"}, None), ({"SLURM_CONF": "/etc/slurm.conf"}, None), ({}, None)],
)  # fmt: skip
def test_a_shell_inside_an_allocation_names_its_job(environ: dict[str, str], job: str | None) -> None:
    assert inside_job(environ) == job


@pytest.mark.parametrize(
    ("environ", "host", "there"),
    [
        ({"SLURM_JOB_ID": "11", "SLURMD_NODENAME": "n0"}, "anything", True),
        ({"SLURM_JOB_ID": "11", "SLURM_JOB_NODELIST": "n[0-1]"}, "n1.example", True),
        ({"SLURM_JOB_ID": "11", "SLURM_JOB_NODELIST": "n[0-1]"}, "login", False),
        ({"SLURM_JOB_ID": "11", "SLURM_JOB_NODELIST": "n[0-"}, "n0", False),
        ({"SLURMD_NODENAME": "n0"}, "n0", False),
    ],
)
def test_a_shell_that_salloc_left_on_the_login_node_is_not_on_the_jobs_nodes(
    environ: dict[str, str], host: str, there: bool
) -> None:
    assert on_node_of_job(environ, host) == there


@pytest.mark.parametrize(
    ("environ", "several"),
    [
        ({}, False),
        ({"SLURM_NTASKS": "8"}, False),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURMD_NODENAME": "n0"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, True),
        ({"SLURM_STEPID": "0", "SLURM_NTASKS": "2"}, True),
    ],
)
def test_an_interlace_that_srun_starts_once_a_task_is_refused(environ: dict[str, str], several: bool) -> None:
    why = refuse_several_tasks(environ)

    assert (why is not None) == several
    assert why is None or "srun started this 2 times" in why


BATCH = {"SLURM_PROCID": "0", "SLURMD_NODENAME": "n0"}


@pytest.mark.parametrize(
    ("environ", "kind", "nproc", "world"),
    [
        ({}, "torchrun", 8, 8),
        ({"SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1"}, "torchrun", 8, 8),
        ({"SLURM_NTASKS": "2", "SLURM_JOB_NUM_NODES": "2"}, "accelerate", 8, 16),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "1"}, "plain", 1, 8),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "1", **BATCH}, "torchrun", 8, 8),
        ({"SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NNODES": "2"}, "torchrun", 4, 8),
    ],
)
def test_one_launcher_a_node_or_one_rank_a_task_is_a_layout(
    environ: dict[str, str], kind: str, nproc: int, world: int
) -> None:
    assert refuse_layout(environ, kind, nproc) is None
    assert world_size(environ, nproc) == world


@pytest.mark.parametrize(
    ("environ", "kind", "nproc", "why"),
    [
        ({"SLURM_NTASKS": "8"}, "torchrun", 8, "make 64 ranks where 8 are meant"),
        ({"SLURM_NTASKS": "8"}, "accelerate", 1, "accelerate would be started once per task"),
        ({"SLURM_NTASKS": "8"}, "plain", 8, "plain would be started once per task"),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_ID": "0", **BATCH}, "torchrun", 8, "make 64 ranks where 8 are meant"),
        ({"SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NNODES": "2"}, "torchrun", 4, "make 32 ranks where 8 are meant"),
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_NUM_NODES": "2"}, "torchrun", 4, "make 32 ranks where 8 are meant"),
        ({"SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "2"}, "torchrun", 8, "would run on 1 of 2 nodes"),
    ],
)  # fmt: skip
def test_a_launcher_in_every_task_or_not_on_every_node_is_refused(
    environ: dict[str, str], kind: str, nproc: int, why: str
) -> None:
    said = refuse_layout(environ, kind, nproc)

    assert said is not None
    assert why in said
