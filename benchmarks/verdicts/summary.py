"""From cells to the rows that people read: one a rule and order. Pure; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.verdicts.arms import order_of
from benchmarks.verdicts.score import POWER_NOISES, REAL, ROUNDS, SIGMAS, pairings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.verdicts.arms import OrderName
    from benchmarks.verdicts.rules import Rule
    from benchmarks.verdicts.score import Cell, Needed

USUAL_SIGMA = 0.005
USUAL_ROUNDS = 4


@dataclass(frozen=True)
class Row:
    """One rule in one order. Tuples of shares run along `ROUNDS`, those of real runs may be shorter or empty.

    `needed` has, for each of `POWER_NOISES`, the rounds needed along `SIGMAS`. `covered` is the least of all cells.
    """

    rule: Rule
    order: OrderName
    refused: bool
    false_quiet: tuple[float, ...]
    false_worst: tuple[float, ...]
    false_real: tuple[float, ...]
    missed_quiet: tuple[float, ...]
    missed_mean: tuple[float, ...]
    missed_real: tuple[float, ...]
    covered: float | None
    needed: tuple[tuple[int | None, ...], ...]

    @property
    def own(self) -> bool:
        """Whether this is the order that the rule's tool or its users make runs in."""
        return self.order == self.rule.own_order


@dataclass(frozen=True)
class Spread:
    """A share under the nine noises at the usual spread and rounds: least, mean and most; and on real runs."""

    least: float
    mean: float
    most: float
    real: float | None


def rows(cells: Sequence[Cell], needed: Sequence[Needed]) -> list[Row]:
    """All rules in all their orders."""
    return [_row(cells, needed, rule, order) for rule, order in pairings()]


def _row(cells: Sequence[Cell], needed: Sequence[Needed], rule: Rule, order: OrderName) -> Row:
    own = [cell for cell in cells if (cell.rule, cell.order) == (rule.key, order)]
    simulated = [cell for cell in own if cell.noise != REAL]

    def along(found: list[Cell], value: Callable[[list[Cell]], float]) -> tuple[float, ...]:
        by_rounds = ([cell for cell in found if cell.rounds == rounds] for rounds in ROUNDS)
        return tuple(value(part) for part in by_rounds if part)

    quiet = [cell for cell in simulated if cell.noise == "independent"]
    usual = [cell for cell in simulated if cell.sigma == USUAL_SIGMA]
    real = [cell for cell in own if cell.noise == REAL]
    fewest = {(one.noise, one.sigma): one.rounds for one in needed if (one.rule, one.order) == (rule.key, order)}
    return Row(
        rule,
        order,
        rule.refuses(order_of(order, USUAL_ROUNDS)),
        along(quiet, _mean_false),
        along(simulated, lambda part: max(cell.false_calls for cell in part)),
        along(real, _mean_false),
        along([cell for cell in usual if cell.noise == "independent"], _mean_missed),
        along(usual, _mean_missed),
        along(real, _mean_missed),
        min((cell.covered for cell in simulated if cell.covered is not None), default=None),
        tuple(tuple(fewest.get((noise, sigma)) for sigma in SIGMAS) for noise in POWER_NOISES),
    )


def _mean_false(part: list[Cell]) -> float:
    return float(np.mean([cell.false_calls for cell in part]))


def _mean_missed(part: list[Cell]) -> float:
    return float(np.mean([cell.missed for cell in part]))


def usual(cells: Sequence[Cell], rule: Rule, order: OrderName) -> list[Cell]:
    """Cells of one rule and order at the usual spread and rounds, one a noise, in the order of the noises."""
    key = (rule.key, order, USUAL_SIGMA, USUAL_ROUNDS)
    return [cell for cell in cells if (cell.rule, cell.order, cell.sigma, cell.rounds) == key]


def spread(cells: Sequence[Cell], rule: Rule, order: OrderName, value: Callable[[Cell], float]) -> Spread:
    """How one share varies over the noises."""
    shares = [value(cell) for cell in usual(cells, rule, order)]
    key = (rule.key, order, REAL, USUAL_ROUNDS)
    real = [value(cell) for cell in cells if (cell.rule, cell.order, cell.noise, cell.rounds) == key]
    return Spread(min(shares), float(np.mean(shares)), max(shares), real[0] if real else None)
