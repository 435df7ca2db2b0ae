from __future__ import annotations

import pytest

from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, MigDevice, ProcessList
from interlace.monitor.smi_text import (
    failure,
    invalid_field,
    parse_cuda_version,
    parse_driver_version,
    parse_gpus,
    parse_list,
    parse_processes,
    parse_samples,
    parse_topo,
)


def test_a_lost_gpu_stays_in_the_inventory_beside_the_good_ones() -> None:
    text = (
        "index, uuid, pci.bus_id, name, memory.total [MiB]\n"
        "0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 143771 MiB\n"
        "Unable to determine the device handle for GPU 0000:3D:00.0: GPU is lost.  Reboot the system\n"
    )

    good, lost = parse_gpus(text)

    assert good == Gpu(0, "GPU-1", "0000:1b:00.0", "NVIDIA H200", 143771.0)
    assert (lost.index, lost.uuid, lost.bus_id) == (None, "lost:0000:3d:00.0", "0000:3d:00.0")
    assert lost.reasons["gpu"].startswith("Unable to determine")


@pytest.mark.parametrize(
    ("line", "bus_id"),
    [
        ("Unable to determine the device handle for GPU1: 0000:3D:00.0: Unknown Error", "0000:3d:00.0"),
        ("Unable to determine the device handle for GPU1: Unknown Error", None),
    ],
)
def test_a_gpu_that_does_not_answer_is_named_before_the_table_or_after_it(line: str, bus_id: str | None) -> None:
    table = "index, uuid, pci.bus_id, name, memory.total [MiB]\n0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 143771 MiB\n"

    for text in (f"{line}\n{table}", f"{table}\n{line}\n"):
        good, lost = parse_gpus(text, ["index", "uuid", "pci.bus_id", "name", "memory.total"])

        assert good.uuid == "GPU-1"
        assert (lost.bus_id, lost.reasons["gpu"]) == (bus_id, line)


@pytest.mark.parametrize("cell", ["[GPU requires reset]", "[GPU is lost]"])
def test_a_gpu_whose_cells_say_that_it_is_lost_is_kept_and_so_is_its_sample(cell: str) -> None:
    text = (
        "index, uuid, pci.bus_id, name, memory.total [MiB], memory.used [MiB]\n"
        "0, GPU-1, 00000000:1B:00.0, NVIDIA H200, 143771 MiB, 3 MiB\n"
        f"1, GPU-2, 00000000:3D:00.0, NVIDIA H200, {cell}, {cell}\n"
    )

    assert [gpu.uuid for gpu in parse_gpus(text)] == ["GPU-1", "GPU-2"]
    assert [one.memory_used_mib for one in parse_samples(text, 0.0)] == [3.0, None]
    assert parse_samples(text, 0.0)[1].reasons["memory_used_mib"] == cell


@pytest.mark.parametrize("fields", [None, ["index", "uuid"]])
def test_a_remark_before_the_header_hides_no_gpu_and_makes_none(fields: list[str] | None) -> None:
    text = "WARNING: infoROM is corrupted at gpu 0000:3D:00.0\nindex, uuid\n0, GPU-1\n"

    assert [gpu.uuid for gpu in parse_gpus(text, fields)] == ["GPU-1"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML\n", "nvml_version_mismatch"),
        ("No devices were found\n", "no_devices"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "nvml_missing"),
        ("Failed to initialize NVML: GPU access blocked by the operating system\n", "gpu_access_blocked"),
        ("Unable to determine the device handle for GPU0000:07:00.0: Not Found\n", "device_handle_error"),
        ("Segmentation fault\n", "unreadable_output"),
        ("nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: No such file", "nvml_missing"),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.\n", "driver_not_loaded"),
        ("No devices found\n", "no_devices"),
        ("sh: 1: nvidia-smi: not found\n", "nvidia_smi_missing"),
        ("", "empty_output"),
    ],
)  # fmt: skip
def test_text_that_is_no_table_is_an_error_and_never_a_node_without_gpus(text: str, code: str) -> None:
    assert failure(text).code == code
    if not text or "handle" not in text:
        with pytest.raises(GpuReadError) as caught:
            parse_gpus(text)
        assert caught.value.code == code


