"""Verdicts and their wording: the only place that turns an interval into words (methodology 4.5).

Verdicts are "faster", "slower", "within noise" and "not judged". No wording here claims that nothing differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlace.schema import Verdict

SMALL_SPREAD = "spread unusually small, confirm"
LEAST_P = 0.0001


@dataclass(frozen=True)
class Evidence:
    """All that a verdict rests on. Ratios are candidate / baseline time, below 1 is faster.

    `low` and `high` bound the interval, None without one. `resolution` and `margin` are relative: the
    smallest effect that the log can show, and the largest that does not matter. `p_holm` is given where
    several candidates are judged together. `rounds_needed` would bring the half width under `margin`.
    `reason` forbids a verdict; `spread` is then the range of ratios to show.
    """

    ratio: float | None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    rounds: int = 0
    rounds_faster: int = 0
    rounds_slower: int = 0
    resolution: float = 0.0
    margin: float = 0.01
    provisional: bool = False
    candidates: int = 1
    p_holm: float | None = None
    rounds_needed: int | None = None
    small_spread: bool = False
    reason: str | None = None
    spread: tuple[float, float] | None = None


def judge(evidence: Evidence) -> tuple[Verdict, str]:
    """Verdict and its sentence."""
    if evidence.reason is not None or evidence.ratio is None or evidence.low is None or evidence.high is None:
        return "not judged", _not_judged(evidence)
    verdict = _verdict(evidence.ratio, evidence.low, evidence.high, evidence)
    if verdict == "within noise":
        sentence = _within_noise(evidence.ratio, evidence.low, evidence.high, evidence)
    else:
        sentence = _effect(verdict, evidence.ratio, evidence.low, evidence.high, evidence)
    if evidence.provisional:
        sentence += f"; provisional ({evidence.rounds} rounds)"
    if verdict == "faster" and evidence.small_spread:
        sentence += f"; {SMALL_SPREAD}"
    return verdict, sentence


def percent(ratio: float, decimals: int) -> str:
    """Write a ratio as a signed change: 0.979 is "-2.1"."""
    text = f"{100.0 * (ratio - 1.0):+.{decimals}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def decimals_for(low: float, high: float) -> int:
    """Decimals of a percentage that show the interval: one, more where its half width is under 0.1 %."""
    half_pct = 50.0 * (high - low)
    if half_pct <= 0:
        return 1
    return min(4, max(1, math.ceil(-math.log10(half_pct))))


def _verdict(ratio: float, low: float, high: float, evidence: Evidence) -> Verdict:
    """Apply rule 1 of 4.5; several candidates are judged by their Holm-adjusted p (4.11)."""
    adjusted = evidence.p_holm is not None and evidence.p_holm >= 1.0 - evidence.confidence
    if not adjusted and high < 1.0 and 1.0 - ratio > evidence.resolution:
        return "faster"
    if not adjusted and low > 1.0 and ratio - 1.0 > evidence.resolution:
        return "slower"
    return "within noise"


def _effect(verdict: Verdict, ratio: float, low: float, high: float, evidence: Evidence) -> str:
    faster = verdict == "faster"
    word, agreeing = ("less", evidence.rounds_faster) if faster else ("more", evidence.rounds_slower)
    sizes = (1.0 - ratio, 1.0 - high, 1.0 - low) if faster else (ratio - 1.0, low - 1.0, high - 1.0)
    places = decimals_for(low, high)
    while places < 4 and float(f"{100.0 * sizes[1]:.{places}f}") == 0:  # noqa: PLR2004 (0.0 looks not excluded)
        places += 1
    effect, least, most = (f"{100.0 * size:.{places}f}" for size in sizes)
    joint = ""
    if evidence.candidates > 1:
        p = "" if evidence.p_holm is None else f"Holm p {_p_text(evidence.p_holm)}, "
        joint = f"; {p}adjusted for {evidence.candidates} candidates"
    alone = " unadjusted" if evidence.candidates > 1 else ""
    return (
        f"{verdict}: {effect} % {word} time per step ({_level(evidence)} interval {least} to {most} %{alone}, "
        f"{evidence.rounds} rounds, {agreeing} of {evidence.rounds} {verdict}{joint})"
    )


def _within_noise(ratio: float, low: float, high: float, evidence: Evidence) -> str:
    places = decimals_for(low, high)
    change, least, most = (percent(value, places) for value in (ratio, low, high))
    head = f"within noise: {change} % ({least} to {most})"
    if not low <= 1.0 <= high:
        head += _why_not(ratio, evidence)
    margin = f"{100.0 * evidence.margin:g} %"
    if low > 1.0 / (1.0 + evidence.margin) and high < 1.0 + evidence.margin:
        return f"{head}; a change over {margin} is excluded"
    sides = []
    if low < 1.0:
        sides.append(f"{100.0 * (1.0 - low):.{places}f} % faster")
    if high > 1.0:
        sides.append(f"{100.0 * (high - 1.0):.{places}f} % slower")
    tail = f"; up to {' or '.join(sides)} is not excluded"
    return head + tail + _more_rounds(evidence, margin)


def _why_not(ratio: float, evidence: Evidence) -> str:
    if abs(ratio - 1.0) <= evidence.resolution:
        return f", under the {100.0 * evidence.resolution:.2g} % that the log can resolve"
    return f", not enough once adjusted for {evidence.candidates} candidates (Holm p {_p_text(evidence.p_holm or 0.0)})"


def _more_rounds(evidence: Evidence, margin: str) -> str:
    needed = evidence.rounds_needed
    if needed is None:
        return f"; more than 1000 rounds would be needed to resolve {margin}"
    return f"; about {needed} rounds would resolve {margin}" if needed > evidence.rounds else ""


def _not_judged(evidence: Evidence) -> str:
    sentence = f"not judged: {evidence.reason or 'there is no interval'}"
    if evidence.ratio is None:
        return sentence
    seen = f"{percent(evidence.ratio, 1)} %"
    if evidence.spread is not None:
        seen += f", range {percent(evidence.spread[0], 1)} to {percent(evidence.spread[1], 1)} %"
    return f"{sentence} (seen: {seen})"


def _level(evidence: Evidence) -> str:
    return f"{100.0 * evidence.confidence:g} %"


def _p_text(p: float) -> str:
    """Write `= 0.0048`, or `< 0.0001`: with the tails of a t distribution nobody vouches for more."""
    return f"= {p:.2g}" if p >= LEAST_P else f"< {LEAST_P}"
