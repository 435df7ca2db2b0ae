"""Phases of a window, over steps and ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from interlace.stats.phases import mean_phases

STEPS = pd.DataFrame(
    {
        "step": [1, 2, 3, 1, 2, 3],
        "rank": [0, 0, 0, 1, 1, 1],
        "step_s": [9.0, 1.0, 1.0, 9.0, 2.0, 2.0],
        "phase.forward": [8.0, 0.25, 0.25, 8.0, 0.5, 0.5],
        "phase.save": [np.nan, np.nan, 0.5, np.nan, np.nan, 0.5],
    }
)


def test_phases_are_means_over_the_window_and_all_ranks_and_the_rest_is_what_is_left() -> None:
    assert mean_phases(STEPS, (2, 3)) == pytest.approx({"forward": 0.375, "save": 0.25, "rest": 0.875})


def test_a_phase_that_the_window_does_not_hold_is_left_out() -> None:
    assert mean_phases(STEPS, (2, 2)) == pytest.approx({"forward": 0.375, "rest": 1.125})


def test_a_log_without_phases_has_none() -> None:
    assert mean_phases(STEPS[["step", "rank", "step_s"]], (1, 3)) == {}


def test_ranks_that_record_no_phase_at_all_do_not_make_those_of_others_smaller() -> None:
    of_rank_0 = STEPS.assign(
        **{name: STEPS[name].where(STEPS["rank"] == 0) for name in ("phase.forward", "phase.save")}
    )

    assert mean_phases(of_rank_0, (2, 3)) == pytest.approx({"forward": 0.25, "save": 0.25, "rest": 0.5})
