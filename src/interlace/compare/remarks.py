"""Notes beside a verdict: what qualifies it, in one line each. Computes little; decides no verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.compare.verdict import decimals_for, percent
from interlace.stats.alike import FEWEST_ROUNDS, alike
from interlace.stats.interval import estimate, residual_variance, sign_flip_p, signed_rank_interval, t_quantile
from interlace.stats.multiple import expected_best

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from interlace.compare.rounds import CompleteRounds
    from interlace.schema import Verdict
    from interlace.stats.drift import Drift
    from interlace.stats.flags import Flag

    Floats = NDArray[np.float64]

LEAST_DRIFT = 0.005
HIGH_LAG1 = 0.5
MANY_ROUNDS = 6
COARSE = 0.002
MANY_CANDIDATES = 3
SHOWN_FLAGS = 6


def candidate(
    judged: tuple[Verdict, float | None, float | None],
    differences: Floats,
    confidence: float,
    *,
    means: tuple[Verdict, str, str] | None,
    unflagged: str | None,
    drift: Drift | None,
    arm_index: int,
    flagged: bool,
) -> tuple[str, ...]:
    """Write the notes on one candidate: stalls, flagged rounds, drift, exact tests from six rounds on.

    `judged` is verdict, low, high; `differences` are the log ratios by round; `means` (with why it may say something
    else) and `unflagged` are the same comparison from plain means and without flagged rounds.
    """
    verdict, low, high = judged
    notes = []
    if means is not None and means[0] not in (verdict, "not judged"):
        notes.append(f"plain means of all steps say {means[1]}: {means[2]}")
    if unflagged is not None:
        notes.append(f"without flagged rounds: {unflagged}")
    if drift is not None and low is not None and high is not None:
        half = 0.5 * math.log(high / low)
        if abs(drift.total) > max(half, drift.half):
            notes.append(_adjusted(drift, arm_index))
    if len(differences) >= MANY_ROUNDS:
        notes.extend(_exact(differences, confidence, flagged=flagged))
    return tuple(notes)


def _adjusted(drift: Drift, arm_index: int) -> str:
    effect, half = drift.effects[arm_index], drift.effect_halves[arm_index]
    low, high = math.exp(effect - half), math.exp(effect + half)
    places = decimals_for(low, high)
    return (
        f"drift-adjusted (arm + linear time): {percent(math.exp(effect), places)} % "
        f"({percent(low, places)} to {percent(high, places)})"
    )


def _exact(differences: Floats, confidence: float, *, flagged: bool) -> list[str]:
    notes = []
    p = sign_flip_p(differences)
    if p is not None:
        notes.append(f"sign-flip p = {p:.2g}")
    ranked = signed_rank_interval(differences, confidence) if flagged else None
    if ranked is not None:
        middle, low, high = (math.exp(value) for value in ranked)
        places = decimals_for(low, high)
        notes.append(
            f"signed-rank interval, from the ranks of the rounds alone: {percent(middle, places)} % "
            f"({percent(low, places)} to {percent(high, places)})"
        )
    return notes


def common(
    runs: pd.DataFrame,
    table: CompleteRounds,
    *,
    drift: Drift | None,
    flags: list[Flag],
    s_run: float | None,
) -> tuple[str, ...]:
    """Write the notes on the experiment as a whole. `runs` may hold the burn-in (round 0)."""
    notes = [*_flag_notes(table, flags), *_drift_notes(table, drift, s_run), *_coarse_notes(runs)]
    notes.extend(_burn_in_notes(runs, table, s_run))
    notes.extend(_unlike_notes(table))
    candidates = len(table.arms) - 1
    if candidates >= MANY_CANDIDATES and s_run is not None:
        of_all = math.sqrt(float(residual_variance(table.log_stat)[0]))  # whoever varies most is the likeliest best
        best = 100.0 * expected_best(candidates, of_all, len(table.rounds))
        notes.append(f"with no real effect the best of {candidates} is expected to look about {best:.2g} % faster")
    return tuple(notes)


def _unlike_notes(table: CompleteRounds) -> list[str]:
    """Name the arms whose runs do not vary as those of the others do, and the pairs that spread more than the rest."""
    if len(table.rounds) < FEWEST_ROUNDS or len(table.arms) < 3:  # noqa: PLR2004 (others to be unlike of)
        return []
    together, own_rounds = alike(table.log_stat), estimate(table.log_stat).own_rounds
    notes = []
    if not together.all():
        deviations = table.log_stat - table.log_stat[:, together].mean(axis=1, keepdims=True)
        sd = 100.0 * deviations.std(axis=0, ddof=1)
        apart = _listed([f"{table.arms[k]} by {sd[k]:.2g} %" for k in np.flatnonzero(~together)])
        rest = math.sqrt(float((sd[together] ** 2).mean()))
        notes.append(f"arms do not vary alike from run to run: {apart}, the others by {rest:.2g} %")
    if own_rounds.all():
        notes.append("no arm shares its spread with the baseline: each is judged by its own rounds with it")
    elif own_rounds.any():
        names = _listed([table.arms[k + 1] for k in np.flatnonzero(own_rounds)])
        notes.append(f"judged by their own rounds, which vary more than those of the other arms: {names}")
    return notes


def _flag_notes(table: CompleteRounds, flags: list[Flag]) -> list[str]:
    if not flags:
        return []
    listed = [f"round {table.rounds[f.round_index]}, {table.arms[f.arm_index]}, {f.reason}" for f in flags]
    word = "run" if len(flags) == 1 else "runs"
    flagged = {flag.round_index for flag in flags}
    hint = ": two more rounds would help"
    if len(flagged) == len(table.rounds):
        hint = "; every round has one, so there is no comparison without them"
    return [f"{len(flags)} flagged {word}, kept ({_listed(listed)}){hint}"]


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN_FLAGS
    return "; ".join(texts[:SHOWN_FLAGS]) + (f"; and {more} more" if more > 0 else "")


def _drift_notes(table: CompleteRounds, drift: Drift | None, s_run: float | None) -> list[str]:
    if drift is None:
        return []
    notes = []
    floor = _floor(table, s_run)
    if abs(drift.total) > max(LEAST_DRIFT, floor) and abs(drift.total) > drift.half:
        size = 100.0 * math.expm1(drift.total)
        notes.append(f"drift over the sweep {size:+.1f} % +-{100.0 * drift.half:.1f}; {_cancelled(table, drift.total)}")
    if drift.lag1 is not None and drift.lag1 > HIGH_LAG1 and len(table.rounds) >= 5:  # noqa: PLR2004 (4.8)
        notes.append(f"each run resembles the one before it (lag-1 correlation {drift.lag1:.2f})")
    return notes


def _floor(table: CompleteRounds, s_run: float | None) -> float:
    """Half width that this design has when nothing differs (methodology 4.4); 0 without a spread."""
    rounds, arms = len(table.rounds), len(table.arms)
    if s_run is None:
        return 0.0
    df = 2 if (rounds, arms) == (2, 2) else (rounds - 1) * (arms - 1)
    return t_quantile(0.95, df) * s_run * math.sqrt(2.0 / rounds)


def _cancelled(table: CompleteRounds, total: float) -> str:
    """Say how much of a linear drift the order left in the ratios."""
    share = (table.t - table.t[:, :1]).mean(axis=0) / (table.t.max() - table.t.min())
    left = 100.0 * float(np.abs(share).max()) * abs(total)
    if left < 0.05:  # noqa: PLR2004 (prints as 0.0)
        return "the order of the runs cancels its linear part"
    return f"the order of the runs leaves up to {left:.1f} % of it in a ratio"


def _coarse_notes(runs: pd.DataFrame) -> list[str]:
    if "resolution" not in runs or "quantum_s" not in runs:
        return []
    bound = pd.to_numeric(runs["resolution"]).max()
    tick = pd.to_numeric(runs["quantum_s"]).min()
    if not (bound > COARSE and tick > 0):
        return []
    recorded, least = f"{1000.0 * tick:.3g} ms", f"effects under {200.0 * bound:.2g} % cannot be told apart"
    return [f"step times are recorded in {recorded}; {least}; log a cumulative or finer clock"]


def _burn_in_notes(runs: pd.DataFrame, table: CompleteRounds, s_run: float | None) -> list[str]:
    """Compare the burn-in (round 0) with the first run of the same arm: a node still settling shows here."""
    if s_run is None or not table.rounds:
        return []
    burn_in = runs[(runs["round"] == 0) & runs["arm"].isin(table.arms)]
    if burn_in.empty:
        return []
    row = burn_in.iloc[-1]
    first = table.log_stat[0, table.arms.index(row["arm"])]
    if not row["stat_s"] > 0:
        return []
    change = float(first) - math.log(float(row["stat_s"]))
    if abs(change) <= 2.0 * max(_floor(table, s_run), LEAST_DRIFT):
        return []
    return [f"first run and burn-in differ by {100.0 * math.expm1(change):+.1f} %: the node was still settling"]
