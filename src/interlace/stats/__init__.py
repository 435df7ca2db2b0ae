"""Arithmetic on step times and run statistics; the only place where an interval is computed.

Source of every formula: docs/statistics.md. Nothing here reads a file or prints.
"""

from interlace.stats.drift import Drift, fit_drift
from interlace.stats.flags import Flag, flag_runs
from interlace.stats.interval import Estimate, estimate, noise_floor, rounds_needed
from interlace.stats.multiple import expected_best, holm
from interlace.stats.resolution import quantum, resolution_bound
from interlace.stats.run import WindowStats, describe, slow_steps, summarise
from interlace.stats.warmup import WarmUp, check_warm_up

__all__ = [
    "Drift",
    "Estimate",
    "Flag",
    "WarmUp",
    "WindowStats",
    "check_warm_up",
    "describe",
    "estimate",
    "expected_best",
    "fit_drift",
    "flag_runs",
    "holm",
    "noise_floor",
    "quantum",
    "resolution_bound",
    "rounds_needed",
    "slow_steps",
    "summarise",
]
