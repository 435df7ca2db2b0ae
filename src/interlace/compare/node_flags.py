"""What the monitor saw of the node, run by run: what flags a run, and what differs between arms. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.schema import gpu_name
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlace.schema import Foreigner, GpuSeen

CLOCK_APART = 0.02
"""A clock this far from its arm's usual one explains as much of a step time."""

SERIOUS = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
"""What holds a clock down because something is wrong; a power cap is everyday life of a loaded GPU."""

FEWEST = 3
"""From so many runs on a median tells what is usual."""

HOTTER_C = 10.0
"""Hotter than usual by this much is another node: a fan, the neighbours, the room."""

SERIOUS_PCT = 5.0
APART_PCT = 10.0
SHOWN = 3


@dataclass(frozen=True)
class SeenRun:
    """What the monitor saw of one run that counts; `others_cpu_pct` is the load that was not ours."""

    arm: str
    round: int
    gpus: tuple[GpuSeen, ...]
    foreign: tuple[Foreigner, ...] = ()
    others_cpu_pct: float | None = None


def flag_nodes(runs: Sequence[SeenRun], cpu_limit_pct: float) -> dict[tuple[int, str], str]:
    """Return (round, arm) -> why the node was unusual during that run: clock, heat, others (methodology 4.7)."""
    clocks, heat = _usual_clocks(runs), _usual_heat(runs)
    found = {
        (run.round, run.arm): [
            *_clock_reasons(run, clocks),
            *_heat_reasons(run, heat),
            *_held_reasons(run),
            *_other_reasons(run, cpu_limit_pct),
        ]
        for run in runs
    }
    return {key: ", ".join(reasons) for key, reasons in found.items() if reasons}


def differing_clocks(runs: Sequence[SeenRun], baseline: str) -> dict[str, tuple[str, ...]]:
    """Return, by arm, in what its GPUs ran otherwise than the baseline's: clocks, and what held them down."""
    clocks, held = _usual_clocks(runs), _usual_holds(runs)
    arms = dict.fromkeys(run.arm for run in runs if run.arm != baseline)
    found = {arm: (*_clock_note(clocks, arm, baseline), *_hold_note(held, arm, baseline)) for arm in arms}
    return {arm: notes for arm, notes in found.items() if notes}


def _usual_clocks(runs: Sequence[SeenRun]) -> dict[tuple[str, str], tuple[str, float]]:
    """Return (arm, GPU UUID) -> its name and the usual SM clock (MHz) of the arm's runs.

    The median; of one or two runs the highest, since what is wrong with a clock makes it low.
    """
    clocks = _by_gpu(runs, lambda gpu: gpu.sm_clock_mhz or None)
    names = {gpu.uuid: gpu_name(gpu) for run in runs for gpu in run.gpus}
    return {key: (names[key[1]], _usual(values, max)) for key, values in clocks.items()}


def _usual_heat(runs: Sequence[SeenRun]) -> dict[tuple[str, str], float]:
    """Return (arm, GPU UUID) -> the usual highest temperature (C); of one or two runs the lower one."""
    heat = _by_gpu(runs, lambda gpu: gpu.temperature_c)
    return {key: _usual(values, min) for key, values in heat.items()}


