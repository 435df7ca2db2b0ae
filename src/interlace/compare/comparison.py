"""Comparing candidates over one table of complete rounds: where estimates become evidence and verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from interlace.compare.verdict import Evidence, judge
from interlace.stats.interval import Estimate, estimate, noise_floor, rounds_needed
from interlace.stats.multiple import holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from interlace.compare.rounds import CompleteRounds
    from interlace.schema import Verdict

    Floats = NDArray[np.float64]

ONE_ROUND = "one complete round only; runs of one arm differ too, and one round does not show by how much"
NO_ROUND = "no round has a finished run of every compared arm"
MANY_CANDIDATES = 3
"""From this many candidates on, those that are not worth having are listed by themselves."""

NO_WIDTH = 1e-12
"""An interval narrower than this is float noise of logarithms: no spread was seen."""
NO_SPREAD = "every round gave exactly the same ratio; the recorded times are too coarse to show any noise"


@dataclass(frozen=True)
class Comparison:
    """What is known of one candidate. Ratios are candidate / baseline time: 0.9 is 10 % less time per step.

    `low` and `high` bound the interval at `confidence`, None without one. `noise_floor` and `resolution` are
    relative. `p_holm` is given where several candidates are judged together. `round_ratios` are in round
    order.
    """

    arm: str
    baseline: str
    verdict: Verdict
    sentence: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    rounds: int = 0
    round_ratios: tuple[float, ...] = ()
    rounds_faster: int = 0
    provisional: bool = False
    method: str | None = None
    df: int | None = None
    p_value: float | None = None
    p_holm: float | None = None
    noise_floor: float | None = None
    noise_floor_source: str | None = None
    resolution: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def speedup(self) -> float | None:
        """Baseline / candidate time, as people quote it: 1.18 is "1.18x"."""
        return None if self.ratio is None else 1.0 / self.ratio


@dataclass(frozen=True)
class Rules:
    """How sure a verdict must be, and what forbids or qualifies one; tuples have one entry a candidate."""

    confidence: float
    margin: float
    aa_log_s: Floats | None
    resolution: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    small_spread: bool = False


def spread(log_s: Floats) -> float:
    """Return the standard deviation of the per-round log ratios, the widest over candidates."""
    return float((log_s[:, 1:] - log_s[:, :1]).std(axis=0, ddof=1).max()) if log_s.shape[1] > 1 else math.inf


def compared(table: CompleteRounds, rules: Rules) -> list[Comparison]:
    """Compare all candidates that take part, without remarks."""
    if len(table.arms) < 2:  # noqa: PLR2004 (a baseline alone)
        return []
    if not table.rounds:
        return [
            _without_rounds(table, arm, reason or NO_ROUND)
            for arm, reason in zip(table.arms[1:], rules.reasons, strict=True)
        ]
    found = estimate(table.log_stat, aa_log_s=rules.aa_log_s)
    floor = noise_floor(table.log_stat, rules.confidence, rules.aa_log_s)
    p = found.p_value()
    adjusted = holm(p) if p is not None and p.size > 1 else None
    made = []
    for k in range(len(table.arms) - 1):
        evidence = _evidence(table, rules, found, k)
        if adjusted is not None:
            evidence = replace(evidence, p_holm=float(adjusted[k]))
        one = _comparison(table, evidence, k)
        # A log that shows no spread shows no noise either: its floor would be a promise.
        coarse = rules.reasons[k] is not None and rules.resolution[k] is None
        seen = _floor_of(found, k, rules) or floor
        hidden = coarse or seen is None or seen[0] < NO_WIDTH
        made.append(
            replace(
                one,
                method=found.method_of(k),
                df=int(found.df[k]) or None,
                p_value=None if p is None else float(p[k]),
                noise_floor=None if seen is None or hidden else max(seen[0], evidence.resolution),
                noise_floor_source=None if seen is None or hidden else seen[1],
                resolution=rules.resolution[k],
            )
        )
    return made


def _floor_of(found: Estimate, k: int, rules: Rules) -> tuple[float, str] | None:
    """Noise floor of a candidate that is judged by its own rounds, and where it is from; None for the others."""
    half = found.half_width(rules.confidence)
    if half is None or not found.own_rounds[k]:
        return None
    return math.expm1(float(half[k])), f"own rounds with the baseline, df {found.df[k]}"


def _without_rounds(table: CompleteRounds, arm: str, reason: str) -> Comparison:
    verdict, sentence = judge(Evidence(ratio=None, reason=reason))
    return Comparison(arm, table.arms[0], verdict, sentence, None)


def _evidence(table: CompleteRounds, rules: Rules, found: Estimate, k: int) -> Evidence:
    """Gather what the verdict on candidate `k` rests on."""
    differences = table.log_stat[:, k + 1] - table.log_stat[:, 0]
    effect, rounds = float(found.effect[k]), len(differences)
    half, reason = _half_width(found, k, rules)
    return Evidence(
        ratio=math.exp(effect),
        low=None if half is None else math.exp(effect - half),
        high=None if half is None else math.exp(effect + half),
        confidence=rules.confidence,
        rounds=rounds,
        rounds_faster=int((differences < 0).sum()),
        rounds_slower=int((differences > 0).sum()),
        resolution=rules.resolution[k] or 0.0,
        margin=rules.margin,
        # Four arms and more have three degrees of freedom from two rounds: a full citizen (methodology 4.1).
        provisional=rounds == 2 and len(table.arms) < 4,  # noqa: PLR2004
        candidates=len(table.arms) - 1,
        rounds_needed=_needed(found, k, table, rules),
        small_spread=rules.small_spread,
        reason=reason,
        spread=log_range(differences) if rounds > 1 else None,
    )


def _comparison(table: CompleteRounds, evidence: Evidence, k: int) -> Comparison:
    """Judge candidate `k`; an interval is shown only beside a verdict."""
    verdict, sentence = judge(evidence)
    judged = verdict != "not judged"
    return Comparison(
        arm=table.arms[k + 1],
        baseline=table.arms[0],
        verdict=verdict,
        sentence=sentence,
        ratio=evidence.ratio,
        low=evidence.low if judged else None,
        high=evidence.high if judged else None,
        confidence=evidence.confidence,
        rounds=evidence.rounds,
        round_ratios=tuple(float(ratio) for ratio in np.exp(table.log_stat[:, k + 1] - table.log_stat[:, 0])),
        rounds_faster=evidence.rounds_faster,
        provisional=evidence.provisional and judged,
        p_holm=evidence.p_holm,
    )


def _half_width(found: Estimate, k: int, rules: Rules) -> tuple[float | None, str | None]:
    """Half width of one candidate, and why it may not be used. No spread at all is not certainty."""
    reason = rules.reasons[k]
    widths = found.half_width(rules.confidence)
    if widths is None:
        return None, reason or ONE_ROUND
    half = float(widths[k])
    return half, reason or (NO_SPREAD if half < NO_WIDTH else None)


def _needed(found: Estimate, k: int, table: CompleteRounds, rules: Rules) -> int | None:
    if found.s_run is None:
        return None
    s_run, arms, rounds = float(found.s_run[k]), len(table.arms), len(table.rounds)
    if arms > 2:  # noqa: PLR2004
        arms = 1 + int(found.df[k]) // (rounds - 1)  # those whose spread this is
    elif rounds > 2:  # noqa: PLR2004 (4.5 takes the spread of the ratios; two show none)
        s_run = spread(table.log_stat) / math.sqrt(2.0)
    return rounds_needed(s_run, rules.margin, arms, rules.confidence)


def log_range(logs: Floats) -> tuple[float, float]:
    """Return the smallest and the largest ratio of an array of log ratios."""
    return math.exp(float(logs.min())), math.exp(float(logs.max()))


def rejected(candidates: Sequence[Comparison]) -> tuple[str, ...]:
    """Name the settings that were measured and are not worth having: only where there were several to choose from."""
    if len(candidates) < MANY_CANDIDATES:
        return ()
    return tuple(one.arm for one in candidates if one.verdict in ("within noise", "slower"))
