"""`interlace aa [overrides]`: two identical arms through the whole path."""

from __future__ import annotations

from interlace.cli.sweep import measure
from interlace.config import run_hydra


def run(argv: list[str]) -> int:
    """Measure the harness against itself, on the workload that the overrides choose."""
    return run_hydra([*argv, "sweeps=aa"], "interlace aa", measure)
