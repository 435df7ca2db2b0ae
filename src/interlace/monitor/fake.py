"""A source that plays a script: the public fake for tests of everything that watches GPUs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlace.monitor.readings import Driver, Gpu, GpuReadError, GpuSample, ProcessList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")


class FakeGpus:
    """Answers from scripts; the last entry of a script stays. An exception in a script is raised.

    `samples` and `processes` advance by one entry a call. Sample times are taken from `clock` when asked.
    """

    kind = "fake"
    min_interval_s = 0.0

    def __init__(
        self,
        gpus: Sequence[Gpu] = (),
        samples: Iterable[Sequence[GpuSample] | Exception] = (),
        processes: Iterable[ProcessList | Exception] = (),
        *,
        driver: Driver | None = None,
        reason: str = "scripted for a test",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reason = reason
        self.closed = False
        self._gpus = tuple(gpus)
        self._samples: list[Sequence[GpuSample] | Exception] = list(samples) or [()]
        self._processes: list[ProcessList | Exception] = list(processes) or [ProcessList()]
        self._driver = driver or Driver()
        self._clock = clock

    def driver(self) -> Driver:
        """Return the driver given."""
        return self._driver

    def inventory(self) -> tuple[Gpu, ...]:
        """Return the GPUs given."""
        return self._gpus

    def sample(self) -> tuple[GpuSample, ...]:
        """Return the next samples of the script, as taken now."""
        self._refuse_when_closed()
        now_s = self._clock()
        return tuple(replace(sample, t_s=now_s) for sample in _next(self._samples))

    def processes(self) -> ProcessList:
        """Return the next process list of the script."""
        self._refuse_when_closed()
        return _next(self._processes)

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _refuse_when_closed(self) -> None:
        if self.closed:
            raise GpuReadError("closed", "the fake GPUs were read after close()")


def _next(script: list[T | Exception]) -> T:
    entry = script.pop(0) if len(script) > 1 else script[0]
    if isinstance(entry, Exception):
        raise entry
    return entry
