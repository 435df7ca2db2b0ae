"""Whether a sweep needs another round: broken rounds are repeated once, adaptive sweeps go on. Pure.

The adaptive rule looks at the spread alone. Stopping when something is significant would call a fifth of identical
arms different (docs/statistics.md).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from interlace.plan import add_round
from interlace.stats.interval import t_quantile

if TYPE_CHECKING:
    from interlace.loaded import LoadedSweep
    from interlace.schema import Plan

HOPELESS = 2.0
"""Rounds stop being added when more than this many times the allowed number would be needed."""


def extended(loaded: LoadedSweep) -> Plan:
    """Return the plan with the one round that it needs next, or the plan as it is."""
    plan = loaded.plan
    if plan.order == "screen":
        return plan
    if (broken := repeatable_round(loaded)) is not None:
        arms = sorted(loaded.sweep.names[slug] for slug in _missing(loaded, broken) & _capable(loaded))
        return add_round(plan, f"it repeats round {broken}, which {', '.join(arms)} did not finish undisturbed", broken)
    return _adapted(loaded)


def repeatable_round(loaded: LoadedSweep) -> int | None:
    """Return the first round in which an arm may finish that did not; each at most `repeat_broken_rounds` times.

    An arm that has never finished a run will fail again: no round is repeated for it alone.
    """
    plan = loaded.plan
    times = Counter(_origin(plan, one.repeats) for one in plan.extensions if one.repeats)
    capable = _capable(loaded)
    for number in sorted({run.round for run in plan.runs if run.round > 0} - plan.repeated):
        spent = times[_origin(plan, number)] >= loaded.sweep.config.repeat_broken_rounds
        if _missing(loaded, number) & capable and not spent:
            return number
    return None


def _origin(plan: Plan, number: int) -> int:
    """Return the round of the first plan that this one stands for."""
    repeats = {one.round: one.repeats for one in plan.extensions if one.repeats}
    while number in repeats:
        number = repeats[number]
    return number


def _capable(loaded: LoadedSweep) -> set[str]:
    """Name the arms that have finished a run, or would have but for others on the node."""
    disturbed = (one for one in loaded.records if one.cause is not None and one.cause.code == "foreign")
    return {attempt.run.arm for attempt in loaded.used} | {record.run.arm for record in disturbed}


def _missing(loaded: LoadedSweep, number: int) -> set[str]:
    """Name the arms that did not finish this round."""
    finished = {attempt.run.arm for attempt in loaded.used if attempt.run.round == number}
    return {run.arm for run in loaded.plan.runs if run.round == number} - finished


def _adapted(loaded: LoadedSweep) -> Plan:
    plan, adaptive = loaded.plan, loaded.sweep.config.adaptive
    width = half_width(loaded, len(loaded.analysis.rounds))
    if not adaptive.enabled or width is None or width < adaptive.target_pct / 100.0:
        return plan
    if len(loaded.analysis.rounds) >= adaptive.max_rounds or _is_hopeless(loaded):
        return plan
    return add_round(plan, f"the interval is +-{100 * width:.2g} % wide, {adaptive.target_pct:g} % is asked for")


def half_width(loaded: LoadedSweep, rounds: int) -> float | None:
    """Return the widest half width of a 95 % interval after `rounds` rounds, were they like those so far; None without.

    On the log scale: the standard error falls with the root of the rounds, the degrees of freedom grow with them.
    """
    widths = []
    for one in loaded.analysis.comparisons:
        if one.low is None or one.high is None or one.df is None:
            continue
        se = 0.5 * math.log(one.high / one.low) / t_quantile(one.confidence, one.df)
        df = max(1, one.df * (rounds - 1) // (one.rounds - 1))
        widths.append(t_quantile(0.95, df) * se * math.sqrt(one.rounds / rounds))
    return max(widths, default=None)


def _is_hopeless(loaded: LoadedSweep) -> bool:
    adaptive = loaded.sweep.config.adaptive
    best = half_width(loaded, int(HOPELESS * adaptive.max_rounds))
    return best is None or best >= adaptive.target_pct / 100.0


def stopped_because(loaded: LoadedSweep) -> str | None:
    """Say why an adaptive sweep stopped before it was narrow enough; None where it was, or is not adaptive."""
    adaptive, rounds = loaded.sweep.config.adaptive, len(loaded.analysis.rounds)
    width = half_width(loaded, rounds)
    if not adaptive.enabled or width is None or width < adaptive.target_pct / 100.0:
        return None
    if _is_hopeless(loaded):
        best = 100.0 * (half_width(loaded, adaptive.max_rounds) or width)
        return f"cannot reach {adaptive.target_pct:g} % here; best reachable about {best:.2g} %"
    return f"{rounds} rounds reached +-{100.0 * width:.2g} %, not {adaptive.target_pct:g} % (adaptive.max_rounds)"
