from __future__ import annotations

from dataclasses import replace

import pytest

from interlace.doctor.facts import GpuSigns
from interlace.doctor.finding import problem
from interlace.doctor.rules_gpu import gpus
from interlace.monitor.occupancy import GpuState, OwnedProcess
from interlace.monitor.readings import Gpu, GpuSample, MigDevice
from interlace.node import NodeGpu
from tests.doctor.handmade import HEALTHY, A, facts, said

FIRST = HEALTHY.samples[0]


def one_gpu(state: GpuState, sample: GpuSample = FIRST) -> dict[str, tuple[str, str]]:
    return said(gpus, replace(facts(gate={"gpus": (state,)}), samples=(sample,)))


def without_gpus(reason: str, **signs: object) -> dict[str, tuple[str, str]]:
    node = facts(node={"gpus": (), "gpu_source": "none", "gpu_source_reason": reason}, gate={"gpus": ()})
    return said(gpus, replace(node, signs=GpuSigns(**signs), samples=()))  # type: ignore[arg-type]


# ---------------------------------------------------------------- there or not


def test_idle_gpus_are_ok_with_their_values_and_places() -> None:
    assert said(gpus, HEALTHY) == {
        "GPUs": ("ok", "2 x NVIDIA H200 143771 MiB; driver 570.1, CUDA 12.8; NVML answers"),
        "GPU 0": ("ok", "idle: 4 MiB, 0 % busy, 31 C, 71 W, 345 MHz, 0000:1b:00.0 on NUMA node 0"),
        "GPU 1": ("ok", "idle: 5 MiB, 0 % busy, 33 C, 75 W, 345 MHz, 0000:9b:00.0 on NUMA node 1"),
    }


def test_a_machine_without_gpus_is_ok_and_says_why_none_were_found() -> None:
    assert without_gpus("NVML Shared Library Not Found") == {
        "GPUs": ("ok", "none (NVML Shared Library Not Found): the quickstart and other CPU ranks work")
    }


@pytest.mark.parametrize(
    ("reason", "signs"),
    [
        ("NVML: Driver Not Loaded", {"proc_driver": True}),
        ("NVML Shared Library Not Found", {"pci_bus_ids": ("0000:1b:00.0",)}),
        ("Failed to initialize NVML: Driver/library version mismatch", {}),
        ("nvidia-smi did not answer within 10 s", {}),
        ("Failed to initialize NVML: Insufficient Permissions", {}),
    ],
)
def test_gpus_that_do_not_answer_are_a_problem_with_the_drivers_words(reason: str, signs: dict[str, object]) -> None:
    level, what = without_gpus(reason, **signs)["GPUs"]

    assert (level, reason in what) == ("problem", True)


