"""Where the host spends a step, by the phases that a trainer records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

PREFIX = "phase."
"""Columns of a step series that hold the time (s) of a phase."""
REST = "rest"
"""What lies outside the phases."""


def mean_phases(steps: pd.DataFrame, window: Sequence[int]) -> dict[str, float]:
    """Return mean seconds a step of each phase over a window, over all ranks, and of what is left of the step.

    `steps` has the columns step, rank, step_s and phase.NAME; without phases the answer is empty. A step without a
    phase (validation, say) counts as 0 of it; a rank that has none at all is left out (OpenTau keeps rank 0's).
    """
    names = [name for name in steps.columns if name.startswith(PREFIX)]
    telling = steps.loc[steps[names].notna().any(axis="columns"), "rank"]
    inside = steps[steps["step"].between(window[0], window[1]) & steps["rank"].isin(telling)]
    means = {name.removeprefix(PREFIX): float(inside[name].fillna(0.0).mean()) for name in names}
    seen = {name: mean_s for name, mean_s in means.items() if mean_s > 0.0}
    if not seen:
        return {}
    return {**seen, REST: max(0.0, float(inside["step_s"].mean()) - sum(seen.values()))}
