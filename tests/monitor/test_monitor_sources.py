from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from interlace.monitor.fake import FakeGpus
from interlace.monitor.nvml import Nvml
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import (
    Driver,
    Gpu,
    GpuProcess,
    GpuReadError,
    GpuSample,
    MigDevice,
    ProcessList,
)
from interlace.monitor.smi import NvidiaSmi, run_bounded
from interlace.monitor.source import open_source
from tests.monitor.contract import SAMPLED, MonitorContract
from tests.monitor.fake_nvml import FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interlace.monitor.readings import GpuSource

pytestmark = pytest.mark.costly

A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"
UNKNOWN = dict.fromkeys(SAMPLED, "[N/A]")


class TestFakeGpus(MonitorContract):
    @pytest.fixture
    def source(self) -> GpuSource:
        return FakeGpus(
            [Gpu(0, A, "0000:1b:00.0")],
            [[GpuSample(0.0, A, reasons=UNKNOWN)]],
            [ProcessList((GpuProcess(1, A),))],
        )


class TestNoGpus(MonitorContract):
    @pytest.fixture
    def source(self) -> GpuSource:
        return NoGpus("there are none")


class TestNvidiaSmi(MonitorContract):
    @pytest.fixture
    def source(self, talking_smi: str) -> GpuSource:
        return NvidiaSmi(program=talking_smi)


class TestNvmlThroughAStandIn(MonitorContract):
    @pytest.fixture
    def source(self) -> GpuSource:
        return Nvml(binding=FakeNvml())


class TestNvml(MonitorContract):
    @pytest.fixture
    def source(self) -> Iterator[GpuSource]:
        try:
            nvml = Nvml()
        except GpuReadError as error:
            pytest.skip(f"no real NVML here: {error}")
        yield nvml
        nvml.close()


# ---------------------------------------------------------------- nvidia-smi


def test_nvidia_smi_answers_become_gpus_samples_and_processes(talking_smi: str) -> None:
    smi = NvidiaSmi(program=talking_smi)

    assert smi.inventory() == (
        Gpu(0, A, "0000:1b:00.0", "NVIDIA H200", 143771.0),
        Gpu(1, B, "0000:9b:00.0", "NVIDIA H200", 143771.0),
    )
    first, second = smi.sample()
    assert first == GpuSample(first.t_s, A, 517.0, 3.0, 1980.0, 41.0, 112.5, 1)
    assert second == GpuSample(
        second.t_s, B, None, 0.0, 345.0, 30.0, None, None,
        {"memory_used_mib": "[N/A]", "power_w": "[N/A]", "throttle": "[N/A]"},
    )  # fmt: skip
    assert smi.processes() == ProcessList((GpuProcess(4242, A, "python, the second", 500.0),))
    assert smi.driver() == Driver("550.54.15", "12.4")


