"""What only a GPU shows: a step that is captured, compiled and spread over streams trains as the eager one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from interlace.recorder import StepRecorder
from interlace.workloads.act.train import train
from tests.workloads.act.small import settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here"),
    pytest.mark.filterwarnings("default"),  # torch's own, of which a GPU build has many
]

PLAIN = ("device=cuda", "model.dropout=0.0", "steps=24", "losses=device", "tf32=false")
CAPTURED = ("capture=step", "ddp.find_unused_parameters=false", "losses=late", "optimizer.fused=true")


def losses(tmp_path: Path, *changes: str) -> list[float]:
    chosen = settings(tmp_path, *PLAIN, *changes)
    values = train(chosen, StepRecorder(), tmp_path)
    assert [step for step, _ in values] == list(range(1, 25))
    return [float(row.loss) for _, row in values]


@pytest.mark.parametrize(
    "changes",
    [
        ("losses=late", "data.images=uint8", "data.transfer=ahead"),
        ("model.memory_format=channels_last",),
        CAPTURED,
        (*CAPTURED, "model.branches=two", "model.attention=bmm", "data.transfer=ahead", "data.workers=1"),
    ],
    ids=["ahead", "layout", "captured", "branches"],
)
def test_switches_that_need_a_gpu_train_as_the_plain_step_does(changes: tuple[str, ...], tmp_path: Path) -> None:
    assert losses(tmp_path, *changes) == pytest.approx(losses(tmp_path), rel=1e-3)