def test_a_message_of_an_error_carries_the_raw_line_and_the_bus_id() -> None:
    problem = failure("Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.\n", rc=15)

    assert (problem.code, problem.bus_id) == ("gpu_lost", "0000:0b:00.0")
    assert problem.message == "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost."


def test_a_process_list_that_is_not_supported_is_unknown_and_not_empty() -> None:
    text = "pid, process_name, used_gpu_memory [MiB]\n[Not Supported], [Not Supported], [Not Supported]\n"

    assert parse_processes(text) == ProcessList((), {"*": "[Not Supported]"})


def test_a_process_list_of_one_refusing_line_is_unknown() -> None:
    fields = ["gpu_uuid", "pid", "used_gpu_memory", "process_name"]

    assert parse_processes("[Not Supported]\n", fields) == ProcessList((), {"*": "[Not Supported]"})


def test_a_crash_is_no_empty_process_list() -> None:
    assert parse_processes("No running processes found\n") == ProcessList()
    with pytest.raises(GpuReadError, match="Segmentation fault"):
        parse_processes("Segmentation fault\n")


@pytest.mark.parametrize("name", ["python", "cat: no such file or directory", "[GPU is lost]"])
def test_a_lost_gpu_or_an_odd_name_does_not_hide_who_computes_on_the_others(name: str) -> None:
    text = (
        "Unable to determine the device handle for GPU1: 0000:3D:00.0: Unknown Error\n"
        f"gpu_uuid, pid, used_gpu_memory [MiB], process_name\nGPU-1, 7, 400 MiB, {name}\n"
    )

    assert parse_processes(text) == ProcessList((GpuProcess(7, "GPU-1", name, 400.0),))


def test_a_process_without_its_share_of_memory_is_still_a_process() -> None:
    text = "gpu_uuid, pid, used_gpu_memory [MiB], process_name\nGPU-1, 7, [N/A], [Not Found]\n"

    assert parse_processes(text) == ProcessList((GpuProcess(7, "GPU-1", "[Not Found]", None),))


def test_a_header_alone_means_no_processes() -> None:
    assert parse_processes("gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n") == ProcessList()


def test_samples_of_a_driver_error_are_an_error() -> None:
    with pytest.raises(GpuReadError, match="Unknown Error"):
        parse_samples("Failed to initialize NVML: Unknown Error\n", 0.0)


def test_mig_slices_are_children_and_not_gpus() -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-a)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
    )

    assert parse_list(text) == (
        Gpu(0, "GPU-1", name="NVIDIA H100 80GB HBM3", mig=(MigDevice("1g.10gb", 0, "MIG-a"),)),
        Gpu(1, "GPU-2", name="NVIDIA H100 80GB HBM3"),
    )


def test_an_affinity_to_two_numa_nodes_is_kept_as_two() -> None:
    text = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tSYS\t0-187\t0-1\t\tN/A\nNIC0\tSYS\t X\n"

    assert parse_topo(text) == {0: (0, 1)}


def test_the_underline_of_an_old_header_is_no_part_of_its_last_column() -> None:
    text = "\x1b[4m\tGPU0\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \t32-63\t1\n"

    assert parse_topo(text) == {0: (1,)}
    assert parse_topo("\tGPU0\tCPU Affinity\nGPU0\t X \t32-63\n") == {}


def test_the_unknown_field_is_named() -> None:
    assert invalid_field('Field "clocks_event_reasons.active" is not a valid field to query.\n') == (
        "clocks_event_reasons.active"
    )
    assert invalid_field("index\n0\n") is None


def test_the_cuda_version_stands_in_the_banner() -> None:
    assert parse_cuda_version("| NVIDIA-SMI 580.1  Driver Version: 580.1  CUDA Version: 13.0 |") == "13.0"
    assert parse_cuda_version("no banner") is None


def test_the_driver_version_is_found_beside_a_gpu_that_does_not_answer() -> None:
    assert (
        parse_driver_version("Unable to determine the device handle for GPU1: Unknown Error\n580.65.06\n")
        == "580.65.06"
    )
    assert parse_driver_version("No devices were found\n") is None
