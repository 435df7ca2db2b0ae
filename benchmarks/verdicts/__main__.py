"""Run the comparison and write its tables and its plot; the only part of it that writes files."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.verdicts import table
from benchmarks.verdicts.plot import plot
from benchmarks.verdicts.real import load_groups
from benchmarks.verdicts.score import Effort, measured, rounds_needed, simulated
from benchmarks.verdicts.summary import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.verdicts.score import Cell, Needed

ROOT = Path(__file__).parents[2]
COMMAND = "python -m benchmarks.verdicts"
QUICK = Effort(sweeps=40, power_sweeps=40, most_rounds=4, batch=40)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, read the real runs where they are, judge, write."""
    options = _parser().parse_args(argv)
    effort = QUICK if options.quick else Effort()
    began_s = time.monotonic()
    cells = list(simulated(effort))
    real = f"no real runs: {options.real.name}/ is not there"
    if options.real.is_dir():
        groups = load_groups(options.real)
        cells += measured(groups)
        runs = sum(session.run_s.shape[1] for group in groups.values() for session in group)
        real = f"{runs} real runs in {len(groups)} groups"
    needed = list(rounds_needed(effort))
    written = write(options.out, cells, needed, effort, real)
    print(f"{real}; {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    print("\n".join(str(path) for path in written))
    return 0


def write(folder: Path, cells: Sequence[Cell], needed: Sequence[Needed], effort: Effort, real: str) -> list[Path]:
    """Write table.md, by_noise.md, cells.csv, rounds_needed.csv and verdicts.svg."""
    drawn = f"{effort.sweeps} simulated sweeps a cell, {effort.power_sweeps} for rounds needed"
    made = f"Made by `{COMMAND}`: {drawn}, {real}."
    texts = {
        "table.md": f"{table.main_table(rows(cells, needed), effort.most_rounds)}\n{made}\n",
        "by_noise.md": _by_noise(cells, made),
        "cells.csv": table.cells_csv(cells),
        "rounds_needed.csv": table.needed_csv(needed),
        "verdicts.svg": plot(cells),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def _by_noise(cells: Sequence[Cell], made: str) -> str:
    return (
        "# By noise: four rounds, spread between runs 0.5 %\n\n"
        f"False calls on identical arms, %\n\n{table.noise_table(cells, lambda cell: cell.false_calls)}\n"
        f"Missed 2 % effects, %\n\n{table.noise_table(cells, lambda cell: cell.missed)}\n{made}\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few sweeps and up to four rounds, to see that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "verdicts", help="where to write")
    parser.add_argument(
        "--real", type=Path, default=ROOT.parent / "shared" / "real_runs", help="folder of runs.csv and step_ms.npz"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