def _by_gpu(runs: Sequence[SeenRun], value_of: Callable[[GpuSeen], float | None]) -> dict[tuple[str, str], list[float]]:
    """Return (arm, GPU UUID) -> the known values of the arm's runs."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for gpu in run.gpus:
            if (value := value_of(gpu)) is not None:
                found.setdefault((run.arm, gpu.uuid), []).append(value)
    return found


def _usual(values: Sequence[float], healthy: Callable[[Sequence[float]], float]) -> float:
    """Return the median; of too few values the one of a healthy node."""
    return statistics.median(values) if len(values) >= FEWEST else healthy(values)


def _usual_holds(runs: Sequence[SeenRun]) -> dict[str, dict[str, float]]:
    """Return arm -> reason -> the share (%) of samples in which it held a clock, over busy GPUs and runs."""
    held: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        held.setdefault(run.arm, []).extend(gpu.held_pct for gpu in run.gpus if gpu.sm_clock_mhz is not None)
    return {
        arm: {
            reason: statistics.mean(one.get(reason, 0.0) for one in shares)
            for reason in {reason for one in shares for reason in one}
        }
        for arm, shares in held.items()
    }


def _clock_reasons(run: SeenRun, usual: Mapping[tuple[str, str], tuple[str, float]]) -> list[str]:
    apart = [
        f"{gpu_name(gpu)} at {gpu.sm_clock_mhz:,.0f} MHz (else {usual[run.arm, gpu.uuid][1]:,.0f})"
        for gpu in run.gpus
        if gpu.sm_clock_mhz and abs(gpu.sm_clock_mhz / usual[run.arm, gpu.uuid][1] - 1.0) > CLOCK_APART
    ]
    return [first_of(apart, SHOWN)] if apart else []


def _heat_reasons(run: SeenRun, usual: Mapping[tuple[str, str], float]) -> list[str]:
    hot = [
        f"{gpu_name(gpu)} at {gpu.temperature_c:.0f} C (else {usual[run.arm, gpu.uuid]:.0f})"
        for gpu in run.gpus
        if gpu.temperature_c is not None and gpu.temperature_c > usual[run.arm, gpu.uuid] + HOTTER_C
    ]
    return [first_of(hot, SHOWN)] if hot else []


def _held_reasons(run: SeenRun) -> list[str]:
    held = [
        f"{gpu_name(gpu)} held by {reason} in {share:.0f} % of its time{_heat(gpu)}"
        for gpu in run.gpus
        for reason, share in gpu.held_pct.items()
        if reason in SERIOUS and share > SERIOUS_PCT
    ]
    return [first_of(held, SHOWN)] if held else []


def _heat(gpu: GpuSeen) -> str:
    return "" if gpu.temperature_c is None else f" ({gpu.temperature_c:.0f} C)"


def _other_reasons(run: SeenRun, cpu_limit_pct: float) -> list[str]:
    reasons = []
    if run.foreign:
        who = [f"pid {one.pid} ({one.name or 'name unknown'}) on {gpu_name(one)}" for one in run.foreign]
        reasons.append(f"not alone: {first_of(who, SHOWN)}")
    if run.others_cpu_pct is not None and run.others_cpu_pct > cpu_limit_pct:
        reasons.append(f"others used {run.others_cpu_pct:.0f} % of the CPUs")
    return reasons


def _clock_note(clocks: Mapping[tuple[str, str], tuple[str, float]], arm: str, baseline: str) -> tuple[str, ...]:
    """Name the GPU whose clock differs most between two arms, where that is more than the limit."""
    apart = [
        (mhz / clocks[baseline, uuid][1] - 1.0, gpu, mhz, clocks[baseline, uuid][1])
        for (name, uuid), (gpu, mhz) in clocks.items()
        if name == arm and (baseline, uuid) in clocks
    ]
    if not apart:
        return ()
    change, gpu, mhz, base_mhz = max(apart, key=lambda one: abs(one[0]))
    if abs(change) <= CLOCK_APART:
        return ()
    clock = f"{gpu} ran at {mhz:,.0f} MHz, under {baseline} at {base_mhz:,.0f} ({100.0 * change:+.1f} %)"
    return (f"the clock differs: {clock}; a part of the ratio may be the clock's",)


def _hold_note(held: Mapping[str, Mapping[str, float]], arm: str, baseline: str) -> tuple[str, ...]:
    own, base = held.get(arm, {}), held.get(baseline, {})
    apart = [
        f"{reason} in {own.get(reason, 0.0):.0f} % of the time at work (under {baseline} {base.get(reason, 0.0):.0f} %)"
        for reason in sorted({*own, *base})
        if abs(own.get(reason, 0.0) - base.get(reason, 0.0)) > APART_PCT
    ]
    return (f"clocks were held down otherwise: {'; '.join(apart)}",) if apart else ()
