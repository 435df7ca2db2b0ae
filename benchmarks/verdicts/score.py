"""Counting: false calls on identical arms, missed effects, coverage, and the rounds that a rule needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.verdicts.arms import order_of, split
from benchmarks.verdicts.noise import NOISES, draw, sweeps_of
from benchmarks.verdicts.real import sweeps_of_group
from benchmarks.verdicts.rules import RULES, Calls, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.verdicts.arms import OrderName, Runs
    from benchmarks.verdicts.noise import Draws

ROUNDS = (2, 3, 4, 8)
SIGMAS = (0.002, 0.005, 0.01)
EFFECT = 0.98
"""The candidate takes 2 % less time."""
POWER = 0.95
POWER_NOISES = ("independent", "drift 1 %", "drift 3 %")
REAL = "real"


@dataclass(frozen=True)
class Effort:
    """How many sweeps are simulated, and up to how many rounds."""

    sweeps: int = 2000
    power_sweeps: int = 1000
    most_rounds: int = 30
    batch: int = 500


@dataclass(frozen=True)
class Cell:
    """One rule under one noise, as shares of sweeps.

    `false_calls`: called though identical. `missed`: not called faster though 2 % faster; `wrong_way`: even called
    slower. `covered`: intervals that hold the true effect, None without an interval. For real runs `sigma` is None
    and `sweeps` counts groups.
    """

    noise: str
    sigma: float | None
    rounds: int
    rule: str
    order: OrderName
    sweeps: int
    false_calls: float
    missed: float
    wrong_way: float
    covered: float | None


@dataclass(frozen=True)
class Needed:
    """Fewest rounds with which a rule finds a 2 % effect in 95 % of the sweeps; None: not within the most tried."""

    noise: str
    sigma: float
    rule: str
    order: OrderName
    rounds: int | None


def pairings() -> list[tuple[Rule, OrderName]]:
    """Every rule in its own order and in mirrored order; ours also in those it refuses or warns of."""
    found: list[tuple[Rule, OrderName]] = []
    for rule in RULES:
        orders: list[OrderName] = [rule.own_order, "mirrored"]
        if rule.key == "interlace":
            orders = ["mirrored", "ABBA", "ABAB", "sequential"]
        found.extend((rule, order) for order in dict.fromkeys(orders))
    return found


def cells(runs: Runs, rounds: int, noise: str, sigma: float | None) -> list[Cell]:
    """Judge sweeps of runs in the order of time by every rule in its orders."""
    made = []
    for name in dict.fromkeys(order for _, order in pairings()):
        order = order_of(name, rounds)
        baseline, candidate = split(runs, order)
        faster = candidate.times(EFFECT)
        for rule in (rule for rule, used in pairings() if used == name):
            if rule.refuses(order):
                shares: tuple[float, float, float, float | None] = (0.0, 1.0, 0.0, None)
            else:
                shares = _shares(rule.call(baseline, candidate), rule.call(baseline, faster))
            made.append(Cell(noise, sigma, rounds, rule.key, name, len(runs.run_s), *shares))
    return made


def _shares(same: Calls, faster: Calls) -> tuple[float, float, float, float | None]:
    covered = None
    if faster.low is not None and faster.high is not None:
        truth = math.log(EFFECT)
        covered = float(((faster.low <= truth) & (truth <= faster.high)).mean())
    return (
        float((same.sign != 0).mean()),
        float((faster.sign != -1).mean()),
        float((faster.sign == 1).mean()),
        covered,
    )


def simulated(effort: Effort) -> Iterator[Cell]:
    """Cells of all noises, spreads and rounds, from seeds of their own."""
    for rounds in ROUNDS:
        parts = []
        for batch in range(max(1, effort.sweeps // effort.batch)):
            rng = np.random.default_rng([rounds, batch])
            draws = draw(rng, min(effort.sweeps, effort.batch), 2 * rounds)
            parts.append(
                [
                    cell
                    for noise in NOISES
                    for sigma in SIGMAS
                    for cell in cells(sweeps_of(draws, noise, sigma), rounds, noise, sigma)
                ]
            )
        for same in zip(*parts, strict=True):
            yield average(list(same), sum(cell.sweeps for cell in same))


def measured(groups: Mapping[str, list[Runs]]) -> Iterator[Cell]:
    """Cells of real runs; groups weigh the same, whatever their number of windows."""
    for rounds in ROUNDS:
        parts = [
            cells(sweeps, rounds, REAL, None)
            for group in groups.values()
            if (sweeps := sweeps_of_group(group, 2 * rounds)) is not None
        ]
        for same in zip(*parts, strict=True):
            yield average(list(same), len(same))


def average(same: list[Cell], sweeps: int) -> Cell:
    """Mean of cells that differ in their sweeps only."""
    covered = [cell.covered for cell in same if cell.covered is not None]
    one = same[0]
    return Cell(
        one.noise,
        one.sigma,
        one.rounds,
        one.rule,
        one.order,
        sweeps,
        float(np.mean([cell.false_calls for cell in same])),
        float(np.mean([cell.missed for cell in same])),
        float(np.mean([cell.wrong_way for cell in same])),
        float(np.mean(covered)) if covered else None,
    )


def rounds_needed(effort: Effort) -> Iterator[Needed]:
    """Search upwards from two rounds, over the same random numbers for all rules."""
    draws = draw(np.random.default_rng(0), effort.power_sweeps, 2 * effort.most_rounds)
    for noise in POWER_NOISES:
        for sigma in SIGMAS:
            yield from _searched(draws, noise, sigma, effort.most_rounds)


def _searched(draws: Draws, noise: str, sigma: float, most: int) -> list[Needed]:
    found: dict[tuple[str, OrderName], int] = {}
    for rounds in range(2, most + 1):
        left = [(rule, name) for rule, name in pairings() if (rule.key, name) not in found]
        runs = sweeps_of(draws.first(2 * rounds), noise, sigma)
        for name in dict.fromkeys(name for _, name in left):
            order = order_of(name, rounds)
            baseline, candidate = split(runs, order)
            faster = candidate.times(EFFECT)
            for rule in (rule for rule, used in left if used == name and not rule.refuses(order)):
                if (rule.call(baseline, faster).sign == -1).mean() >= POWER:
                    found[rule.key, name] = rounds
    return [Needed(noise, sigma, rule.key, name, found.get((rule.key, name))) for rule, name in pairings()]
