from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.gate import GateEvidence, judge, look, own_process_tree, wait_until_idle
from interlace.monitor.fake import FakeGpus
from interlace.monitor.occupancy import GpuState, OwnedProcess
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, GpuSample, ProcessList
from interlace.settings import GateConfig
from tests.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterable

NOBODY = NoGpus("there are none")


def gpus_holding(*used_mib: float, processes: Iterable[ProcessList | Exception] = ()) -> FakeGpus:
    return FakeGpus([Gpu(0, "GPU-1")], [[GpuSample(0.0, "GPU-1", used, 0.0)] for used in used_mib], processes)


def quiet() -> float:
    return 1.0


# ---------------------------------------------------------------- the judgement


def test_an_empty_node_has_no_reasons() -> None:
    evidence = GateEvidence(0.0, (GpuState(0, "GPU-1", "idle", None, 517.0, 0.0),), 3.0)

    assert judge(evidence, GateConfig()) == ()


def test_every_reason_gives_the_value_and_the_setting() -> None:
    evidence = GateEvidence(
        0.0, (GpuState(0, "GPU-1", "busy", "memory_without_process", 7325.0, 93.0),), cpu_busy_pct=80.0
    )

    assert judge(evidence, GateConfig()) == (
        "GPU 0: 7325 MiB in use, no process listed for it (gate.gpu_memory_mib=1024)",
        "GPU 0: 93 % busy (gate.gpu_utilization_pct=10)",
        "the CPUs are 80 % busy (gate.cpu_busy_pct=50)",
    )


def test_foreign_processes_are_named() -> None:
    held = (OwnedProcess(77, "foreign", "python", 1.0), OwnedProcess(900001, "unknown"))
    evidence = GateEvidence(0.0, (GpuState(3, "GPU-1", "busy", "foreign_process", 2.0, 0.0, held),))

    assert judge(evidence, GateConfig()) == (
        "GPU 3: pid 77 (python, not ours), pid 900001 (name unknown, outside this container)",
    )


def test_what_our_last_run_left_behind_counts_by_its_memory() -> None:
    held = (OwnedProcess(41, "own", "python", 4000.0),)
    evidence = GateEvidence(0.0, (GpuState(0, "GPU-1", "own", None, 4010.0, 0.0, held),))

    assert judge(evidence, GateConfig()) == (
        "GPU 0: 4010 MiB in use, pid 41 (python, ours) (gate.gpu_memory_mib=1024)",
    )


def test_gpus_that_cannot_be_read_are_not_taken_for_idle() -> None:
    assert judge(GateEvidence(0.0, unreadable="GPU is lost"), GateConfig()) == ("the GPUs cannot be read: GPU is lost",)


def test_memory_that_the_last_run_left_is_not_drained_even_under_the_general_limit() -> None:
    evidence = GateEvidence(0.0, (GpuState(0, "GPU-1", "idle", None, 900.0, 0.0),))

    assert judge(evidence, GateConfig(), {"GPU-1": 517.0}) == (
        "GPU 0: 900 MiB in use, 517 when it was empty: not drained (gate.gpu_drained_mib=300)",
    )
    assert judge(evidence, GateConfig(), {"GPU-1": 650.0}) == ()
    assert judge(evidence, GateConfig(), {"GPU-2": 3.0}) == ()


def test_a_gpu_that_could_be_read_before_and_cannot_be_now_is_not_taken_for_idle() -> None:
    lost = GateEvidence(0.0, (GpuState(0, "GPU-1", "unknown", "memory_unavailable", why={"gpu": "GPU is lost"}),))

    assert judge(lost, GateConfig(), {"GPU-1": 3.0}) == (
        "GPU 0: its memory could be read before and cannot be now (GPU is lost)",
    )
    assert judge(lost, GateConfig(), {}) == ()


def test_a_hot_gpu_and_little_memory_are_reasons_to_wait() -> None:
    evidence = GateEvidence(
        0.0, (GpuState(2, "GPU-1", "idle", None, 3.0, 0.0, temperature_c=83.0),), mem_available_mib=700.0
    )

    assert judge(evidence, GateConfig()) == (
        "GPU 2: 83 C, it has to cool (gate.gpu_temperature_c=75)",
        "700 MiB of memory are available (gate.memory_available_mib=1024)",
    )


