from __future__ import annotations

import pytest

from interlace.rank.identity import Identity, identity, tasks_here


@pytest.mark.parametrize(
    ("env", "who"),
    [
        (
            {
                "LOCAL_RANK": "1",
                "RANK": "5",
                "WORLD_SIZE": "8",
                "LOCAL_WORLD_SIZE": "4",
                "SLURM_LOCALID": "0",
            },
            Identity(5, 1, 8, 4, "torchrun"),
        ),
        (
            {
                "OMPI_COMM_WORLD_LOCAL_RANK": "2",
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "SLURM_LOCALID": "0",
                "SLURM_STEP_ID": "0",
            },
            Identity(2, 2, 4, None, "openmpi"),
        ),
        ({"MPI_LOCALRANKID": "1", "PMI_RANK": "3", "PMI_SIZE": "4"}, Identity(3, 1, 4, None, "mpich")),
        (
            {
                "SLURM_LOCALID": "1",
                "SLURM_PROCID": "3",
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_NUM_TASKS": "4",
                "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
            },
            Identity(3, 1, 4, 2, "slurm"),
        ),
        (
            {"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_SIZE": "2", "CROSS_RANK": "0"},
            Identity(1, 1, 2, 2, "torchrun"),  # DeepSpeed's launcher
        ),
        (
            {
                "HOROVOD_LOCAL_RANK": "1",
                "HOROVOD_RANK": "5",
                "HOROVOD_SIZE": "8",
                "HOROVOD_LOCAL_SIZE": "4",
            },
            Identity(5, 1, 8, 4, "horovod"),
        ),
        (
            {"MPI_LOCALRANKID": "1", "PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
            Identity(3, 1, 4, 2, "mpich"),  # Intel MPI too
        ),
        (
            {
                "MV2_COMM_WORLD_LOCAL_RANK": "0",
                "MV2_COMM_WORLD_RANK": "2",
                "MV2_COMM_WORLD_SIZE": "4",
                "MV2_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Identity(2, 0, 4, 2, "mvapich2"),
        ),
        (
            {"MVP_COMM_WORLD_LOCAL_RANK": "1", "PMI_RANK": "3", "PMI_SIZE": "4"},
            Identity(3, 1, 4, None, "mvapich2"),  # MVAPICH 3
        ),
        (
            {"PALS_LOCAL_RANKID": "1", "PALS_RANKID": "5", "PMI_SIZE": "8", "PMI_LOCAL_SIZE": "4"},
            Identity(5, 1, 8, 4, "pals"),
        ),
        (
            {"PMI_LOCAL_RANK": "1", "PMI_RANK": "5", "PMI_SIZE": "8", "PMI_LOCAL_SIZE": "4"},
            Identity(5, 1, 8, 4, "pmi"),
        ),
        (
            {"FLUX_TASK_LOCAL_ID": "1", "FLUX_TASK_RANK": "5", "FLUX_JOB_SIZE": "8", "FLUX_JOB_NNODES": "2"},
            Identity(5, 1, 8, None, "flux"),
        ),
        (
            {"FLUX_TASK_LOCAL_ID": "1", "FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "8", "FLUX_JOB_NNODES": "1"},
            Identity(1, 1, 8, 8, "flux"),
        ),
        (
            {
                "JSM_NAMESPACE_LOCAL_RANK": "1",
                "JSM_NAMESPACE_RANK": "7",
                "JSM_NAMESPACE_SIZE": "12",
                "JSM_NAMESPACE_LOCAL_SIZE": "6",
            },
            Identity(7, 1, 12, 6, "jsrun"),
        ),
        ({"SLURM_LOCALID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Identity(0, 0, 1, None, "none")),
        ({"LOCAL_RANK": "-1"}, Identity(0, 0, 1, None, "none")),
        ({"LOCAL_RANK": "x", "RANK": "2", "WORLD_SIZE": "3"}, Identity(2, 0, 3, None, "none")),
        ({}, Identity(0, 0, 1, None, "none")),
        ({"INTERLACE_NPROC_PER_NODE": "1"}, Identity(0, 0, 1, 1, "none")),
        ({"INTERLACE_NPROC_PER_NODE": "2"}, Identity(0, 0, 1, None, "none")),
    ],
)
def test_a_rank_is_told_by_whichever_launcher_set_it(env: dict[str, str], who: Identity) -> None:
    assert identity(env) == who


@pytest.mark.parametrize(
    ("text", "node", "count"),
    [
        ("8", None, 8),
        ("2(x3)", None, 2),
        ("2(x3),1", 2, 2),
        ("2(x3),1", 3, 1),
        ("2(x3),1", None, None),
        ("2(x3),1", 4, None),
        ("4,4", None, 4),
        ("", 0, None),
        ("2(x", 0, None),
    ],
)
def test_slurms_tasks_per_node_are_those_of_this_node(text: str, node: int | None, count: int | None) -> None:
    assert tasks_here(text, node) == count
