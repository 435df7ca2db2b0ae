"""The coarse-log rule over the runs of two arms together, before any ratio is computed (methodology 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.stats.resolution import quantum

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pair_resolution(runs: pd.DataFrame, baseline: str, arm: str) -> tuple[float | None, str | None]:
    """Smallest relative effect that the logs of two arms can show, and why that forbids a verdict.

    `runs` as in `compare.compare`. None where nothing is known of the logs (no column `resolution`). A run
    whose step times are all equal shows nothing below the gap to the next recorded value; an arm of which all
    runs show one and the same value is not judged.
    """
    if "resolution" not in runs:
        return None, None
    pair = runs[runs["arm"].isin([baseline, arm])]
    if not {baseline, arm} <= set(pair["arm"]):
        return None, None
    bound = pd.to_numeric(pair["resolution"]).to_numpy(dtype=np.float64)
    flat = np.isnan(bound)
    if not flat.any():
        return float(bound.max()), None
    values = pair["stat_s"].to_numpy(dtype=np.float64)
    for name in (baseline, arm):
        own = (pair["arm"] == name).to_numpy()
        if flat[own].all() and quantum(values[own]) is None:
            return None, (
                f"every step of every run of {name} reads {1000.0 * values[own][0]:.6g} ms: the log is too "
                "coarse to show a difference; log a cumulative or finer clock"
            )
    floor = _gap(pair, values, flat) / float(values.mean())
    return float(np.nanmax([floor, *bound])), None


def _gap(pair: pd.DataFrame, values: NDArray[np.float64], flat: NDArray[np.bool_]) -> float:
    """Smallest quantum known: among the values of runs that show only one, and as found in the other runs."""
    gaps = [gap for gap in [quantum(values[flat])] if gap is not None]
    if "quantum_s" in pair:
        known = pd.to_numeric(pair["quantum_s"]).to_numpy(dtype=np.float64)
        gaps.extend(float(gap) for gap in known[np.isfinite(known)])
    # One flat run among others that tell nothing of their quantum: it may be off by all of its own value.
    return min(gaps) if gaps else float(values[flat].max())
