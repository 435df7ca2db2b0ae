from __future__ import annotations

import pytest

from interlace.monitor.occupancy import occupancy, overall, own_contexts
from interlace.monitor.readings import Gpu, GpuProcess, GpuSample, MigDevice, ProcessList

GPU = Gpu(0, "GPU-1", mig=(MigDevice("1g.10gb", 0, "MIG-a"),))


def judged(
    used_mib: float | None, *processes: GpuProcess, load_pct: float | None = 0.0, unlisted: str | None = None
) -> tuple[str, str | None]:
    (state,) = occupancy(
        [GPU],
        [GpuSample(0.0, "GPU-1", used_mib, load_pct)],
        ProcessList(processes, {"*": unlisted} if unlisted else {}),
        own_pids={41},
        living_pids={1, 41, 77},
    )
    return state.verdict, state.reason


def test_little_memory_and_no_process_is_idle() -> None:
    assert judged(517.0) == ("idle", None)


def test_memory_without_a_process_is_busy() -> None:
    assert judged(7325.0) == ("busy", "memory_without_process")


def test_load_without_a_process_is_busy() -> None:
    assert judged(2.0, load_pct=93.0) == ("busy", "load_without_process")


def test_a_foreign_process_is_busy_however_little_it_holds() -> None:
    assert judged(3.0, GpuProcess(77, "GPU-1", "python", 1.0)) == ("busy", "foreign_process")


def test_a_pid_that_is_not_in_this_proc_is_somebody_and_not_gone() -> None:
    assert judged(4010.0, GpuProcess(900001, "GPU-1", None, 4000.0)) == ("busy", "process_unknown_pid")


def test_a_process_on_a_slice_is_on_its_gpu() -> None:
    assert judged(10.0, GpuProcess(77, "MIG-a")) == ("busy", "foreign_process")


def test_our_own_process_is_own_whatever_it_holds() -> None:
    assert judged(26010.0, GpuProcess(41, "GPU-1", "python", 26000.0), load_pct=99.0) == ("own", None)


def test_memory_beyond_our_own_process_is_somebody_elses() -> None:
    assert judged(40000.0, GpuProcess(41, "GPU-1", "python", 26000.0)) == ("busy", "memory_without_process")


def test_without_a_process_list_a_gpu_is_unknown_but_memory_still_counts() -> None:
    assert judged(2.0, unlisted="[Not Supported]") == ("unknown", "process_list_not_supported")
    assert judged(9000.0, unlisted="[Not Supported]") == ("busy", "memory_without_process")


def test_without_memory_a_gpu_is_unknown() -> None:
    assert judged(None) == ("unknown", "memory_unavailable")


def test_a_process_on_a_gpu_outside_the_inventory_is_shown() -> None:
    states = occupancy([GPU], [GpuSample(0.0, "GPU-1", 1.0)], ProcessList((GpuProcess(77, "GPU-9"),)))

    assert [(state.uuid, state.verdict) for state in states] == [("GPU-1", "idle"), ("GPU-9", "busy")]


@pytest.mark.parametrize(
    ("pids", "verdict", "contexts"),
    [((41, 42), "own", 2), ((41, 41), "own", 1), ((41, 77), "busy", 1), ((), "idle", 0)],
)
def test_several_own_contexts_are_counted_and_not_foreign(pids: tuple[int, ...], verdict: str, contexts: int) -> None:
    listed = ProcessList(tuple(GpuProcess(pid, "GPU-1", "python", 10.0) for pid in pids))

    states = occupancy([GPU], [GpuSample(0.0, "GPU-1", 20.0)], listed, own_pids={41, 42})

    assert (overall(states), own_contexts(states)) == (verdict, {"GPU-1": contexts})
