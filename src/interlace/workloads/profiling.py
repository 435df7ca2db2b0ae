"""A profiler hook for a training loop: some steps of some ranks, as a gzipped trace in the run's folder."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from torch import profiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


WARM_UP_STEPS = 3
"""Traced and thrown away: the first traced steps also pay for starting the tracer."""


@contextlib.contextmanager
def profiled(folder: Path, rank: int, *, first: int, steps: int) -> Iterator[Callable[[], None]]:
    """Record steps `first` to `first + steps - 1` (counted from 1) into FOLDER/rank-RANK.json.gz.

    Yields what is to be called at the end of every step. With `first` 0 nothing is recorded and the call costs nothing.
    A profiled run is for looking at: the profiler slows its steps, those of its warm-up before `first` too, and writing
    the trace takes seconds of the last one.
    """
    if first < 1:
        yield lambda: None
        return
    folder.mkdir(parents=True, exist_ok=True)
    activities = [profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(profiler.ProfilerActivity.CUDA)
    warm_up = min(WARM_UP_STEPS, first - 1)
    schedule = profiler.schedule(wait=first - 1 - warm_up, warmup=warm_up, active=steps, repeat=1)

    def write(done: profiler.profile) -> None:
        done.export_chrome_trace(str(folder / f"rank-{rank}.json.gz"))

    with profiler.profile(activities=activities, schedule=schedule, on_trace_ready=write) as running:
        yield running.step
