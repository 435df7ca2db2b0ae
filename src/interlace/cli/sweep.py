"""`interlace sweep [overrides]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.cli.deciding import decide
from interlace.config import run_hydra

if TYPE_CHECKING:
    from interlace.schema import Request


def run(argv: list[str]) -> int:
    """Measure what the overrides ask for; the embedded quickstart without any."""
    return run_hydra(argv, "interlace sweep", measure)


def measure(request: Request) -> int:
    """Decide, then measure; what only measuring needs is loaded when nothing is left to refuse."""
    sweep = decide(request)
    if sweep.config.launchers.kind == "slurm":
        from interlace.cli.submitting import submitted_new  # noqa: PLC0415 (as below)

        return submitted_new(sweep)
    from interlace.cli.measuring import measured_new  # noqa: PLC0415 (pandas, pyarrow: a mistake is told sooner)

    return measured_new(sweep)[0]
