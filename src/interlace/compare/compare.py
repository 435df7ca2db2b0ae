"""Run statistics of arms in rounds -> one comparison a candidate: ratio, interval, verdict, notes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from interlace.compare import remarks
from interlace.compare.coarse import pair_resolution
from interlace.compare.comparison import NO_ROUND, ONE_ROUND, Comparison, Rules, compared, log_range, spread
from interlace.compare.rounds import CompleteRounds, complete_rounds, usable_runs
from interlace.compare.verdict import Evidence, judge
from interlace.stats.alike import FEWEST_ROUNDS, alike
from interlace.stats.drift import Drift, fit_drift
from interlace.stats.flags import Flag, flag_runs
from interlace.stats.interval import FEWEST_AA_ROUNDS, estimate, shared_variance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Comparison", "Comparisons", "compare"]


LEAST_PART = 0.002


@dataclass(frozen=True)
class Comparisons:
    """All candidates against one baseline, and what concerns them all. `flags` are (round, arm, reason)."""

    baseline: str
    candidates: tuple[Comparison, ...]
    rounds: tuple[int, ...]
    drift: Drift | None
    flags: tuple[tuple[int, str, str], ...]
    notes: tuple[str, ...]
    s_run: float | None = None

    def by_arm(self) -> dict[str, Comparison]:
        """Comparisons by the candidate's name."""
        return {candidate.arm: candidate for candidate in self.candidates}


def compare(
    runs: pd.DataFrame,
    baseline: str,
    *,
    arms: Sequence[str] | None = None,
    confidence: float = 0.95,
    margin: float = 0.01,
    not_judged: str | None = None,
    failed: Mapping[str, str] | None = None,
    aa_rounds: Sequence[tuple[float, float]] | None = None,
    unusual: Mapping[tuple[int, str], str] | None = None,
) -> Comparisons:
    """Compare every arm with `baseline` over the complete rounds.

    `runs`: one row a finished run with columns arm, round (from 1; 0 is the burn-in), stat_s; and where known
    mean_s, t_start_s, resolution (relative; NaN where all step times of the run are equal), quantum_s.
    `arms`: all that were to be compared, so that one without a finished run is named. `not_judged`: why no
    verdict may be given at all (the order, say); all runs then enter the ratio. `failed`: the same for single
    arms. `aa_rounds`: run statistics (s) of at least four A/A rounds of the same session. `unusual`: why the node was
    not as usual, by round and arm: such runs are flagged. Raises ConfigError for missing columns; whatever else is
    wrong with the runs is said in sentences and notes.
    """
    usable, notes = usable_runs(runs)
    names = list(dict.fromkeys([baseline, *(arms or []), *(str(arm) for arm in runs["arm"])]))
    if baseline not in set(usable["arm"]):
        not_judged = f"the baseline {baseline} has no finished run"
    if not_judged is not None:
        unjudged = tuple(_unpaired(usable, baseline, arm, not_judged) for arm in names[1:])
        return Comparisons(baseline, unjudged, (), None, (), tuple(notes))
    table = complete_rounds(usable, baseline, names)
    reasons, resolution = _obstacles(usable, table, failed or {})
    aa = np.log(np.asarray(aa_rounds, dtype=np.float64)) if aa_rounds else None
    rules = Rules(confidence, margin, aa, resolution, reasons, _unusually_small(table, aa))
    judged = compared(table, rules)
    drift = _drift(table, confidence)
    flags = _flags(table, unusual or {})
    line = drift if alike(table.log_stat).all() else None  # one spread for all runs is behind it
    detailed = [_with_remarks(one, table, rules, line, flags) for one in judged]
    by_arm = {one.arm: one for one in detailed}
    for arm, why in table.left_out.items():
        by_arm[arm] = _unpaired(usable, baseline, arm, why)
    told = remarks.common(runs, table, drift=drift, flags=flags, s_run=_s_run(table))
    return Comparisons(
        baseline,
        tuple(by_arm[arm] for arm in names[1:]),
        table.rounds,
        drift,
        tuple((table.rounds[f.round_index], table.arms[f.arm_index], f.reason) for f in flags),
        (*notes, *table.notes, *told),
        _s_run(table),
    )


def _obstacles(
    usable: pd.DataFrame, table: CompleteRounds, failed: Mapping[str, str]
) -> tuple[tuple[str | None, ...], tuple[float | None, ...]]:
    """Why each candidate may not be judged (None: it may), and what the logs of each pair can resolve."""
    pairs = [pair_resolution(usable, table.arms[0], arm) for arm in table.arms[1:]]
    general = NO_ROUND if not table.rounds else ONE_ROUND if len(table.rounds) == 1 else None
    reasons = [failed.get(arm, general or coarse) for arm, (_, coarse) in zip(table.arms[1:], pairs, strict=True)]
    return tuple(reasons), tuple(bound for bound, _ in pairs)


