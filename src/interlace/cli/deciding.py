"""From a request to a decided sweep: arms composed, commits pinned. Runs nothing and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from interlace.arms import build_sweep
from interlace.checkout import range_axis, resolve_commits
from interlace.steplog import Tail

if TYPE_CHECKING:
    from interlace.schema import Request, Sweep
    from interlace.settings import MeasureConfig


def decide(request: Request) -> Sweep:
    """Compose the arms and pin their commits. Raises ConfigError or SourceError for what cannot be measured."""
    sweep = resolve_commits(build_sweep(request, range_axis))
    for arm in sweep.arms:
        _check_reader(arm.config.measure)
    return sweep


def _check_reader(measure: MeasureConfig) -> None:
    """Refuse an unknown reader, or a pattern that is none, before anything has run."""
    Tail(Path(), measure.reader, measure.pattern, measure.unit)
