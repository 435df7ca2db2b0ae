"""Waiting for a run: progress, the time limit, the stall limit, and the grace after its last step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.lane.causes import EndedBy

TICK_S = 0.5
"""How often a run is looked at. It is slept in between: waiting must not disturb what is measured."""


class Counter(Protocol):
    """How far a run is."""

    def __call__(self) -> int:
        """Return the steps seen so far."""

    def ended(self) -> bool:
        """Tell whether the log has said that training is over."""


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
    over: Callable[[float], bool], limits: Limits, count: Counter, on_progress: Callable[[int, float], None]
) -> Watched:
    """Wait until the run ends or a limit is passed. Ends nothing itself.

    `over` sleeps so many seconds at most and tells whether the run has ended. The grace begins with the last step that
    was asked for, or with the log's own end.
    """
    started = news_at = time.monotonic()
    seen, done_at = 0, None
    while not over(TICK_S):
        now = time.monotonic()
        if (steps := count()) > seen:
            seen, news_at = steps, now
        on_progress(seen, now - started)
        if done_at is None and (count.ended() or (limits.steps is not None and seen >= limits.steps)):
            done_at = now
        if done_at is not None and now - max(done_at, news_at) > limits.grace_s:
            return Watched("grace", limits.grace_s)
        if now - started > limits.timeout_s:
            return Watched("timeout", limits.timeout_s)
        if now - news_at > limits.stall_s:
            return Watched("stall", limits.stall_s)
    return Watched("itself")
