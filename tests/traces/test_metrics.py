"""What a step is divided into, counted by hand on small traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.traces.made import GPU, HOST, Made, plain

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.trace.metrics import StepMetrics


def parts_us(step: StepMetrics) -> dict[str, float]:
    return {name: round(1000 * value, 3) for name, value in step.parts_ms.items() if round(1000 * value, 3)}


def test_a_step_is_its_work_and_what_the_gpu_waited_for(tmp_path: Path) -> None:
    first, second = plain(reduce_us=100).measured(tmp_path).steps

    # 100 until the kernel, of which 96 until its launch returned; 200 at work, 100 queued, 100 communication, 500 after
    expected = {"compute": 200, "exposed_comm": 100, "idle_launch": 96 + 500, "idle_device": 4 + 100}
    assert parts_us(first) == parts_us(second) == expected
    assert (first.kernels, first.launches, len(first.collectives)) == (2, 2, 1)
    assert (first.busy_ms, first.comm_ms, first.mean_kernel_us) == pytest.approx((0.3, 0.1, 150))
    (collective,) = first.collectives
    assert (collective.name, collective.bytes) == ("allreduce", 4000)
    assert first.collective_ms == pytest.approx((0.1,))


def test_communication_and_copies_under_compute_are_hidden(tmp_path: Path) -> None:
    made = plain(steps=1)
    made.reduce(200, 250, 100)
    made.add("cuda_runtime", "cudaMemcpyAsync", 210, 1, HOST, correlation=70)
    made.add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 220, 170, GPU, correlation=70)

    (step,) = made.measured(tmp_path).steps

    assert parts_us(step) == {
        "compute": 200,
        "exposed_comm": 50,
        "exposed_mem": 40,
        "idle_launch": 96 + 610,
        "idle_device": 4,
    }
    assert (step.copies, step.kernels, step.launches) == (1, 2, 3)
    assert step.comm_ms == pytest.approx(0.1)


def test_a_gap_behind_a_sync_or_a_data_loader_is_theirs(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    made.kernel(0, 10, 90)
    made.add("cpu_op", "aten::item", 25, 80, HOST)
    made.add("cpu_op", "aten::_local_scalar_dense", 26, 78, HOST)
    made.sync(30, 72)
    made.kernel(299, 300, 100)
    made.add("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 500, 100, HOST)
    made.kernel(799, 800, 200)

    (step,) = made.measured(tmp_path).steps

    assert parts_us(step) == {
        "compute": 390,
        "idle_data": 100,
        "idle_sync": 200,
        "idle_launch": 1 + 300,
        "idle_device": 9,
    }
    assert step.sync_sites == {"aten::item > aten::_local_scalar_dense > cudaStreamSynchronize": 1}
    assert step.syncs == 1
    assert (step.sync_ms, step.data_ms) == pytest.approx((0.072, 0.1))


def test_only_calls_that_wait_on_a_working_thread_are_syncs(tmp_path: Path) -> None:
    made = plain(steps=1)
    for name in ("cudaEventQuery", "cudaStreamWaitEvent", "cudaStreamIsCapturing"):
        made.sync(310, 1, name)
    made.sync(320, 1, thread=5)  # NCCL's watchdog, or a loader that pins
    made.sync(330, 1, "cudaDeviceSynchronize_ptsz")
    made.sync(340, 1, "cudaMemcpy")
    made.sync(350, 1, "cuStreamSynchronize")

    (step,) = made.measured(tmp_path).steps

    assert step.syncs == 3


def test_a_copy_to_pageable_memory_blocks_once_whether_or_not_a_sync_follows(tmp_path: Path) -> None:
    made = plain(steps=1)
    for begin, paired in ((400, False), (500, True)):
        made.add("cuda_runtime", "cudaMemcpyAsync", begin, 5, HOST, correlation=begin)
        made.add("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", begin + 2, 2, GPU, correlation=begin)
        if paired:
            made.sync(begin + 6, 2)

    (step,) = made.measured(tmp_path).steps

    assert step.sync_sites == {"cudaMemcpyAsync": 1, "cudaStreamSynchronize": 1}


def test_a_graphs_kernels_share_its_one_launch(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.add("cuda_runtime", "cudaGraphLaunch", 5, 10, HOST, correlation=3)
    for begin in (20, 40, 60):
        made.add("kernel", "gemm", begin, 20, GPU, correlation=3)

    (step,) = made.measured(tmp_path).steps

    assert (step.kernels, step.launches, step.graph_launches, step.graph_kernels) == (3, 1, 1, 3)


def test_a_window_reaches_to_the_end_of_its_steps_work_and_no_moment_is_in_two(tmp_path: Path) -> None:
    made = Made()
    made.add("kernel", "of the step before", 5, 20, GPU, correlation=1)
    for number in range(3):
        made.step(number, 100.0 * number, 100)
        made.kernel(100.0 * number + 50, 100.0 * number + 90, 60)

    found = made.measured(tmp_path)

    assert [1000 * one.window_ms for one in found.steps] == pytest.approx([125, 100, 100])
    assert [sum(one.parts_ms.values()) for one in found.steps] == pytest.approx([one.window_ms for one in found.steps])
    assert found.orphans == 1


def test_a_step_that_ends_before_the_work_of_the_one_before_has_no_window_and_takes_none_of_the_next(
    tmp_path: Path,
) -> None:
    made = plain(steps=1)
    made.kernel(900, 950, 1500)
    made.step(1, 1000, 1000)
    for number in (2, 3):
        made.step(number, 1000.0 * number, 1000)
        for begin in (500, 700):
            made.kernel(1000 * number + begin, 1000 * number + begin, 100)

    found = made.measured(tmp_path)

    assert found.dropped == (1,)
    assert [1000 * one.window_ms for one in found.steps] == pytest.approx([2450, 550, 1000])


def test_kernels_that_overlap_on_two_streams_count_once(tmp_path: Path) -> None:
    made = plain(steps=1)
    made.kernel(120, 150, 200, "aside")

    (step,) = made.measured(tmp_path).steps

    assert (step.busy_ms, step.mean_kernel_us) == pytest.approx((0.25, 200))


def test_a_step_that_the_profiler_cut_is_dropped_and_named(tmp_path: Path) -> None:
    made = plain(steps=3)
    made.step(3, 3000, 1000)

    found = made.measured(tmp_path)

    assert ([one.step for one in found.steps], found.dropped) == ([0, 1, 2], (3,))
    ((name, each_ms, times),) = found.longest
    assert (name, times) == ("gemm", 3)
    assert each_ms == pytest.approx(0.2)


def test_without_a_schedule_the_whole_file_is_one_step(tmp_path: Path) -> None:
    made = Made()
    made.add("cpu_op", "aten::mm", 0, 30, HOST)
    made.kernel(10, 20, 70)

    (step,) = made.measured(tmp_path).steps

    assert (step.step, step.kernels) == (-1, 1)
    assert step.window_ms == pytest.approx(0.09)