def test_the_temperature_is_that_of_the_sample() -> None:
    source = FakeGpus([Gpu(0, "GPU-1")], [[GpuSample(0.0, "GPU-1", 3.0, 0.0, temperature_c=41.0)]])

    evidence = look(source, GateConfig(), cpu=quiet)

    assert evidence.gpus[0].temperature_c == 41.0
    assert evidence.mem_available_mib is not None


# ---------------------------------------------------------------- the loop


def test_an_empty_node_passes_at_the_first_look() -> None:
    clock = FakeClock()

    result = wait_until_idle(GateConfig(), gpus_holding(517.0), cpu=quiet, clock=clock)

    assert (result.ok, result.waited_s, result.reasons) == (True, 0.0, ())
    assert result.idle_mib == {"GPU-1": 517.0}


def test_memory_that_drains_late_is_waited_for_until_it_stays_away() -> None:
    source = gpus_holding(*([61000.0] * 7), 4.0)

    result = wait_until_idle(GateConfig(timeout_s=60, poll_s=1.0), source, cpu=quiet, clock=FakeClock(), stable_s=2.0)

    assert (result.ok, result.waited_s) == (True, 9.0)


def test_memory_that_never_drains_is_given_up_at_the_time_limit_with_the_reason() -> None:
    result = wait_until_idle(GateConfig(timeout_s=10, poll_s=1.0), gpus_holding(39000.0), cpu=quiet, clock=FakeClock())

    assert (result.ok, result.waited_s) == (False, 10.0)
    assert result.reasons == ("GPU 0: 39000 MiB in use, no process listed for it (gate.gpu_memory_mib=1024)",)


def test_a_node_that_flickers_is_not_empty() -> None:
    loads = iter([90.0, 1.0, 90.0, 1.0, 90.0, 1.0, 90.0, 1.0])

    result = wait_until_idle(GateConfig(timeout_s=4, poll_s=1.0), NOBODY, cpu=lambda: next(loads), clock=FakeClock())

    assert (result.ok, result.reasons) == (
        False,
        ("the CPUs are 90 % busy (gate.cpu_busy_pct=50)",),
    )


@pytest.mark.parametrize(("action", "ok"), [("warn", True), ("fail", False)])
def test_warn_and_fail_look_once_and_keep_the_reasons(action: str, ok: bool) -> None:
    clock = FakeClock()

    result = wait_until_idle(
        GateConfig(action=action),  # type: ignore[arg-type] # parametrised over the choices
        gpus_holding(7000.0), cpu=quiet, clock=clock,
    )  # fmt: skip

    assert (result.ok, len(result.reasons), clock.now_s) == (ok, 1, 0.0)
    assert result.evidence is not None


def test_off_looks_at_nothing() -> None:
    def not_to_be_called() -> float:
        raise AssertionError

    result = wait_until_idle(GateConfig(action="off"), NOBODY, cpu=not_to_be_called)

    assert (result.ok, result.evidence) == (True, None)


def test_a_gpu_that_is_unknown_does_not_block_but_is_noted() -> None:
    source = gpus_holding(2.0, processes=[ProcessList((), {"*": "[Not Supported]"})])

    result = wait_until_idle(GateConfig(), source, cpu=quiet, clock=FakeClock())

    assert result.ok
    assert result.evidence is not None
    assert result.evidence.notes == (
        "GPU 0 judged on part of the evidence: process_list_not_supported (processes: [Not Supported])",
    )


def test_a_driver_that_fails_is_evidence_and_no_exception() -> None:
    source = gpus_holding(2.0, processes=[GpuReadError("gpu_lost", "GPU is lost")])

    evidence = look(source, GateConfig(), cpu=quiet)

    assert (evidence.unreadable, evidence.gpus) == ("GPU is lost", ())


def test_a_process_of_our_own_tree_is_ours_and_another_living_one_is_foreign() -> None:
    mine, other = min(own_process_tree()), 1
    source = gpus_holding(2.0, processes=[ProcessList((GpuProcess(mine, "GPU-1"), GpuProcess(other, "GPU-1")))])

    (state,) = look(source, GateConfig(), cpu=quiet).gpus

    assert [(process.pid, process.owner) for process in state.processes] == [(mine, "own"), (1, "foreign")]


def test_a_quiet_node_without_gpus_passes_at_the_first_look() -> None:
    clock = FakeClock()

    result = wait_until_idle(GateConfig(cpu_busy_pct=100.0), NOBODY, clock=clock)

    assert (result.ok, clock.now_s) == (True, 0.0)
    assert result.evidence is not None
    assert result.evidence.notes == ("GPUs not checked: there are none",)
