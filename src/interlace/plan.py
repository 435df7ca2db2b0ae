"""The order of every run, fixed before the first one starts. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.errors import UsageError
from interlace.order import order_runs, order_screen
from interlace.schema import Extension, Plan, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.schema import RunRecord, Sweep

FIRST_RUN_GUESS_S = 30.0
"""What a run is thought to take before one has been seen."""


def make_plan(sweep: Sweep) -> Plan:
    """Return the plan of a sweep: one discarded burn-in of the baseline, then rounds in the configured order."""
    config = sweep.config
    arms = measured_arms(sweep)
    if config.order == "screen":
        candidates = [arm for arm in arms if arm != sweep.baseline]
        base_order, turns = order_screen(sweep.baseline, candidates, config.seed)
    else:
        base_order, turns = order_runs(config.order, arms, config.rounds, config.seed)
    burn_in = [(0, sweep.baseline)] if config.burn_in else []
    runs = tuple(Run(index, number, arm) for index, (number, arm) in enumerate([*burn_in, *turns]))
    return Plan(config.order, config.seed, base_order, runs)


def measured_arms(sweep: Sweep) -> list[str]:
    """Return the slugs of the arms that are run; `measure: false` keeps an arm's row and nothing else."""
    return [arm.slug for arm in sweep.arms if arm.measure]


def add_round(plan: Plan, reason: str, repeats: int | None = None) -> Plan:
    """Add one whole round: the next of the mirrored sequence, or a repeat in the order of the round it replaces.

    Raises UsageError for a further round of a screen, which is one round by design.
    """
    if plan.order == "screen" and repeats is None:
        raise UsageError("a screen is one round; measure its best candidates in a sweep of their own (rounds=4)")
    rounds = {run.round for run in plan.runs if run.round > 0}
    number = max(rounds) + 1
    if repeats is not None:
        turn = [run.arm for run in plan.runs if run.round == repeats]
    else:
        place = len(rounds) - sum(one.repeats is not None for one in plan.extensions)
        arms = list(plan.base_order)
        turn = _turn(plan, arms, place)
    first = max(run.index for run in plan.runs) + 1
    runs = tuple(Run(first + offset, number, arm) for offset, arm in enumerate(turn))
    extension = Extension(number, reason, repeats)
    return replace(plan, runs=(*plan.runs, *runs), extensions=(*plan.extensions, extension))


def _turn(plan: Plan, arms: list[str], place: int) -> list[str]:
    """Return the order of round `place` (from 0), counted without repeats."""
    if plan.order == "mirrored":
        return arms if place.bit_count() % 2 == 0 else arms[::-1]
    if plan.order == "sequential":
        return arms
    _, turns = order_runs(plan.order, sorted(arms), place + 1, plan.seed)
    return [arm for number, arm in turns if number == place + 1]


def estimate_left_s(left: int, records: Sequence[RunRecord]) -> float:
    """Estimate the seconds that `left` runs take: each as long as the mean of those that were finished."""
    walls = [record.wall_s + record.gate_wait_s for record in records if record.wall_s > 0]
    return left * (sum(walls) / len(walls) if walls else FIRST_RUN_GUESS_S)
