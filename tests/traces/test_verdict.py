"""What bounds a step, and who is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.trace.verdict import diagnose, each_rank
from tests.traces.made import GPU, HOST, Made, plain

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.trace.verdict import Diagnosis


def busy(kernel_us: float, steps: int = 3) -> Made:
    made = Made()
    for number in range(steps):
        begin = 1000.0 * number
        made.step(number, begin, 1000)
        made.kernel(begin, begin + 2, kernel_us)
    return made


def verdict(made: Made, folder: Path, step_ms: float | None = 1.0) -> Diagnosis:
    return diagnose("a", [made.measured(folder)], step_ms)


def test_a_gpu_that_is_always_at_work_is_compute_bound(tmp_path: Path) -> None:
    found = verdict(busy(998), tmp_path)

    assert (found.verdict, found.findings, found.doubts) == ("compute-bound", (), ())
    assert found.busy == pytest.approx(0.998)


def test_a_gpu_that_waits_for_launches_is_launch_bound_up_to_all_of_that_wait(tmp_path: Path) -> None:
    found = verdict(busy(300), tmp_path)

    assert found.verdict == "launch-bound"
    assert found.findings[0].ceiling_ms == pytest.approx(0.7, abs=0.01)
    assert "1 launch calls a step, kernels of 300.0 us" in found.findings[0].why


def test_idle_time_is_scaled_to_the_step_without_the_profiler(tmp_path: Path) -> None:
    found = verdict(busy(300), tmp_path, step_ms=0.5)

    assert found.busy == pytest.approx(0.6)
    assert sum(found.parts_ms.values()) == pytest.approx(0.5)
    assert found.parts_ms["compute"] == pytest.approx(0.3)
    assert "the profiler made the step 2.0 times as long" in found.doubts[0]


def test_a_step_time_that_cannot_be_this_jobs_divides_nothing(tmp_path: Path) -> None:
    found = verdict(busy(900), tmp_path, step_ms=6.0)

    assert sum(found.parts_ms.values()) == pytest.approx(1.0)
    assert found.verdict == "compute-bound"
    assert "shorter than without the profiler (1 ms, 6 ms): not the same job" in found.doubts[0]


def test_a_step_time_below_the_kernels_own_divides_nothing(tmp_path: Path) -> None:
    found = verdict(busy(300), tmp_path, step_ms=0.0005)

    assert sum(found.parts_ms.values()) == pytest.approx(1.0)
    assert found.verdict == "launch-bound"
    assert "shorter than its compute (0.0005 ms, 0.3 ms): not the same job" in found.doubts[0]


def test_waiting_for_data_for_syncs_for_copies_and_for_the_device_have_names(tmp_path: Path) -> None:
    data, sync, copy, device = busy(800), busy(700), busy(850), busy(500)
    for number in range(3):
        begin = 1000.0 * number
        data.add("user_annotation", "enumerate(DataLoader)#_X.__next__", begin + 850, 100, HOST)
        sync.sync(begin + 5, 698)
        sync.kernel(begin + 890, begin + 892, 100)
        copy.add("cuda_runtime", "cudaMemcpyAsync", begin + 3, 1, HOST, correlation=900 + number)
        copy.add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", begin + 852, 140, GPU, correlation=900 + number)
        device.kernel(begin + 10, begin + 800, 200)

    found = {name: verdict(made, tmp_path).verdict for name, made in
             (("data", data), ("sync", sync), ("copy", copy), ("device", device))}  # fmt: skip

    assert found == {"data": "data-bound", "sync": "sync-bound", "copy": "memcpy-bound", "device": "device-wait"}


def test_communication_of_one_rank_is_what_it_looks_like_and_that_is_said(tmp_path: Path) -> None:
    found = verdict(plain(0, world=2, reduce_us=500), tmp_path)

    assert [one.kind for one in found.findings] == ["comm-bound"]
    assert any("1 of 2 ranks" in doubt for doubt in found.doubts)


def test_ranks_that_wait_for_one_are_skewed_and_that_one_is_judged(tmp_path: Path) -> None:
    waits, late = plain(0, world=2, reduce_us=500), plain(1, world=2, reduce_us=20)

    found = diagnose("a", [waits.measured(tmp_path, "0.json"), late.measured(tmp_path, "1.json")], 1.0)

    assert found.meeting is not None
    assert (found.meeting.last, found.meeting.last_share, found.judged) == (1, 1.0, 1)
    assert found.meeting.wait_share == pytest.approx(480 / 520)
    assert found.meeting.transfer_ms == pytest.approx(0.02)
    assert found.verdict == "launch-bound"
    assert [one.findings[0].kind for one in each_rank(found)] == ["skew-bound", "launch-bound"]


def test_ranks_whose_collectives_do_not_match_are_not_compared(tmp_path: Path) -> None:
    with_one, without = plain(0, world=2, reduce_us=500), plain(1, world=2)

    found = diagnose("a", [with_one.measured(tmp_path, "0.json"), without.measured(tmp_path, "1.json")], 1.0)

    assert found.meeting is None
    assert found.doubts[-1].startswith("the ranks have no step with the same collectives in common")


def test_where_the_first_rank_shows_no_gpu_another_is_judged(tmp_path: Path) -> None:
    host_only = Made(0, 2)
    host_only.step(0, 0, 1000)
    host_only.add("cpu_op", "aten::add", 20, 5, HOST)

    found = diagnose("a", [host_only.measured(tmp_path, "0.json"), plain(1, 2).measured(tmp_path, "1.json")], 1.0)

    assert (found.judged, found.verdict) == (1, "launch-bound")


def test_what_makes_a_verdict_less_sure_is_said(tmp_path: Path) -> None:
    made = busy(300, steps=1)

    found = verdict(made, tmp_path, step_ms=None)

    assert found.doubts == (
        "the step time without the profiler is not known: shares are of the profiled step, whose host is slower",
        "one complete step only",
    )


def test_a_trace_without_a_gpu_has_no_verdict(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.add("cpu_op", "aten::add", 20, 5, HOST)

    found = verdict(made, tmp_path, step_ms=None)

    assert (found.verdict, found.findings, found.doubts) == (None, (), ())
