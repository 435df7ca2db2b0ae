"""Reading a step's values back to the host: at once, or one step late without ever waiting for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from interlace.workloads.act.step import Values

if TYPE_CHECKING:
    from typing import Protocol

    class Readback(Protocol):
        """Takes the values of a step and returns those that are on the host by now."""

        def __call__(self, step: int, values: Values) -> list[tuple[int, Values]]:
            """Return the steps, with their values, that became known."""

        def rest(self) -> list[tuple[int, Values]]:
            """Return what is still on its way."""


class AtOnce:
    """The host waits for the end of the step."""

    def __call__(self, step: int, values: Values) -> list[tuple[int, Values]]:
        """Return this step's values."""
        return [(step, Values(*map(float, values)))]

    def rest(self) -> list[tuple[int, Values]]:
        """Return nothing: all is known."""
        return []


class OneStepLate:
    """Values go to pinned memory by one asynchronous copy, and are looked at after the next step was launched."""

    def __init__(self) -> None:
        self.slots = [torch.empty(len(Values._fields)).pin_memory() for _ in range(2)]
        self.pending: tuple[int, torch.Tensor, torch.cuda.Event] | None = None

    def __call__(self, step: int, values: Values) -> list[tuple[int, Values]]:
        """Return the values of the step before this one."""
        slot = self.slots[step % 2]
        slot.copy_(torch.stack([torch.as_tensor(value) for value in values]), non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        known = self.rest()
        self.pending = (step, slot, done)
        return known

    def rest(self) -> list[tuple[int, Values]]:
        """Wait for the values that are on their way, and return them."""
        if self.pending is None:
            return []
        (step, slot, done), self.pending = self.pending, None
        done.synchronize()
        return [(step, Values(*slot.tolist()))]