def _unusually_small(table: CompleteRounds, aa: Floats | None) -> bool:
    """Tell whether two or three rounds spread less than half of what identical arms do (methodology 4.5)."""
    if aa is None or len(aa) < FEWEST_AA_ROUNDS or not 2 <= len(table.rounds) <= 3:  # noqa: PLR2004
        return False
    return spread(table.log_stat) < 0.5 * float((aa[:, 1] - aa[:, 0]).std(ddof=1))


def _s_run(table: CompleteRounds) -> float | None:
    """Return the run-to-run sd of the arms that share one: what is usual on this node, whatever one arm does."""
    if len(table.rounds) < 2 or len(table.arms) < 2:  # noqa: PLR2004 (no spread to speak of)
        return None
    if len(table.arms) > 2:  # noqa: PLR2004
        return math.sqrt(float(shared_variance(table.log_stat)[0]))
    found = estimate(table.log_stat).s_run
    return None if found is None else float(found[0])


def _unpaired(usable: pd.DataFrame, baseline: str, arm: str, reason: str) -> Comparison:
    """Give the ratio of geometric means over all runs, and the range over all pairs; never a verdict."""
    base, other = (
        np.log(usable.loc[usable["arm"] == name, "stat_s"].to_numpy(dtype=np.float64)) for name in (baseline, arm)
    )
    if not base.size or not other.size:
        verdict, sentence = judge(Evidence(ratio=None, reason=reason))
        return Comparison(arm, baseline, verdict, sentence, None)
    ratio = math.exp(float(other.mean() - base.mean()))
    pairs = np.subtract.outer(other, base)
    evidence = Evidence(ratio=ratio, reason=reason, spread=log_range(pairs) if pairs.size > 1 else None)
    verdict, sentence = judge(evidence)
    return Comparison(arm, baseline, verdict, sentence, ratio)


def _drift(table: CompleteRounds, confidence: float) -> Drift | None:
    rounds, arms = table.log_stat.shape
    if rounds < 2 or arms < 2 or not np.isfinite(table.t).all():  # noqa: PLR2004 (nothing to fit)
        return None
    return fit_drift(table.log_stat.ravel(), np.tile(np.arange(arms), rounds), table.t.ravel(), confidence=confidence)


def _flags(table: CompleteRounds, unusual: Mapping[tuple[int, str], str]) -> list[Flag]:
    """Flag runs by their own numbers, where there are rounds to be far from, and by what the monitor saw."""
    flags: list[Flag] = []
    if len(table.rounds) > 1:
        with np.errstate(invalid="ignore"):
            stalls = np.nan_to_num(1.0 - np.exp(table.log_stat - table.log_mean), nan=0.0)
        flags = flag_runs(table.log_stat, stalls)
    reasons = {(flag.round_index, flag.arm_index): [flag.reason] for flag in flags}
    for row, number in enumerate(table.rounds):
        for column, arm in enumerate(table.arms):
            if (number, arm) in unusual:
                reasons.setdefault((row, column), []).append(unusual[number, arm])
    return [Flag(row, column, ", ".join(texts)) for (row, column), texts in sorted(reasons.items())]


def _with_remarks(
    one: Comparison, table: CompleteRounds, rules: Rules, drift: Drift | None, flags: list[Flag]
) -> Comparison:
    """Add what qualifies a verdict: the same question asked of plain means, and without flagged rounds."""
    if one.verdict == "not judged":
        return one
    k = table.arms.index(one.arm)
    means = None
    if np.isfinite(table.log_mean).all():
        means = compared(replace(table, log_stat=table.log_mean), rules)[k - 1]
    # A flagged run of another arm is in no ratio of this one.
    own = {flag.round_index for flag in flags if flag.arm_index in (0, k)}
    keep = sorted(set(range(len(table.rounds))) - own)
    unflagged = None
    fewest = 2 if len(table.arms) == 2 else FEWEST_ROUNDS  # noqa: PLR2004 (fewer cannot tell whose spread is whose)
    if own and len(keep) >= fewest:
        rest = replace(table, log_stat=table.log_stat[keep], rounds=tuple(table.rounds[i] for i in keep))
        unflagged = compared(rest, rules)[k - 1]
    differences = table.log_stat[:, k] - table.log_stat[:, 0]
    notes = remarks.candidate(
        (one.verdict, one.low, one.high),
        differences,
        rules.confidence,
        means=None if means is None else (means.verdict, means.sentence, _why_means_differ(one, means)),
        unflagged=None if unflagged is None else unflagged.sentence,
        drift=drift,
        arm_index=k,
        flagged=bool(own),
    )
    return replace(one, notes=notes)


def _why_means_differ(trimmed: Comparison, means: Comparison) -> str:
    """Say what may make plain means say something else: another ratio, or another spread."""
    if not (trimmed.ratio and means.ratio and trimmed.low and trimmed.high and means.low and means.high):
        return "they take in every stall"
    half, of_means = (0.5 * math.log(one.high / one.low) for one in (trimmed, means) if one.high and one.low)
    if abs(math.log(means.ratio / trimmed.ratio)) > max(LEAST_PART, 0.25 * half):
        return "the difference is in the stalls, which are a real cost"
    if of_means > half:
        return "they spread more from run to run"
    return "they happen to spread less here; what is compared was settled before the runs"
