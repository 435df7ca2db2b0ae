"""`interlace sweep [overrides]`."""

from __future__ import annotations

from interlace.cli.measuring import measure_new
from interlace.config import run_hydra


def run(argv: list[str]) -> int:
    """Measure what the overrides ask for; the embedded quickstart without any."""
    return run_hydra(argv, "interlace sweep", measure_new)
