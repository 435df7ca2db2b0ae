"""Figures of a report; the only module that draws. altair is an extra (`interlace[figures]`), loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interlace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.loaded import LoadedSweep

S_PER_MIN = 60.0


def write_figures(loaded: LoadedSweep) -> list[Path]:
    """Draw what the runs show into `figures/`; return the files. Raises UsageError where altair is not installed."""
    points = drift_points(loaded)
    if points.empty:
        return []
    path = loaded.sweep_dir.path / "figures" / "drift.svg"
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(".drift.svg")
    first, last = loaded.window
    title = f"Every run beside the mean of its arm, steps {first} to {last}"
    _drift(points, loaded.analysis.drift, title).save(str(temporary), format="svg")
    temporary.replace(path)
    return [path]


def drift_points(loaded: LoadedSweep) -> pd.DataFrame:
    """Return one row a run that counts: minutes since the first, and its distance (%) from the mean of its arm."""
    names = loaded.sweep.names
    rows = [
        (names[one.run.arm], one.record.started_at, one.record.steps.stat_s)
        for one in loaded.used
        if one.record is not None and one.record.steps is not None and one.run.round > 0
    ]
    frame = pd.DataFrame(rows, columns=["arm", "started_at", "stat_s"])
    log_s = np.log(frame["stat_s"])
    off = 100.0 * np.expm1(log_s - log_s.groupby(frame["arm"]).transform("mean"))
    minutes = (frame["started_at"] - frame["started_at"].min()) / S_PER_MIN
    return pd.DataFrame({"arm": frame["arm"], "minutes": minutes, "off_pct": off})


def _drift(points: pd.DataFrame, drift: float | None, said: str) -> Any:
    """Draw runs over time, every arm around its own mean, and the fitted line where there is one (methodology 4.8)."""
    try:
        import altair as alt  # noqa: PLC0415 (an extra)
        import vl_convert  # noqa: F401, PLC0415 (altair draws with it)
    except ImportError as error:
        raise UsageError(f"figures need {error.name}: pip install 'interlace[figures]'") from error
    title = alt.Title(said)
    if drift is not None:
        title.subtitle = f"dashed: the drift that all arms share, {100.0 * np.expm1(drift):+.1f} % over the sweep"
    dots = (
        alt.Chart(points, title=title, width=640, height=300)
        .mark_point(filled=True, size=80)
        .encode(
            x=alt.X("minutes:Q", title="minutes since the first run"),
            y=alt.Y("off_pct:Q", title="step time, % off the arm's mean"),
            color=alt.Color("arm:N", title="arm"),
            shape=alt.Shape("arm:N", title="arm"),
        )
    )
    if drift is None:
        return dots
    last = float(points["minutes"].max())
    line = pd.DataFrame({"minutes": [0.0, last], "off_pct": [-50.0 * drift, 50.0 * drift]})
    fitted = alt.Chart(line).mark_line(color="gray", strokeDash=[4, 4]).encode(x="minutes:Q", y="off_pct:Q")
    return fitted + dots
