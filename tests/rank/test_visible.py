from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from interlace.rank.gpu_map import gpus_found, gpus_passed
from interlace.rank.visible import GpuRef, gpu_of_rank, visible_gpus

if TYPE_CHECKING:
    from pathlib import Path

GPUS = tuple(
    GpuRef(index, f"GPU-{letter * 4}", f"0000:{bus}:00.0")
    for index, letter, bus in ((0, "a", "1b"), (1, "b", "3d"), (2, "c", "9b"), (3, "d", "bd"))
)


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
        ("none", []),
        ("void", []),
        ("all", []),
        ("0,,1", [0]),
        (" 1 , 0 ", [1, 0]),
        ("0,1,0", []),
        ("+2", [2]),
        ("0:1", [0]),
        ("4", []),
        ("0,4,1", [0]),
        ("-2,0", []),
        (" GPU-bbbb , GPU-aaaa", [1, 0]),
        ("GPU-aaaa,GPU-aaaa", []),
        ("GPU-aaaa,GPU-zzzz,GPU-bbbb", [0]),
        ("gpu-aaaa", []),
        ("aaaa", []),
    ],
)
def test_visible_devices_are_those_that_cuda_sees(visible: str | None, seen: list[int]) -> None:
    assert [gpu.ordinal for gpu in visible_gpus(visible, GPUS)] == seen


@pytest.mark.parametrize(
    "visible", ["MIG-1234", "MIG-12", "MIG-GPU-eeee/3/0", "MIG-5678,MIG-zzzz", "MIG-GPU-eeee/3/0,"]
)
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


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "0,0", "9"])
def test_a_list_that_hides_every_gpu_is_told_apart(visible: str) -> None:
    mixed = (GPUS[0]._replace(name="GTX 1660"), GPUS[1]._replace(name="RTX 3090"))

    for gpus in (GPUS, mixed):
        assert gpu_of_rank(0, {"CUDA_VISIBLE_DEVICES": visible}, gpus)[:2] == (None, "none_visible")


@pytest.mark.parametrize("value", ["void", "none", "", "all", "0"])
def test_the_list_of_the_containers_runtime_says_nothing_about_what_cuda_sees(value: str) -> None:
    assert gpu_of_rank(1, {"NVIDIA_VISIBLE_DEVICES": value}, GPUS)[0] == GPUS[1]


def test_two_old_names_of_slices_are_two_devices_and_one_named_twice_is_none() -> None:
    gpus = (GpuRef(0, "GPU-eeee", "0000:cd:00.0"),)

    assert len(visible_gpus("MIG-GPU-eeee/3/0,MIG-GPU-eeee/4/0", gpus)) == 2
    assert visible_gpus("MIG-GPU-eeee/3/0,MIG-GPU-eeee/3/0", gpus) == ()


def test_more_ranks_than_visible_gpus_leave_the_last_without_one() -> None:
    assert gpu_of_rank(2, {"CUDA_VISIBLE_DEVICES": "0,1"}, GPUS)[:2] == (None, "no_gpu_for_rank")


# ---------------------------------------------------------------- which GPUs there are


def test_the_map_of_the_orchestrator_is_read_and_a_broken_one_is_none() -> None:
    whole = {"index": 0, "uuid": "GPU-1", "bus_id": "0000:1b:00.0", "mig": ["MIG-a"]}
    text = json.dumps([whole, {"index": None, "uuid": "lost", "bus_id": None}])

    assert gpus_passed({"INTERLACE_GPU_MAP": text}) == (GpuRef(0, "GPU-1", "0000:1b:00.0", "", ("MIG-a",)),)
    for broken in ("", "[", "{}", "[1]", '[{"index": 0}]', "null"):
        assert gpus_passed({"INTERLACE_GPU_MAP": broken}) == ()


def test_the_drivers_files_list_the_gpus_that_this_process_may_open(tmp_path: Path) -> None:
    for minor, bus in ((2, "9b"), (1, "3d"), (0, "1b")):
        folder = tmp_path / f"proc/driver/nvidia/gpus/0000:{bus}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t NVIDIA H200\nGPU UUID: \t GPU-{bus}\nDevice Minor: \t {minor}\n"
        )
    (tmp_path / "dev").mkdir()
    for minor in (1, 2):
        (tmp_path / f"dev/nvidia{minor}").write_text("")

    assert gpus_found(f"{tmp_path}/proc", f"{tmp_path}/dev") == (
        GpuRef(0, "GPU-3d", "0000:3d:00.0", "NVIDIA H200"),
        GpuRef(1, "GPU-9b", "0000:9b:00.0", "NVIDIA H200"),
    )


def test_nvidia_smi_is_asked_for_slices_which_the_drivers_files_do_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:1b:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("GPU UUID: \t GPU-1\nDevice Minor: \t 0\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").write_text("")
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\ncase \"$1\" in\n-L) echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; "
        "echo '  MIG 1g.18gb     Device  0: (UUID: MIG-a)' ;;\n"
        "*) echo index, uuid; echo 0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 5 MiB, Enabled ;;\nesac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    (with_slices,) = gpus_found(f"{tmp_path}/proc", f"{tmp_path}/dev", slices=True)
    (without,) = gpus_found(f"{tmp_path}/proc", f"{tmp_path}/dev")

    assert (with_slices.mig, without.mig) == (("MIG-a",), ())


def test_nvidia_smi_is_asked_where_the_driver_has_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho index, uuid\necho 0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 5 MiB, [N/A]\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert gpus_found(f"{tmp_path}/proc") == (GpuRef(0, "GPU-1", "0000:1b:00.0", "NVIDIA H200"),)
