"""The readers of single tools, one small file each; the most specific ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.steplog.formats import (
    composer,
    deepspeed,
    detectron2,
    detectron2_json,
    dllogger,
    espnet,
    fairchem,
    fairchem_results,
    fairseq,
    llamafactory,
    llm_c,
    maxtext,
    megatron,
    mmengine,
    mmengine_json,
    modded_nanogpt,
    nanochat,
    nanogpt,
    nemo,
    openpcdet,
    opentau,
    paddle,
    paddle_trainer,
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
    dllogger.READER,
    torchtitan.READER,
    nemo.LINES,
    nemo.BAR,
    megatron.READER,
    deepspeed.THROUGHPUT,
    deepspeed.PIPELINE,
    composer.READER,
    fairseq.READER,
    maxtext.READER,
    modded_nanogpt.READER,
    nanogpt.READER,
    nanochat.READER,
    llm_c.READER,
    timm.READER,
    torch_imagenet.READER,
    torchvision_log.READER,
    openpcdet.READER,
    mmengine.MMENGINE,
    mmengine.MMCV,
    mmengine_json.READER,
    detectron2.LAST,
    detectron2.MEANS,
    detectron2_json.READER,
    paddle.PADDLE,
    paddle.CLAS,
    paddle_trainer.READER,
    llamafactory.READER,
    espnet.READER,
)
"""What `registry` asks after the recorder's and lerobot's logs, in this order."""
