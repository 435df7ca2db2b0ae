"""What one step costs a trainer: the recorder beside a `print` of the same two numbers into a file, in turn.

    python benchmarks/recorder.py [ROUNDS]

Prints medians of microseconds a step and their ratio to the print, over ROUNDS (default 20) of 2,000 steps each.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.recorder import StepRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 2000


def printed(folder: Path) -> None:
    """Log the step's time and loss as trainers do by hand."""
    with (folder / "hand.log").open("w") as log:
        began_s = time.perf_counter()
        for step in range(STEPS):
            now_s = time.perf_counter()
            print(f"step={step} step_s={now_s - began_s:.6f} loss={0.5:.4f}", file=log)
            began_s = now_s


def recorded(folder: Path) -> None:
    """Record the step alone."""
    with StepRecorder(folder) as rec:
        for _ in range(STEPS):
            rec.step()


def recorded_with_a_value_and_a_phase(folder: Path) -> None:
    """Record the step, a loss and one phase."""
    with StepRecorder(folder) as rec:
        for _ in range(STEPS):
            with rec.phase("forward"):
                pass
            rec.step(loss=0.5)


def step_us(way: Callable[[Path], None]) -> float:
    """Time one way, with opening and closing its file."""
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.perf_counter()
        way(Path(folder))
        return 1e6 * (time.perf_counter() - began_s) / STEPS


def main() -> None:
    """Measure all ways in turn and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    ways = (printed, recorded, recorded_with_a_value_and_a_phase)
    taken = [[step_us(way) for way in ways] for _ in range(rounds)]
    medians = [statistics.median(column) for column in zip(*taken, strict=True)]
    for way, median in zip(ways, medians, strict=True):
        print(f"{way.__name__.replace('_', ' '):36s}{median:6.2f} us a step   {median / medians[0]:.2f} of the print")


if __name__ == "__main__":
    main()
