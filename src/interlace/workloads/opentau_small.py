"""Makes all that OpenTau's profile_step needs to run small, with no hub and no GPU: a policy, a data set, a config.

Run it once with the interpreter of the trainer's environment, from OpenTau's checkout; it needs nothing of Interlace:

    PYTHONPATH=src ENV/bin/python opentau_small.py DATA

DATA/config.json then goes to `workload.config_path`. The policy is OpenTau's own `cosmos3`, which takes its frozen
backbone from a folder: here a Qwen3-VL of some hundred thousand random weights, made with transformers, whose
tokenizer knows bytes alone. Only sizes are small; the code that runs is the whole of OpenTau's. Seeded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEADS, HEAD_DIM, LAYERS = 2, 16, 2
"""Key and value heads, their width, layers: OpenTau wants the same of backbone and expert."""

IMAGE = 64
"""Side of a picture in pixels: two by two tokens."""

SPECIAL = {
    "<|endoftext|>": "pad_token", "<|im_start|>": "", "<|im_end|>": "eos_token", "<|vision_start|>": "",
    "<|vision_end|>": "", "<|image_pad|>": "", "<|video_pad|>": "",
}  # fmt: skip
"""The tokens that Qwen's processor looks for, with their role."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
)


def make(folder: Path, episodes: int, frames: int) -> None:
    """Write the new folder: `backbone`, `dataset` of so many episodes with so many frames each, `config.json`."""
    folder.mkdir(parents=True)
    tokens = _save_processor(folder / "backbone")
    _save_backbone(folder / "backbone", tokens)
    subprocess.run(
        [sys.executable, Path(__file__).with_name("lerobot_dataset.py"), folder / "dataset",
         "--api", "opentau.datasets.lerobot_dataset", "--image", str(IMAGE), str(IMAGE),
         "--episodes", str(episodes), "--frames", str(frames)],
        check=True,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(_config(folder), indent=2) + "\n")


def _save_processor(folder: Path) -> dict[str, int]:
    """Save tokenizer and image processor; the vocabulary is the bytes and Qwen's special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 (--help works without)
    from transformers import (  # noqa: PLC0415
        Qwen2TokenizerFast,
        Qwen2VLImageProcessorFast,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    roles = {role: token for token, role in SPECIAL.items() if role}
    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=model, additional_special_tokens=[*SPECIAL], unk_token=None, **roles
    )
    pixels = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": IMAGE**2, "longest_edge": IMAGE**2}}
    Qwen3VLProcessor(
        Qwen2VLImageProcessorFast(**pixels), tokenizer, Qwen3VLVideoProcessor(**pixels), chat_template=TEMPLATE
    ).save_pretrained(folder)
    return {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}


def _save_backbone(folder: Path, tokens: dict[str, int]) -> None:
    """Save a Qwen3-VL with random weights."""
    import torch  # noqa: PLC0415
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration  # noqa: PLC0415

    width = 2 * HEADS * HEAD_DIM
    thirds = [HEAD_DIM // 4, HEAD_DIM // 8, HEAD_DIM // 8]  # time, height, width of the rotary embedding
    text = {
        "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": LAYERS,
        "num_attention_heads": 2 * HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM,
        "vocab_size": max(tokens.values()) + 1,
        "rope_scaling": {"rope_type": "default", "mrope_section": thirds, "mrope_interleaved": True},
    }  # fmt: skip
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "depth": 2, "out_hidden_size": width,
        "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
    }  # fmt: skip
    torch.manual_seed(0)
    config = Qwen3VLConfig(
        text_config=text, vision_config=vision, image_token_id=tokens["<|image_pad|>"],
        video_token_id=tokens["<|video_pad|>"], vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
    )  # fmt: skip
    Qwen3VLForConditionalGeneration(config).save_pretrained(folder)


def _config(folder: Path) -> dict[str, Any]:
    """Return OpenTau's training configuration. Absolute paths: ranks run in the worktree of their commit."""
    features = {
        "camera0": "observation.images.top", "state": "observation.state", "actions": "action", "prompt": "task",
        "response": "response",
    }  # fmt: skip
    dataset = {
        "repo_id": "local/synthetic", "root": str(folder.resolve() / "dataset"), "data_features_name_mapping": features,
        "robot_type": "synthetic", "control_mode": "joint",
    }  # fmt: skip
    return {
        "dataset_mixture": {"datasets": [dataset], "weights": [1.0]},
        "policy": _policy(folder),
        "resolution": [IMAGE, IMAGE], "num_cams": 1, "max_state_dim": 16, "max_action_dim": 16, "action_chunk": 10,
        "loss_weighting": {"MSE": 1, "CE": 0}, "num_workers": 0, "batch_size": 2, "dataloader_batch_size": 2,
        "gradient_accumulation_steps": 1, "use_policy_training_preset": True, "save_checkpoint": False,
    }  # fmt: skip


def _policy(folder: Path) -> dict[str, Any]:
    return {
        "type": "cosmos3", "pretrained_backbone_repo_id": str(folder.resolve() / "backbone"),
        "chunk_size": 10, "n_action_steps": 10, "max_state_dim": 16, "max_action_dim": 16, "image_resize": IMAGE,
        "prompt_max_length": 16, "proj_width": 128, "expert_hidden_size": 128, "expert_intermediate_size": 256,
        "expert_adarms_cond_dim": 64, "expert_num_hidden_layers": LAYERS, "expert_num_attention_heads": 2 * HEADS,
        "expert_num_key_value_heads": HEADS, "expert_head_dim": HEAD_DIM,
    }  # fmt: skip


def main() -> None:
    """Read the arguments and write the folder."""
    parser = argparse.ArgumentParser(description="Make a small policy, a data set and a configuration for OpenTau.")
    parser.add_argument("folder", type=Path, help="folder to make; it must not exist")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--frames", type=int, default=50, help="of each episode")
    given = parser.parse_args()
    make(given.folder, given.episodes, given.frames)


if __name__ == "__main__":
    main()
