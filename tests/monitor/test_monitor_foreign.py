"""Who else computed on the GPUs while a run was on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlace import process
from interlace.monitor.foreign import Sightings, foreigners
from interlace.monitor.readings import GpuProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.monitor.occupancy import Owner


def seen(owner: Callable[[int], Owner], *looks: list[int], uuid: str = "GPU-a") -> Sightings:
    """Look once a second; each look is the pids listed on one GPU."""
    sightings = Sightings(owner)
    for t_s, pids in enumerate(looks):
        sightings.look([GpuProcess(pid, uuid, f"name {pid}", 100.0 + t_s) for pid in pids], float(t_s))
    return sightings


def found(sightings: Sightings, *, host_pids: bool = True, ranks: int = 1) -> list[int]:
    who = foreigners(sightings.all(), {"GPU-a": 0}, {"GPU-a": ranks}, host_pids=host_pids)
    return [one.pid for one in who]


def test_a_process_that_is_not_ours_is_told_with_its_time_and_memory() -> None:
    sightings = seen(lambda pid: "own" if pid == 1 else "foreign", [1], [1], [1, 7], [1, 7], [1])

    (one,) = foreigners(sightings.all(), {"GPU-a": 0}, {"GPU-a": 1}, host_pids=True)

    assert (one.pid, one.name, one.index, one.first_s, one.last_s, one.used_mib) == (7, "name 7", 0, 2.0, 3.0, 103.0)


def test_one_look_is_not_enough_because_our_own_ranks_leave_the_list_late() -> None:
    assert found(seen(lambda _: "foreign", [], [7], [])) == []


def test_a_rank_of_ours_that_has_just_ended_stays_ours() -> None:
    answers: dict[int, list[Owner]] = {1: ["own", "unknown", "unknown"]}

    assert found(seen(lambda pid: answers[pid].pop(0), [1], [1], [1])) == []


def test_in_a_container_with_other_pids_as_many_as_we_have_ranks_are_ours() -> None:
    ours_then_another = seen(lambda _: "unknown", [], [], [900], [900, 901], [900, 901], [900])

    assert found(ours_then_another, host_pids=False) == [901]
    assert found(ours_then_another, host_pids=False, ranks=2) == []
    assert found(ours_then_another, host_pids=True) == [900, 901]


def test_in_a_container_who_is_there_before_any_rank_could_be_is_foreign() -> None:
    there_before = seen(lambda _: "unknown", [800], [800], [800, 900], [800, 900])

    assert found(there_before, host_pids=False) == [800]


def test_where_one_rank_is_recognised_pids_can_be_trusted_in_a_container_too() -> None:
    sightings = seen(lambda pid: "own" if pid == 1 else "unknown", [1], [1, 900], [1, 900])

    assert found(sightings, host_pids=False, ranks=2) == [900]


def test_descendants_and_carriers_of_the_marker_are_ours_everybody_else_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    # The shell ends at once, so that its sleep belongs to nobody of ours by descent.
    start = "sleep 60 >/dev/null 2>&1 & echo $!"
    orphans = [
        int(subprocess.run(["sh", "-c", start], env=env, capture_output=True, text=True, check=True).stdout)
        for env in ({**os.environ, "INTERLACE_RUN_DIR": "/some/run"}, {**os.environ, "INTERLACE_RUN_DIR": "/another"})
    ]
    try:
        assert [process.owner_of(pid, "/some/run") for pid in (child.pid, *orphans)] == ["own", "own", "foreign"]
        assert process.owner_of(os.getpid(), "") == "own"
    finally:
        for pid in orphans:
            os.kill(pid, 9)
        child.communicate()
    assert process.owner_of(child.pid, "/some/run") == "unknown"


@pytest.mark.skipif(not os.path.exists("/proc/self/ns/pid"), reason="no pid namespaces here")  # noqa: PTH110
def test_the_pid_namespace_is_told() -> None:
    assert process.has_host_pids() == (os.readlink("/proc/self/ns/pid") == process.INITIAL_PID_NAMESPACE)  # noqa: PTH115
