"""One training step: written out (eager), or replayed as a single CUDA graph (captured)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from interlace.workloads.act.data import Batch

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import nn

    from interlace.recorder import StepRecorder
    from interlace.workloads.act.policy import Value

WARM_UP_STEPS = 11
"""Steps before a capture: what DDP needs (it times its first ten) to do nothing any more that a graph cannot hold."""


class Values(NamedTuple):
    """What a step leaves for the log; the gradient norm is that before clipping."""

    loss: Value
    l1: Value
    kl: Value
    grad_norm: Value


class EagerStep:
    """Forward, backward (with DDP's all-reduces), clipping, optimizer."""

    def __init__(
        self, accelerator: Accelerator, policy: nn.Module, optimizer: torch.optim.Optimizer, *, clip_norm: float,
        recorder: StepRecorder,
    ) -> None:  # fmt: skip
        self.accelerator, self.policy, self.optimizer = accelerator, policy, optimizer
        self.clip_norm, self.recorder = clip_norm, recorder

    def __call__(self, batch: Batch) -> Values:
        """Train on one batch. Nothing here waits for the device, unless the policy reads its losses back."""
        with self.recorder.phase("forward"):
            loss, parts = self.policy(batch)
        with self.recorder.phase("backward"):
            self.accelerator.backward(loss)
        with self.recorder.phase("optimizer"):
            grad_norm = self.accelerator.clip_grad_norm_(self.policy.parameters(), self.clip_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return Values(loss.detach(), parts["l1"], parts["kl"], grad_norm.detach())


class CapturedStep:
    """The same step as one graph: the host launches once a step, whatever the model is made of.

    The first steps run as they are; then one more is recorded, and replayed from there on. Inputs are copied into the
    memory that the graph reads, and its values are read from the memory that it writes. All of it has to happen on one
    stream that is not the default one (`torch.cuda.graph` and DDP ask for that).
    """

    def __init__(self, step: EagerStep) -> None:
        self.step = step
        self.warm = 0
        self.graph = torch.cuda.CUDAGraph()
        self.batch: Batch | None = None
        self.values: Values | None = None

    def __call__(self, batch: Batch) -> Values:
        """Train on one batch."""
        if self.warm < WARM_UP_STEPS:
            self.warm += 1
            return self.step(batch)
        if self.batch is None or self.values is None:
            self.batch, self.values = self._capture(batch)
        with self.step.recorder.phase("replay"):
            for own, new in zip(self.batch, batch, strict=True):
                own.copy_(new)
            self.graph.replay()
        return self.values

    def _capture(self, batch: Batch) -> tuple[Batch, Values]:
        own = Batch(*(tensor.clone() for tensor in batch))
        # thread_local: the loader's pinning thread and NCCL's watchdog go on calling CUDA meanwhile.
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            values = self.step(own)
        return own, values
