"""The readers of single tools, one small file each; the most specific ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.steplog.formats import (
    deepspeed,
    fairchem,
    fairchem_results,
    megatron,
    mmengine,
    mmengine_json,
    modded_nanogpt,
    nanogpt,
    openpcdet,
    opentau,
    paddle,
    tensorboard,
    timm,
    torch_imagenet,
    torchtitan,
    torchvision_log,
    wandb_run,
)

if TYPE_CHECKING:
    from interlace.steplog.model import Reader

SPECIFIC: tuple[Reader, ...] = (
    fairchem_results.READER,
    fairchem.READER,
    opentau.READER,
    tensorboard.READER,
    wandb_run.READER,
    torchtitan.READER,
    megatron.READER,
    deepspeed.THROUGHPUT,
    deepspeed.PIPELINE,
    modded_nanogpt.READER,
    nanogpt.READER,
    timm.READER,
    torch_imagenet.READER,
    torchvision_log.READER,
    openpcdet.READER,
    mmengine.MMENGINE,
    mmengine.MMCV,
    mmengine_json.READER,
    paddle.PADDLE,
    paddle.CLAS,
)
"""What `registry` asks after the recorder's and lerobot's logs, in this order."""
