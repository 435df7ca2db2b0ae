"""Flags from clocks, heat and others; arms whose clocks differ."""

from __future__ import annotations

from dataclasses import replace

from interlace.compare.node_flags import SeenRun, differing_clocks, flag_nodes
from interlace.schema import Foreigner, GpuSeen


def gpu(mhz: float | None = 1980.0, index: int = 0, **held: float) -> GpuSeen:
    return GpuSeen(f"GPU-{index}", index, 1000.0, 3.0, None, mhz, 81.0, 500.0, 90.0, held)


def runs(*mhz: float | None, arm: str = "b") -> list[SeenRun]:
    return [SeenRun(arm, number, (gpu(value),)) for number, value in enumerate(mhz, start=1)]


def test_a_run_whose_clock_is_not_its_arms_usual_one_is_flagged() -> None:
    flags = flag_nodes([*runs(1980.0, 1980.0, 1200.0), *runs(1755.0, 1755.0, 1755.0, arm="c")], 50.0)

    assert flags == {(3, "b"): "GPU 0 at 1,200 MHz (else 1,980)"}


def test_gpus_of_several_nodes_are_named_with_their_node() -> None:
    usual, slow = replace(gpu(1980.0), node="n1"), replace(gpu(1200.0), node="n1")
    other = Foreigner(4711, "python", "GPU-0", 0, 1.0, 9.0, node="n1")

    flags = flag_nodes([SeenRun("b", 1, (usual,)), SeenRun("b", 2, (slow,), (other,))], 50.0)

    assert flags == {(2, "b"): "n1 GPU 0 at 1,200 MHz (else 1,980), not alone: pid 4711 (python) on n1 GPU 0"}


def test_of_two_runs_the_lower_clock_and_the_hotter_one_are_unusual() -> None:
    cool, hot = gpu(1900.0), replace(gpu(1200.0), temperature_c=95.0)

    flags = flag_nodes([SeenRun("b", 1, (cool,)), SeenRun("b", 2, (hot,))], 50.0)

    assert flags == {(2, "b"): "GPU 0 at 1,200 MHz (else 1,900), GPU 0 at 95 C (else 81)"}


def test_a_clock_of_zero_is_no_clock() -> None:
    assert flag_nodes(runs(1980.0, 1980.0, 0.0), 50.0) == {}


def test_two_percent_of_a_clock_are_nothing_and_an_unknown_clock_flags_nobody() -> None:
    assert flag_nodes([*runs(1980.0, 1980.0, 1945.0), *runs(None, None, arm="c")], 50.0) == {}


def test_heat_flags_a_run_and_a_power_cap_does_not() -> None:
    hot = SeenRun("b", 1, (gpu(sw_thermal_slowdown=40.0, sw_power_cap=100.0), gpu(index=1, sw_power_cap=100.0)))

    assert flag_nodes([hot], 50.0) == {(1, "b"): "GPU 0 held by sw_thermal_slowdown in 40 % of its time (81 C)"}


def test_others_flag_a_run() -> None:
    other = Foreigner(7, "python", "GPU-5", 5, 2.0, 9.0)
    beside = SeenRun("b", 2, (gpu(),), (other,), 61.0)

    assert flag_nodes([beside], 50.0) == {(2, "b"): "not alone: pid 7 (python) on GPU 5, others used 61 % of the CPUs"}


def test_clocks_that_differ_between_arms_mark_the_comparison_with_the_worst_gpu() -> None:
    base = [SeenRun("a", 1, (gpu(1980.0), gpu(1980.0, 1)))]
    other = [SeenRun("b", 1, (gpu(1960.0), gpu(1755.0, 1)))]

    (note,) = differing_clocks([*base, *other], "a")["b"]
    assert note.startswith("the clock differs: GPU 1 ran at 1,755 MHz, under a at 1,980 (-11.4 %); a part")
    assert differing_clocks([*base, SeenRun("b", 1, (gpu(1960.0), gpu(1975.0, 1)))], "a") == {}


def test_what_holds_clocks_down_in_one_arm_only_is_said() -> None:
    seen = [SeenRun("a", 1, (gpu(sw_power_cap=5.0),)), SeenRun("b", 1, (gpu(sw_power_cap=95.0),))]

    assert differing_clocks(seen, "a")["b"] == (
        "clocks were held down otherwise: sw_power_cap in 95 % of the time at work (under a 5 %)",
    )
