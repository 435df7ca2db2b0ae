"""What the samples of a run come to."""

from __future__ import annotations

import math
from typing import Any

import pytest

from interlace.monitor.readings import Gpu
from interlace.monitor.seen import gpus_seen

NAN = math.nan


def columns(*rows: tuple[str | None, float, float, float, float, float, float]) -> Any:
    """One row a sample: UUID, memory, utilisation, clock, temperature, power, throttle mask."""
    names = ("uuid", "memory_used_mib", "utilization_pct", "sm_clock_mhz", "temperature_c", "power_w", "throttle")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def test_clock_power_and_brakes_are_those_of_a_gpu_at_work() -> None:
    (seen,) = gpus_seen(
        [Gpu(3, "GPU-a")],
        {"GPU-a": 517.0},
        columns(
            ("GPU-a", 517.0, 0.0, 345.0, 35.0, 70.0, 1.0),
            (None, NAN, NAN, NAN, NAN, NAN, NAN),
            ("GPU-a", 9000.0, 98.0, 1980.0, 60.0, 500.0, 4.0),
            ("GPU-a", 9100.0, 99.0, 1950.0, 71.0, 600.0, 36.0),
        ),
    )

    assert (seen.index, seen.peak_mib, seen.baseline_mib) == (3, 9100.0, 517.0)
    assert (seen.sm_clock_mhz, seen.temperature_c, seen.power_w) == (1965.0, 71.0, 550.0)
    assert seen.busy_pct == pytest.approx(200 / 3)
    assert seen.held_pct == {"sw_power_cap": 100.0, "sw_thermal_slowdown": 50.0}


def test_a_gpu_that_does_not_tell_its_load_is_at_work_unless_its_mask_says_idle() -> None:
    (seen,) = gpus_seen(
        [Gpu(0, "GPU-a")],
        {},
        columns(
            ("GPU-a", NAN, NAN, 345.0, 35.0, 70.0, 1.0),
            ("GPU-a", NAN, NAN, 1980.0, 60.0, 500.0, 0.0),
            ("GPU-a", NAN, NAN, 1980.0, 60.0, 500.0, 64.0),
        ),
    )

    assert (seen.sm_clock_mhz, seen.power_w, seen.busy_pct) == (1980.0, 500.0, None)
    assert seen.held_pct == {"hw_thermal_slowdown": 50.0}


def test_a_gpu_that_never_worked_has_no_clock_and_one_without_values_has_none_at_all() -> None:
    idle, unreadable = gpus_seen(
        [Gpu(0, "GPU-a"), Gpu(1, "GPU-b")],
        {},
        columns(
            ("GPU-a", 3.0, 0.0, 345.0, 30.0, 70.0, 1.0),
            ("GPU-b", NAN, NAN, NAN, NAN, NAN, NAN),
        ),
    )

    assert (idle.sm_clock_mhz, idle.power_w, idle.busy_pct, idle.held_pct) == (None, None, 0.0, {})
    assert (unreadable.peak_mib, unreadable.temperature_c, unreadable.busy_pct) == (None, None, None)
    assert unreadable.reason == "memory was never readable during the run"
