from __future__ import annotations

import json
import math
import threading
import time
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from interlace.monitor.cpu import CpuTimes, busy_over, busy_pct, cpu_times, mem_available_mib
from interlace.monitor.fake import FakeGpus
from interlace.monitor.foreign import Sightings
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, GpuSample, ProcessList
from interlace.monitor.sampler import Monitor, MonitorResult
from interlace.monitor.samples import write_samples
from interlace.schema import GpuSeen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GPUS = [Gpu(0, "GPU-1"), Gpu(1, "GPU-2", reasons={"gpu": "GPU is lost"})]


def holding(used_mib: float | None) -> list[GpuSample]:
    reasons = {} if used_mib is not None else {"memory_used_mib": "[N/A]"}
    return [GpuSample(0.0, "GPU-1", used_mib, 50.0, 1980.0, 40.0, 300.0, 4, reasons)]


def watched(script: Sequence[Sequence[GpuSample] | Exception], ticks: int) -> MonitorResult:
    """Monitor fake GPUs until they were asked `ticks` times after the baseline."""
    asked = threading.Semaphore(0)

    class Counting(FakeGpus):
        def sample(self) -> tuple[GpuSample, ...]:
            asked.release()
            return super().sample()

    monitor = Monitor(Counting(GPUS, script), 0.01)
    monitor.start()
    for _ in range(ticks + 1):
        assert asked.acquire(timeout=5)
    return monitor.stop()


def test_the_peak_stands_beside_the_idle_baseline_and_a_lost_gpu_has_its_reason() -> None:
    result = watched([holding(517.0), holding(20517.0), holding(800.0)], ticks=3)

    alive, lost = result.gpus
    assert (alive.peak_mib, alive.baseline_mib, alive.reason) == (20517.0, 517.0, None)
    assert lost == GpuSeen("GPU-2", 1, None, None, "GPU is lost")


def test_memory_that_was_never_readable_has_no_peak_and_is_noted_once() -> None:
    result = watched([holding(None)], ticks=3)

    assert (result.gpus[0].peak_mib, result.gpus[0].reason) == (None, "memory was never readable during the run")
    assert result.notes == ("GPU 0: memory_used_mib not available: [N/A]", "GPU 1: GPU is lost")


def test_a_run_of_a_moment_has_a_look_at_its_start_and_one_at_its_end() -> None:
    listed = ProcessList((GpuProcess(7, "GPU-1", "other", 9.0),))
    monitor = Monitor(
        FakeGpus(GPUS, [holding(9.0)], [listed]), 0.01, sightings=Sightings(lambda _: "foreign"), idle_mib={}
    )
    monitor.start()
    time.sleep(0.1)

    (seen,) = monitor.stop().sightings

    assert (seen.pid, seen.looks) == (7, 2)


def test_a_baseline_from_the_gate_is_used_without_asking_again() -> None:
    gpus = FakeGpus(GPUS, [holding(900.0)])
    monitor = Monitor(gpus, 0.01, idle_mib={"GPU-1": 3.0})

    monitor.start()
    result = monitor.stop()

    assert result.gpus[0].baseline_mib == 3.0


def test_a_sampler_that_fails_never_reaches_the_run_and_goes_on() -> None:
    script: list[Sequence[GpuSample] | Exception] = [holding(1.0), RuntimeError("boom")]
    script += [GpuReadError("timeout", "no answer"), holding(2.0)]

    result = watched(script, ticks=4)

    assert result.missed >= 2
    assert set(result.notes) == {"a sample failed: boom", "a sample failed: no answer", "GPU 1: GPU is lost"}
    assert result.gpus[0].peak_mib == 2.0


def test_a_source_that_switched_itself_off_is_not_asked_again_but_the_cpus_are_watched() -> None:
    calls = []

    class SwitchedOff(FakeGpus):
        def sample(self) -> tuple[GpuSample, ...]:
            calls.append(1)
            raise GpuReadError("switched_off", "hung too often")

    monitor = Monitor(SwitchedOff(GPUS), 0.01, idle_mib={})
    monitor.start()
    time.sleep(0.1)
    result = monitor.stop()

    assert len(calls) == 1
    assert result.samples > 2


def test_a_source_that_hangs_does_not_hold_up_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlace.monitor.sampler._JOIN_TIMEOUT_S", 0.05)
    hanging, release = threading.Event(), threading.Event()

    class Hanging(FakeGpus):
        def sample(self) -> tuple[GpuSample, ...]:
            hanging.set()
            release.wait(5)
            return ()

    monitor = Monitor(Hanging(GPUS), 0.01, idle_mib={})
    monitor.start()
    assert hanging.wait(5)
    result = monitor.stop()
    release.set()

    assert result.own_cpu_s is None
    assert "left behind" in result.notes[0]


def test_a_node_without_gpus_is_still_watched_and_says_why_there_is_no_more() -> None:
    monitor = Monitor(NoGpus("there are none"), 0.01)

    monitor.start()
    time.sleep(0.1)
    result = monitor.stop()

    assert (result.source, result.gpus) == ("none", ())
    assert result.notes == ("no GPU samples: there are none",)
    assert set(result.columns["uuid"]) == {None}
    assert len(result.columns["t_s"]) == result.samples > 3
    assert result.own_cpu_s is not None


def test_a_slow_source_is_asked_less_often_and_this_is_noted() -> None:
    class Slow(FakeGpus):
        min_interval_s = 1.0

    monitor = Monitor(Slow(GPUS, [holding(1.0)]), 0.2)

    monitor.start()
    result = monitor.stop()

    assert result.interval_s == 1.0
    assert result.notes[0] == "fake is asked every 1 s, not every 0.2 s"


def test_samples_are_written_whole_with_nulls_for_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "monitor.parquet"

    write_samples(path, watched([holding(None), holding(20.0)], ticks=2))

    table = pq.read_table(path)
    of_gpu = [row for row in table.to_pylist() if row["uuid"] == "GPU-1"]
    assert {row["memory_used_mib"] for row in of_gpu} == {20.0}
    assert of_gpu[0]["throttle"] == 4
    assert of_gpu[0]["cpu_busy_pct"] is None
    facts = json.loads(table.schema.metadata[b"interlace"])
    assert (facts["format_version"], facts["source"]) == (1, "fake")
    assert [one.name for one in tmp_path.iterdir()] == ["monitor.parquet"]


# ---------------------------------------------------------------- CPU load


def test_busy_counts_everything_but_idle_and_waiting_for_disks(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 10 20 800 50 5 5 10 40 0\ncpu0 1 1\n")

    assert cpu_times(tmp_path) == CpuTimes(busy=150, total=1000)


def test_load_is_the_share_between_two_readings_and_none_without_them() -> None:
    assert busy_pct(CpuTimes(100, 1000), CpuTimes(150, 1200)) == 25.0
    assert busy_pct(CpuTimes(100, 1000), CpuTimes(100, 1000)) is None
    assert busy_pct(None, CpuTimes(1, 2)) is None


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu x\n", "cpu 0 0 0 0 0 0 0 0\n"])
def test_a_proc_that_tells_nothing_gives_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)

    assert cpu_times(tmp_path) is None
    assert mem_available_mib(tmp_path) is None


def test_this_machine_tells_its_load_and_memory() -> None:
    busy = busy_over(0.05)

    assert busy is None or 0.0 <= busy <= 100.0
    assert not math.isnan(mem_available_mib() or 0.0)


def test_available_memory_is_in_mib(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable:    2048 kB\n")

    assert mem_available_mib(tmp_path) == 2.0
