"""A source of GPU facts that asks another one each question once: all of the doctor sees one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from interlace.monitor.readings import Driver, Gpu, GpuReadError, GpuSample, GpuSource, ProcessList

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class AskedOnce:
    """Remembers answers and refusals: an nvidia-smi that takes seconds, or hangs, is not asked again."""

    def __init__(self, source: GpuSource) -> None:
        self.kind, self.reason, self.min_interval_s = source.kind, source.reason, source.min_interval_s
        self._source = source
        self._answers: dict[str, object] = {}

    def driver(self) -> Driver:
        """Return the versions of the driver."""
        return self._ask("driver", self._source.driver)

    def inventory(self) -> tuple[Gpu, ...]:
        """Return every GPU."""
        return self._ask("inventory", self._source.inventory)

    def sample(self) -> tuple[GpuSample, ...]:
        """Return what every GPU did when first asked."""
        return self._ask("sample", self._source.sample)

    def processes(self) -> ProcessList:
        """Return who computed when first asked."""
        return self._ask("processes", self._source.processes)

    def close(self) -> None:
        """Let go of the driver."""
        self._source.close()

    def _ask(self, what: str, question: Callable[[], T]) -> T:
        if what not in self._answers:
            try:
                self._answers[what] = question()
            except GpuReadError as error:
                self._answers[what] = error
        answer = self._answers[what]
        if isinstance(answer, GpuReadError):
            raise answer
        return cast("T", answer)
