"""`interlace aa [overrides]`: two identical arms through the whole path."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.cli.deciding import decide
from interlace.config import run_hydra
from interlace.errors import UsageError

if TYPE_CHECKING:
    from interlace.analyse import Analysis
    from interlace.schema import Request, Sweep

EXIT_BIASED = 1
HELP = """\
usage: interlace aa [overrides]

Measures one configuration against itself: two identical arms through the whole path. What they differ by is the noise
of this node; the last line has it. Takes what `interlace sweep --help` lists, one value of each key:

  interlace aa                                                      the embedded quickstart
  interlace aa workload=command workload.command="python train.py"  a program of your own, as it will be compared

One pair of identical arms in twenty is called different by chance. Where that happens, everything is measured once
more, in another order, into a folder of its own: allow for twice the time that `interlace plan sweeps=aa ...` shows.

exit codes: 0 no difference was called twice; 1 both measurements called one, so the harness is biased here and no
verdict of this node is to be trusted, or a run is not ok; 2 usage or configuration, nothing was run; 130 interrupted
"""


def run(argv: list[str]) -> int:
    """Measure the harness against itself, on the workload that the overrides choose.

    One pair of identical arms in twenty is called different by chance; so a first such call is measured again, in
    another order. Two in a row say that the harness is biased, and exit with 1.
    """
    if "-h" in argv or "--help" in argv:
        sys.stdout.write(HELP)
        return 0
    return run_hydra([*argv, "sweeps=aa"], "interlace aa", _measure)


def _measure(request: Request) -> int:
    _refuse_several(request)
    sweep = decide(request)
    if sweep.config.launchers.kind != "local":
        raise UsageError(
            "interlace aa measures on this machine; on a cluster: interlace sweep sweeps=aa launchers=slurm"
        )
    code, called = _once(sweep)
    if not called:
        return code
    sys.stderr.write("interlace: two identical arms were called different, as one pair in twenty is; measured again\n")
    code, called = _once(replace(sweep, config=replace(sweep.config, seed=sweep.config.seed + 1)))
    if called:
        sys.stderr.write(
            "interlace: and again: this harness is biased here (the order, warm caches, another user?); "
            "do not trust a verdict of this node before it is found\n"
        )
        return EXIT_BIASED
    return code


def _refuse_several(request: Request) -> None:
    """Raise UsageError for what makes more than one configuration: arms that differ are no test of the harness."""
    asked = [f"{axis.key.lstrip('+~')}={','.join(axis.labels)}" for axis in request.axes]
    asked += [
        text.replace("'", "") for text in request.plain if re.match(r"(commits|arms|sweeps)=(?!aa$|null$|\[\]$)", text)
    ]
    if asked:
        raise UsageError(
            f"{asked[0]}: interlace aa measures one configuration twice; give one value of each key, "
            "and no arms of your own (interlace sweep compares several)"
        )


def _once(sweep: Sweep) -> tuple[int, bool]:
    """Measure once; the exit code, and whether the copy was called different."""
    from interlace.cli.measuring import measured_new  # noqa: PLC0415 (pandas, pyarrow: a mistake is told sooner)

    code, loaded = measured_new(sweep)
    sys.stdout.write(f"{summary(loaded.analysis)}\n")
    verdicts = [one.verdict for one in loaded.analysis.comparisons]
    return code, code == 0 and any(verdict in ("faster", "slower") for verdict in verdicts)


def summary(analysis: Analysis) -> str:
    """Say in one line what two identical arms tell of this node: noise floor, variation of the runs, drift."""
    floors = [one.noise_floor for one in analysis.comparisons if one.noise_floor is not None]
    variations = [arm.cv for arm in analysis.arms if arm.cv is not None]
    parts = [
        f"noise floor +-{100 * max(floors):.2g} %" if floors else "no noise floor (two rounds are needed)",
        f"runs vary by {100 * max(variations):.2g} % (CV)" if variations else None,
        None if analysis.drift is None else f"drift over the sweep {100 * analysis.drift:+.2g} %",
        "one pair of identical arms in twenty is called different by chance",
    ]
    return f"A/A: {'; '.join(part for part in parts if part)}"
