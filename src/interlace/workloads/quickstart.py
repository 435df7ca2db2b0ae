"""The embedded quickstart: a small residual MLP under accelerate DDP, on CPU unless told. Runs inside the ranks.

It is also the shortest example of a trainer that Interlace can measure: read the settings, train, call
`recorder.step()` at the end of each step.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

from interlace.recorder import StepRecorder


@dataclass(frozen=True)
class Settings:
    """What conf/workload/quickstart.yaml declares."""

    steps: int
    batch_size: int
    width: int
    layers: int
    fused: bool
    device: str = "cpu"


class Block(nn.Module):
    """x + W2 relu(W1 norm(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.contract = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, width) to (batch, width)."""
        out: torch.Tensor = x + self.contract(torch.relu(self.expand(self.norm(x))))
        return out


def read_settings(path: Path) -> Settings:
    """Read the resolved configuration that the orchestrator wrote for this run."""
    workload = json.loads(path.read_text())["workload"]
    return Settings(steps=workload["steps"], **workload["settings"])


def train(settings: Settings, recorder: StepRecorder) -> float:
    """Train for `settings.steps` steps on data drawn from a fixed seed; return the last loss."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=settings.device == "cpu")
    model = nn.Sequential(*(Block(settings.width) for _ in range(settings.layers)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=settings.fused, foreach=False)
    model, optimizer = accelerator.prepare(model, optimizer)
    generator = torch.Generator().manual_seed(accelerator.process_index)
    loss = torch.zeros(())
    recorder.start()
    for _ in range(settings.steps):
        x = torch.randn(settings.batch_size, settings.width, generator=generator).to(accelerator.device)
        loss = (model(x) - x.sin()).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        recorder.step(loss=loss.item())
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return loss.item()


def main() -> None:
    """Run one rank."""
    with StepRecorder() as recorder:
        loss = train(read_settings(Path(os.environ["INTERLACE_CONFIG"])), recorder)
    sys.stdout.write(f"last loss {loss:.4f}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of gloo can hang or abort after the work is done (torch 2.11); nothing is left to do.
    os._exit(0)


if __name__ == "__main__":
    main()
