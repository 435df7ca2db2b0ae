"""What it costs and saves to let only arms that vary alike share one spread: simulated sweeps of identical arms.

    python benchmarks/unlike_arms.py [SWEEPS]

Side by side, without and with it (docs/statistics.md): coverage of the worst 95 % interval, share of sweeps with any
false call (Holm), and the width of the interval of a pair that varies little, as a ratio (median, mean).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from interlace.stats import holm
from interlace.stats.interval import RESIDUAL, Estimate, estimate, residual_variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIGMA = 0.01
SPREADS = {
    "5 alike": (1, 1, 1, 1, 1),
    "one of 5 three times": (1, 1, 1, 1, 3),
    "one of 5 ten times": (1, 1, 1, 1, 10),
    "baseline ten times": (10, 1, 1, 1, 1),
    "baseline three times": (3, 1, 1, 1, 1),
    "two of 7 ten times": (1, 1, 10, 10, 1, 1, 1),
    "three of 6 ten times": (1, 1, 1, 10, 10, 10),
    "11 alike": (1,) * 11,
    "as in act_beyond": (1.4, 12.9, 1.3, 0.4, 0.1, 0.2, 0.2, 0.1, 0.05),
}


def all_share(log_s: Floats) -> Estimate:
    """Estimate as if every arm varied as the others do."""
    rounds = log_s.shape[-2]
    effect = (log_s[..., 1:] - log_s[..., :1]).mean(axis=-2)
    variance, df = residual_variance(log_s)
    s_run = np.broadcast_to(np.sqrt(variance)[:, None], effect.shape)
    everywhere = np.broadcast_to(df[:, None], effect.shape)
    nobody = np.zeros(effect.shape, np.bool_)
    return Estimate(effect, s_run * np.sqrt(2.0 / rounds), everywhere, RESIDUAL, s_run, nobody)


def told(found: Estimate) -> tuple[float, float, Floats]:
    """Return worst coverage, share of sweeps with a false call, and half widths (sweeps, candidates)."""
    half, p = found.half_width(0.95), found.p_value()
    assert half is not None, "two rounds and more have an interval"
    assert p is not None, "and a p value"
    return float((np.abs(found.effect) <= half).mean(axis=0).min()), float((holm(p).min(axis=-1) < 0.05).mean()), half


def main() -> None:
    """Print one row a kind of sweep and number of rounds."""
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    columns = "coverage: all share | unlike parted | false calls: all share | unlike parted | calm pair"
    print(f"| run-to-run sd | rounds | {columns} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, spreads in SPREADS.items():
        for rounds in (3, 4, 8):
            rng = np.random.default_rng([rounds, len(spreads)])
            log_s = SIGMA * rng.standard_normal((sweeps, rounds, len(spreads))) * np.array(spreads)
            before, after = told(all_share(log_s)), told(estimate(log_s))
            calm = int(np.argmin(spreads[1:]))
            width = after[2][:, calm] / before[2][:, calm]
            print(
                f"| {name} | {rounds} | {100 * before[0]:.0f} % | {100 * after[0]:.0f} % | "
                f"{100 * before[1]:.1f} % | {100 * after[1]:.1f} % | {np.median(width):.2f}x, {width.mean():.2f}x |"
            )


if __name__ == "__main__":
    main()
