from __future__ import annotations

import pytest

from interlace.rank.layers import other_layer

ALL, HALF = frozenset(range(8)), frozenset(range(4))


def found(
    env: dict[str, str],
    launcher: str = "torchrun",
    affinity: frozenset[int] = ALL,
    parent: frozenset[int] | None = ALL,
) -> str | None:
    return other_layer(env, launcher, affinity=affinity, cpuset=ALL, parent=parent)


@pytest.mark.parametrize(
    ("env", "layer"),
    [
        ({}, None),
        ({"ACCELERATE_CPU_AFFINITY": "1"}, "accelerate (ACCELERATE_CPU_AFFINITY)"),
        ({"ACCELERATE_CPU_AFFINITY": "True"}, "accelerate (ACCELERATE_CPU_AFFINITY)"),
        ({"ACCELERATE_CPU_AFFINITY": "0"}, None),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "OpenMP (GOMP_CPU_AFFINITY)"),
        ({"KMP_AFFINITY": "explicit,proclist=[0,1]"}, "OpenMP (KMP_AFFINITY)"),
        ({"KMP_AFFINITY": "norespect,compact"}, "OpenMP (KMP_AFFINITY)"),
        ({"OMP_PLACES": "{0:4},{4:4}", "OMP_PROC_BIND": "close"}, "OpenMP (OMP_PLACES with OMP_PROC_BIND)"),
    ],
)
def test_a_setting_that_binds_to_cpus_of_its_own_is_a_layer(env: dict[str, str], layer: str | None) -> None:
    assert found(env) == layer


@pytest.mark.parametrize(
    "env",
    [
        {"KMP_AFFINITY": "granularity=fine,compact,1,0"},
        {"KMP_AFFINITY": "none"},
        {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"},
        {"OMP_PLACES": "{0:4}", "OMP_PROC_BIND": "false"},
        {"OMP_PLACES": "{0:4}"},
        {"GOMP_CPU_AFFINITY": ""},
    ],
)
def test_openmp_settings_that_stay_inside_the_mask_are_none(env: dict[str, str]) -> None:
    assert found(env) is None


def test_a_mask_that_torchrun_made_for_a_rank_is_a_layer_and_one_it_inherited_is_not() -> None:
    assert found({}, affinity=HALF, parent=ALL) == (
        "the launcher (a mask made for this rank, as by torchrun --numa-binding)"
    )
    assert found({}, affinity=HALF, parent=HALF) is None
    assert found({}, affinity=HALF, parent=None) is None


def test_an_mpi_launcher_binds_unasked_and_is_none() -> None:
    assert found({}, "openmpi", affinity=HALF) is None


@pytest.mark.parametrize(
    ("env", "bound"),
    [
        ({"SLURM_CPU_BIND": "quiet,mask_cpu:0x0F,0xF0", "SLURM_CPU_BIND_TYPE": "mask_cpu:"}, True),
        ({"SLURM_CPU_BIND_TYPE": "cores"}, True),
        ({"SLURM_CPU_BIND": "quiet,none", "SLURM_CPU_BIND_TYPE": "none"}, False),
        ({"SLURM_CPU_BIND": "quiet", "SLURM_CPU_BIND_TYPE": ""}, False),
        ({}, False),
    ],
)
def test_srun_is_a_layer_where_it_cut_the_mask_of_its_own_task(env: dict[str, str], *, bound: bool) -> None:
    assert (found(env, "slurm", affinity=HALF) == "srun (--cpu-bind)") is bound
    assert found(env, "slurm", affinity=ALL) is None
    assert found(env, "torchrun", affinity=HALF, parent=HALF) is None
