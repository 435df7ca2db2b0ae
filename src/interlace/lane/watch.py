"""Waiting for a run: progress, the time limit, the stall limit, and the grace after its last step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.lane.causes import EndedBy

TICK_S = 0.5
"""How often a run is looked at. It is slept in between: waiting must not disturb what is measured."""


@dataclass(frozen=True)
class Limits:
    """When a run is given up."""

    timeout_s: float
    stall_s: float
    grace_s: float
    steps: int | None


@dataclass(frozen=True)
class Watched:
    """How the wait ended: by whom, and after which limit."""

    ended_by: EndedBy
    limit_s: float = 0.0
    cannot_start: str | None = None


def watch(
    over: Callable[[float], bool], limits: Limits, count: Callable[[], int], on_progress: Callable[[int, float], None]
) -> Watched:
    """Wait until the run ends or a limit is passed. Ends nothing itself.

    `over` sleeps so many seconds at most and tells whether the run has ended; `count` returns the steps seen so far.
    """
    started = news_at = time.monotonic()
    seen = 0
    while not over(TICK_S):
        now = time.monotonic()
        if (steps := count()) > seen:
            seen, news_at = steps, now
        on_progress(seen, now - started)
        if limits.steps is not None and seen >= limits.steps and now - news_at > limits.grace_s:
            return Watched("grace", limits.grace_s)
        if now - started > limits.timeout_s:
            return Watched("timeout", limits.timeout_s)
        if now - news_at > limits.stall_s:
            return Watched("stall", limits.stall_s)
    return Watched("itself")
