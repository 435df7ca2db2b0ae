"""Which runs may be compared: finite and in complete rounds. The only place that leaves runs out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NEEDED = ("arm", "round", "stat_s")


@dataclass(frozen=True)
class CompleteRounds:
    """Runs in rounds: every array has shape (rounds, arms), the baseline in column 0.

    `left_out` says for every arm that takes no part why not; `t` holds start times in seconds, NaN where
    unknown.
    """

    arms: tuple[str, ...]
    rounds: tuple[int, ...]
    log_stat: Floats
    log_mean: Floats
    t: Floats
    left_out: dict[str, str]
    notes: tuple[str, ...]


def usable_runs(runs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Keep rows with a finite, positive statistic, one an arm and round, without the burn-in (round 0).

    Returns them with notes on what was left out. Raises ConfigError for a missing column.
    """
    kept, notes = finite_runs(runs)
    twice = kept.duplicated(["arm", "round"], keep="last")
    if twice.any():
        again = [f"{row.arm} in round {row.round}" for row in kept[twice].itertuples()]
        notes.append(f"several runs of one arm in one round, the last one counts: {', '.join(again)}")
    return kept[~twice], notes


def finite_runs(runs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Keep rows with a finite, positive statistic, without the burn-in (round 0); raise as `usable_runs` does."""
    missing = [name for name in NEEDED if name not in runs]
    if missing:
        raise ConfigError(f"the runs to compare lack the columns {', '.join(missing)}")
    notes = []
    measured = runs[runs["round"] > 0]
    values = measured["stat_s"].astype(float)
    good = np.isfinite(values) & (values > 0)
    if not good.all():
        lost = [f"{row.arm} in round {row.round}" for row in measured[~good].itertuples()]
        notes.append(f"runs without a positive, finite step time were left out: {', '.join(lost)}")
    return measured[good], notes


def complete_rounds(runs: pd.DataFrame, baseline: str, arms: Sequence[str]) -> CompleteRounds:
    """Keep the rounds in which every compared arm has a run.

    An arm that would leave fewer than two complete rounds, where the others have two, takes no part itself.
    `runs` comes from `usable_runs`; `arms` are all that should be compared.
    """
    wide = _by_round(runs, "stat_s").reindex(columns=list(arms))
    taking, left_out = _taking_part(wide, baseline)
    complete = wide[taking].dropna().index
    notes = _incomplete_note(wide, taking, len(complete))
    return CompleteRounds(
        arms=tuple(taking),
        rounds=tuple(int(number) for number in complete),
        log_stat=np.log(wide.loc[complete, taking].to_numpy(dtype=np.float64)),
        log_mean=np.log(_matrix(runs, "mean_s", complete, taking, positive=True)),
        t=_matrix(runs, "t_start_s", complete, taking),
        left_out=left_out,
        notes=notes,
    )


def _taking_part(wide: pd.DataFrame, baseline: str) -> tuple[list[str], dict[str, str]]:
    """Baseline first, then the candidates that have enough rounds in common with it."""
    present = wide.notna()
    candidates = [str(arm) for arm in wide.columns if arm != baseline]
    left_out = {arm: "no finished run" for arm in candidates if not present[arm].any()}
    taking = [baseline, *(arm for arm in candidates if arm not in left_out)]
    while len(taking) > 2 and present[taking].all(axis=1).sum() < 2:  # noqa: PLR2004 (two rounds have a spread)
        shared = {arm: int((present[arm] & present[baseline]).sum()) for arm in taking[1:]}
        weakest = min(taking[1:], key=lambda arm: shared[arm])
        if shared[weakest] == max(shared.values()) and shared[weakest] < 2:  # noqa: PLR2004 (all are as weak)
            break
        left_out[weakest] = f"{shared[weakest]} complete rounds with the baseline, 2 are needed"
        taking.remove(weakest)
    return taking, left_out


def _incomplete_note(wide: pd.DataFrame, taking: list[str], complete: int) -> tuple[str, ...]:
    partial = wide[taking].dropna(how="all")
    partial = partial[partial.isna().any(axis=1)]
    if partial.empty:
        return ()
    numbers = ", ".join(str(number) for number in partial.index)
    return (f"{complete} complete rounds compared; not complete and left out: {numbers}",)


def _matrix(runs: pd.DataFrame, column: str, rounds: pd.Index, arms: list[str], *, positive: bool = False) -> Floats:
    """Values of one optional column as (rounds, arms); NaN where it is missing, or not positive if asked."""
    if column not in runs:
        return np.full((len(rounds), len(arms)), np.nan)
    wide = _by_round(runs, column)
    values = wide.reindex(index=rounds, columns=arms).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(values > 0, values, np.nan) if positive else values


def _by_round(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Arrange one column as rounds x arms; every arm has one run a round by now, so nothing is aggregated."""
    return runs.set_index(["round", "arm"])[column].unstack("arm")  # noqa: PD010 (pivot_table would aggregate)