@pytest.mark.parametrize(
    ("reason", "slurm", "remedy"),
    [
        ("Driver/library version mismatch", {}, "reboot the node"),
        ("Driver Not Loaded", {}, "modprobe nvidia"),
        ("No devices were found", {"SLURM_JOB_ID": "7"}, "ask SLURM for GPUs"),
        ("No devices were found", {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, "modprobe nvidia"),
    ],
)
def test_the_remedy_fits_the_failure(reason: str, slurm: dict[str, str], remedy: str) -> None:
    node = facts(
        node={"gpus": (), "gpu_source": "none", "gpu_source_reason": reason},
        gate={"gpus": ()}, surroundings={"slurm": slurm},
    )  # fmt: skip

    (finding,) = gpus(node)

    assert remedy in (finding.todo or "")


def test_an_inventory_that_is_refused_is_a_problem() -> None:
    node = facts(node={"gpus": (), "missing": {"gpus": "GPU is lost"}}, gate={"gpus": (), "unreadable": "GPU is lost"})

    assert tuple(gpus(node)) == (
        problem("GPUs", "GPU is lost", "see `dmesg | grep -i xid`; reset the GPU, or reboot the node"),
    )


def test_gpus_whose_state_is_refused_are_not_taken_for_idle() -> None:
    node = facts(gate={"gpus": (), "unreadable": "nvidia-smi did not answer within 10 s"})

    assert said(gpus, node)["GPU state"] == ("problem", "nvidia-smi did not answer within 10 s")


def test_nvidia_smi_in_place_of_nvml_is_a_warning_with_the_reason() -> None:
    node = facts(node={"gpu_source": "nvidia-smi", "gpu_source_reason": "nvidia-smi answers where NVML does not (old)"})

    level, what = said(gpus, node)["GPUs"]

    assert (level, what.endswith("(old)")) == ("warning", True)


# ---------------------------------------------------------------- alike, whole, present


def test_different_models_are_a_warning() -> None:
    first, second = HEALTHY.node.gpus
    mixed = (first, replace(second, gpu=replace(second.gpu, name="NVIDIA A100")))

    assert said(gpus, facts(node={"gpus": mixed}))["models"] == (
        "warning", "not alike: 1 x NVIDIA H200, 1 x NVIDIA A100",
    )  # fmt: skip


def test_mig_is_a_warning() -> None:
    first, second = HEALTHY.node.gpus
    sliced = replace(
        first, gpu=replace(first.gpu, mig=(MigDevice("1g.18gb", 0, "MIG-a"), MigDevice("1g.18gb", 1, "MIG-b")))
    )

    assert said(gpus, facts(node={"gpus": (sliced, second)}))["MIG"] == ("warning", "on: GPU 0 (2 slices)")


def test_a_lost_gpu_is_a_problem_and_no_model() -> None:
    lost = Gpu(None, "lost:0000:bb:00.0", "0000:bb:00.0", reasons={"gpu": "GPU is lost"})
    state = GpuState(None, lost.uuid, "unknown", "memory_unavailable", why=lost.reasons)
    node = facts(node={"gpus": (*HEALTHY.node.gpus, NodeGpu(lost, None))}, gate={"gpus": (*HEALTHY.gate.gpus, state)})

    found = said(gpus, node)

    assert found["GPU 0000:bb:00.0"] == ("problem", "GPU is lost")
    assert found["GPUs"][1].startswith("2 x NVIDIA H200 143771 MiB, 1 x lost;")
    assert "models" not in found


# ---------------------------------------------------------------- each GPU


def test_a_foreign_process_is_a_problem_and_named() -> None:
    held = (OwnedProcess(77, "foreign", "python", 60000.0),)
    found = one_gpu(GpuState(0, A, "busy", "foreign_process", 60010.0, 93.0, held))

    assert found["GPU 0"] == (
        "problem",
        "in use: pid 77 (python, not ours) [60010 MiB, 93 % busy, 31 C, 71 W, 345 MHz, 0000:1b:00.0 on NUMA node 0]",
    )


def test_memory_that_no_process_accounts_for_is_a_problem() -> None:
    level, what = one_gpu(GpuState(0, A, "busy", "memory_without_process", 7325.0, 0.0))["GPU 0"]

    assert (level, what.split(" [")[0]) == (
        "problem", "in use: 7325 MiB in use, no process listed for it (gate.gpu_memory_mib=1024)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mask", "level", "says"),
    [
        (0x1, "ok", "idle: "),
        (0x2, "ok", "clocks chosen by hand"),
        (0x4, "warning", "held back by sw_power_cap"),
        (0x48, "problem", "held back by hw_slowdown, hw_thermal_slowdown"),
        (0x81, "problem", "held back by hw_power_brake_slowdown:"),
        (None, "ok", "idle: "),
    ],
)
def test_what_holds_the_clocks_of_an_idle_gpu_down_is_named(mask: int | None, level: str, says: str) -> None:
    found = one_gpu(HEALTHY.gate.gpus[0], replace(FIRST, throttle=mask))["GPU 0"]

    assert (found[0], says in found[1]) == (level, True)


@pytest.mark.parametrize(("temperature_c", "level"), [(65.0, "ok"), (66.0, "warning"), (None, "ok")])
def test_an_idle_gpu_that_is_hot_is_a_warning(temperature_c: float | None, level: str) -> None:
    assert one_gpu(HEALTHY.gate.gpus[0], replace(FIRST, temperature_c=temperature_c))["GPU 0"][0] == level


@pytest.mark.parametrize("why", ["[GPU requires reset]", "[GPU is lost]", "GPU is lost"])
def test_memory_that_a_broken_gpu_does_not_tell_is_a_problem(why: str) -> None:
    level, _ = one_gpu(GpuState(0, A, "unknown", "memory_unavailable", why={"memory_used_mib": why}))["GPU 0"]

    assert level == "problem"


def test_memory_that_cannot_be_read_is_a_warning_and_never_0() -> None:
    state = GpuState(0, A, "unknown", "memory_unavailable", None, 0.0, why={"memory_used_mib": "Not Supported"})

    assert one_gpu(state)["GPU 0"] == (
        "warning",
        "memory cannot be read (Not Supported): 0 % busy, 31 C, 71 W, 345 MHz, 0000:1b:00.0 on NUMA node 0",
    )


def test_processes_that_cannot_be_listed_are_a_warning() -> None:
    state = GpuState(0, A, "unknown", "process_list_not_supported", 4.0, 0.0, why={"processes": "[Not Supported]"})

    level, what = one_gpu(state)["GPU 0"]

    assert (level, what.split(":")[0]) == ("warning", "processes cannot be listed ([Not Supported])")