def test_a_hanging_nvidia_smi_is_killed_with_its_children_and_switched_off_after_a_few_times(
    stand_in: Callable[[str], str], tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    program = stand_in(f"trap '' TERM\nsleep 30 & echo $! > {pid_file}\nwait")
    smi = NvidiaSmi(program=program, timeout_s=0.5, max_timeouts=2)
    began_s = time.monotonic()

    codes = []
    for _ in range(3):
        with pytest.raises(GpuReadError) as caught:
            smi.sample()
        codes.append(caught.value.code)

    assert codes == ["timeout", "timeout", "switched_off"]
    assert time.monotonic() - began_s < 5
    assert _is_gone_soon(int(pid_file.read_text()))


def test_hangs_that_do_not_follow_each_other_switch_nothing_off(stand_in: Callable[[str], str], tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    program = stand_in(f"[ -e {hangs} ] && exec sleep 30\necho 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'")
    smi = NvidiaSmi(program=program, timeout_s=0.5, max_timeouts=2)

    for _ in range(2):
        hangs.touch()
        with pytest.raises(GpuReadError, match="did not answer"):
            smi.processes()
        hangs.unlink()
        assert smi.processes() == ProcessList()


def test_one_that_was_left_alone_is_asked_again_later_so_that_a_sweep_does_not_end_with_it(
    stand_in: Callable[[str], str], tmp_path: Path
) -> None:
    hangs, asked = tmp_path / "hangs", tmp_path / "asked"
    hangs.touch()
    program = stand_in(
        f"echo >> {asked}\n[ -e {hangs} ] && exec sleep 30\necho 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'"
    )
    smi = NvidiaSmi(program=program, timeout_s=0.5, max_timeouts=1, pause_s=0.5)

    for code in ("timeout", "switched_off"):
        with pytest.raises(GpuReadError) as caught:
            smi.processes()
        assert caught.value.code == code
    time.sleep(0.6)
    with pytest.raises(GpuReadError, match="did not answer"):
        smi.processes()
    hangs.unlink()
    with pytest.raises(GpuReadError, match="it is asked again in"):
        smi.processes()
    time.sleep(0.6)

    assert smi.processes() == ProcessList()
    assert len(asked.read_text().splitlines()) == 3


def _is_gone_soon(pid: int) -> bool:
    """Wait for a killed process to leave; the kernel takes its time on a busy machine."""
    deadline_s = time.monotonic() + 5  # far below the 30 s it would live by itself
    while _is_running(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:  # noqa: PTH123 (short)
            return stream.read().split()[2] != "Z"
    except OSError:
        return False


def test_a_throttle_field_under_its_old_name_is_found(stand_in: Callable[[str], str]) -> None:
    program = stand_in("""
case "$1" in
  *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
  *) echo 'uuid, memory.used [MiB], utilization.gpu [%], clocks.sm [MHz], temperature.gpu, power.draw [W], \
clocks_throttle_reasons.active'
     echo 'GPU-1, 1 MiB, 0 %, 345 MHz, 30, 60 W, 0x4';;
esac""")

    (sample,) = NvidiaSmi(program=program).sample()

    assert (sample.throttle, sample.reasons) == (4, {})


def test_a_field_that_no_name_helps_is_left_out_with_a_reason(stand_in: Callable[[str], str]) -> None:
    program = stand_in("""
case "$1" in
  *power.draw*) echo 'Field "power.draw" is not a valid field to query.'; exit 2;;
  *) echo 'uuid, memory.used [MiB], utilization.gpu [%], clocks.sm [MHz], temperature.gpu, \
clocks_event_reasons.active'
     echo 'GPU-1, 1 MiB, 0 %, 345 MHz, 30, 0x0';;
esac""")

    (sample,) = NvidiaSmi(program=program).sample()

    assert (sample.power_w, sample.throttle, sample.reasons) == (None, 0, {"power_w": "not asked"})


def test_mig_slices_are_asked_for_only_where_mig_is_on(stand_in: Callable[[str], str]) -> None:
    program = stand_in("""
case "$1" in
  -L) echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'
      echo '  MIG 2g.20gb     Device  0: (UUID: MIG-a)';;
  *) echo 'index, uuid, pci.bus_id, name, memory.total [MiB], mig.mode.current'
     echo '0, GPU-1, 00000000:1B:00.0, NVIDIA H100, 81559 MiB, Enabled';;
esac""")

    (gpu,) = NvidiaSmi(program=program).inventory()

    assert gpu.mig == (MigDevice("2g.20gb", 0, "MIG-a"),)


def test_a_failure_told_on_stderr_alone_is_told(stand_in: Callable[[str], str]) -> None:
    program = stand_in("echo 'Failed to initialize NVML: Unknown Error' >&2; exit 255")

    with pytest.raises(GpuReadError, match="nvidia-smi: Failed to initialize NVML: Unknown Error") as caught:
        NvidiaSmi(program=program).inventory()

    assert caught.value.code == "nvml_init_error"


def test_a_program_that_is_missing_is_an_error_of_its_own() -> None:
    with pytest.raises(GpuReadError) as caught:
        run_bounded(["/nonexistent/nvidia-smi"], 1.0)

    assert caught.value.code == "nvidia_smi_missing"


# ---------------------------------------------------------------- NVML


def test_nvml_answers_become_gpus_and_samples_and_refusals_become_reasons() -> None:
    nvml = Nvml(binding=FakeNvml())

    assert nvml.inventory() == (
        Gpu(0, "GPU-0", "000f:01:00.0", "NVIDIA H200", 143771.0),
        Gpu(1, "GPU-1", "000f:02:00.0", "NVIDIA H200", None, (), {"memory_total_mib": "Not Supported"}),
    )
    first, second = nvml.sample()
    assert first == GpuSample(first.t_s, "GPU-0", 517.0, 0, 1980, 40, 112.5, 0x4)
    assert second == GpuSample(
        second.t_s, "GPU-1", None, 7, 1979, 41, 112.501, 0x20, {"memory_used_mib": "Not Supported"}
    )
    assert nvml.processes() == ProcessList(
        (GpuProcess(4242, "GPU-0", "python-4242", 500.0),), {"GPU-1": "Not Supported"}
    )
    assert nvml.driver() == Driver("550.54.15", "12.4")


def test_nvml_keeps_a_lost_gpu_and_finds_the_slices_of_another() -> None:
    nvml = Nvml(binding=FakeNvml(lost=True, mig=True))

    whole, lost = nvml.inventory()

    assert whole.mig == (MigDevice("1g.18gb", 1, "MIG-0/1"),)
    assert lost == Gpu(1, "lost:1", reasons={"gpu": "GPU is lost"})
    assert [sample.uuid for sample in nvml.sample()] == ["GPU-0"]


def test_nvml_without_a_driver_says_so_and_after_closing_is_not_read() -> None:
    with pytest.raises(GpuReadError, match="NVML: Driver Not Loaded") as caught:
        Nvml(binding=FakeNvml(driver=False))
    binding = FakeNvml()
    nvml = Nvml(binding=binding)
    nvml.close()
    nvml.close()

    with pytest.raises(GpuReadError, match="after close"):
        nvml.sample()

    assert caught.value.code == "driver_not_loaded"
    assert binding.shutdowns == 1


def test_a_process_whose_name_is_no_utf8_is_listed_without_it() -> None:
    class OddlyNamed(FakeNvml):
        def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
            return b"\xc4\xe3".decode() or str(pid)

    assert Nvml(binding=OddlyNamed()).processes().processes == (GpuProcess(4242, "GPU-0", None, 500.0),)


class OlderNvml(FakeNvml):
    """The package `pynvml` 11.5, which hides the module of nvidia-ml-py."""

    @property
    def nvmlDeviceGetCurrentClocksEventReasons(self) -> None:  # type: ignore[override]  # noqa: N802
        raise AttributeError


class OldNvml(OlderNvml):
    """The package `pynvml` 8."""

    @property
    def nvmlMemory_v2(self) -> None:  # type: ignore[override]  # noqa: N802
        raise AttributeError


def test_an_older_binding_is_asked_by_the_names_it_has_and_one_too_old_is_refused() -> None:
    assert [sample.throttle for sample in Nvml(binding=OlderNvml()).sample()] == [0x0, 0x20]
    with pytest.raises(GpuReadError, match=r"no nvmlMemory_v2\); the package pynvml hides nvidia-ml-py"):
        Nvml(binding=OldNvml())


# ---------------------------------------------------------------- choosing


def test_nvidia_smi_is_chosen_by_name_and_says_so(talking_smi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.path.dirname(talking_smi)}:{os.environ['PATH']}")  # noqa: PTH120 (short)

    source = open_source("nvidia-smi")

    assert (source.kind, source.reason) == ("nvidia-smi", "nvidia-smi answers")


def test_where_nothing_answers_the_reason_names_every_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    source = open_source("nvidia-smi")

    assert source == NoGpus("cannot start nvidia-smi: No such file or directory")


def test_a_broken_driver_is_a_reason_and_not_a_node_without_gpus(
    stand_in: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stand_in("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    monkeypatch.setenv("PATH", f"{os.path.dirname(program)}:{os.environ['PATH']}")  # noqa: PTH120 (short)

    source = open_source("nvidia-smi")

    assert source == NoGpus("nvidia-smi: Failed to initialize NVML: Driver/library version mismatch")


def test_switched_off_means_off() -> None:
    assert open_source("off") == NoGpus("GPU monitoring is switched off (monitor.source=off)")
