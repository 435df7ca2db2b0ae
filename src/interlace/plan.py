"""The order of every run, fixed before the first one starts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.order import order_runs
from interlace.schema import Plan, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.schema import RunRecord, Sweep

FIRST_RUN_GUESS_S = 30.0
"""What a run is thought to take before one has been seen."""


def make_plan(sweep: Sweep) -> Plan:
    """Return the plan of a sweep: one discarded burn-in of the baseline, then rounds in the configured order."""
    config = sweep.config
    base_order, turns = order_runs(config.order, [arm.slug for arm in sweep.arms], config.rounds, config.seed)
    burn_in = [(0, sweep.baseline)] if config.burn_in else []
    runs = tuple(Run(index, number, arm) for index, (number, arm) in enumerate([*burn_in, *turns]))
    return Plan(config.order, config.seed, base_order, runs)


def estimate_left_s(left: int, records: Sequence[RunRecord]) -> float:
    """Estimate the seconds that `left` runs take: each as long as the mean of those that were finished."""
    walls = [record.wall_s + record.gate_wait_s for record in records if record.wall_s > 0]
    return left * (sum(walls) / len(walls) if walls else FIRST_RUN_GUESS_S)
