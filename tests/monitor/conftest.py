"""A stand-in nvidia-smi: a real executable that prints what a test says, by the first word of its query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GPUS_CSV = """\
index, uuid, pci.bus_id, name, memory.total [MiB], mig.mode.current
0, GPU-aaaaaaaa-0000-0000-0000-000000000001, 00000000:1B:00.0, NVIDIA H200, 143771 MiB, Disabled
1, GPU-bbbbbbbb-0000-0000-0000-000000000002, 00000000:9B:00.0, NVIDIA H200, 143771 MiB, Disabled
"""
SAMPLES_CSV = """\
uuid, memory.used [MiB], utilization.gpu [%], clocks.current.sm [MHz], temperature.gpu, power.draw [W], \
clocks_event_reasons.active
GPU-aaaaaaaa-0000-0000-0000-000000000001, 517 MiB, 3 %, 1980 MHz, 41, 112.50 W, 0x0000000000000001
GPU-bbbbbbbb-0000-0000-0000-000000000002, [N/A], 0 %, 345 MHz, 30, [N/A], [N/A]
"""
PROCESSES_CSV = """\
gpu_uuid, pid, used_gpu_memory [MiB], process_name
GPU-aaaaaaaa-0000-0000-0000-000000000001, 4242, 500 MiB, python, the second
"""
BANNER = "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |\n"


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a shell script named nvidia-smi and returns its path."""

    def write(body: str) -> str:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return str(program)

    return write


@pytest.fixture
def talking_smi(stand_in: Callable[[str], str], tmp_path: Path) -> str:
    """Return a stand-in that answers every query of ours about two GPUs."""
    for name, text in {
        "gpus": GPUS_CSV, "samples": SAMPLES_CSV, "processes": PROCESSES_CSV, "banner": BANNER,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return stand_in(f"""
case "$1" in
  --query-gpu=driver_version*) echo 550.54.15;;
  --query-gpu=index*) cat {tmp_path}/gpus;;
  --query-gpu=*) cat {tmp_path}/samples;;
  --query-compute-apps=*) cat {tmp_path}/processes;;
  *) cat {tmp_path}/banner;;
esac""")
