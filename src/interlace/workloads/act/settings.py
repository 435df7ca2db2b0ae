"""What conf/workload/act.yaml declares, typed, and the combinations of switches that cannot work."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

if TYPE_CHECKING:
    from pathlib import Path

CompileMode = Literal["none", "default", "reduce-overhead", "max-autotune-no-cudagraphs"]
AttentionKind = Literal["weights", "sdpa", "bmm"]


@dataclass(frozen=True)
class ModelSettings:
    """Sizes of the model, and those of its switches that leave the arithmetic as it is."""

    image: list[int]
    state: int
    action: int
    chunk: int
    width: int
    heads: int
    feedforward: int
    encoder_layers: int
    decoder_layers: int
    vae_layers: int
    latent: int
    dropout: float
    backbone: list[int]
    attention: AttentionKind
    positions: Literal["each_step", "once"]
    tokens: Literal["list", "whole"]
    memory_format: Literal["contiguous", "channels_last"]
    branches: Literal["one", "two"]


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW with two parameter groups, and clipping."""

    lr: float
    lr_backbone: float
    weight_decay: float
    clip_norm: float
    fused: bool


@dataclass(frozen=True)
class DdpSettings:
    """Arguments of DistributedDataParallel, its own names."""

    broadcast_buffers: bool
    bucket_cap_mb: int
    gradient_as_bucket_view: bool
    find_unused_parameters: bool
    static_graph: bool
    average: Literal["parameter", "bucket"]


@dataclass(frozen=True)
class CompileSettings:
    """torch.compile of the model alone (whole, or its three parts): loss, clipping and optimizer stay outside."""

    mode: CompileMode
    region: Literal["model", "parts"]
    fallback_random: bool


@dataclass(frozen=True)
class DataSettings:
    """How synthetic samples reach the device."""

    samples: int
    frames: int
    workers: int
    prefetch: int
    images: Literal["float32", "uint8"]
    transfer: Literal["inline", "ahead"]


@dataclass(frozen=True)
class ProfileSettings:
    """Which steps torch.profiler records (first: 0 for none), and on which ranks."""

    first: int
    steps: int
    ranks: list[int]


@dataclass(frozen=True)
class Settings:
    """One run of the job."""

    steps: int
    seed: int
    device: Literal["auto", "cuda", "cpu"]
    batch_size: int
    tf32: bool
    kl_weight: float
    losses: Literal["host", "device", "late"]
    capture: Literal["none", "step"]
    model: ModelSettings
    optimizer: OptimizerSettings
    ddp: DdpSettings
    compile: CompileSettings
    data: DataSettings
    profile: ProfileSettings


PARTS = {
    "model": ModelSettings,
    "optimizer": OptimizerSettings,
    "ddp": DdpSettings,
    "compile": CompileSettings,
    "data": DataSettings,
    "profile": ProfileSettings,
}


def read_settings(path: Path) -> Settings:
    """Read the resolved configuration that the orchestrator wrote for this run."""
    workload = json.loads(path.read_text())["workload"]
    own = workload["settings"]
    parts: dict[str, Any] = {name: kind(**own[name]) for name, kind in PARTS.items()}
    settings = Settings(**{**own, **parts}, steps=workload["steps"])
    for name, part in {"": settings, **{f"{name}.": part for name, part in parts.items()}}.items():
        _refuse_unknown_words(name, part)
    return settings


def _refuse_unknown_words(prefix: str, part: Any) -> None:
    """Hold every setting that is one of a few words to these; exits naming them."""
    hints = get_type_hints(type(part))
    for field in fields(part):
        words = getattr(hints[field.name], "__args__", ())
        value = getattr(part, field.name)
        if isinstance(value, str) and words and value not in words:
            raise SystemExit(f"workload.{prefix}{field.name}={value}: choose one of {', '.join(words)}")


def refuse_what_cannot_work(settings: Settings, device_type: str) -> None:
    """Exit, saying which switch cannot be used here and what can, before anything is built."""
    for applies, why in (*_capture_rules(settings, device_type), *_compile_rules(settings, device_type)):
        if applies:
            raise SystemExit(f"workload=act: {why}")


def _compile_rules(settings: Settings, device_type: str) -> list[tuple[bool, str]]:
    mode = settings.compile.mode
    shown = f"compile.mode={mode}"
    cpu = device_type == "cpu"
    compiler = os.environ.get("CXX", "g++")
    return [
        (
            cpu and mode == "reduce-overhead",
            f"{shown} captures CUDA graphs, and this run is on the CPU; give compile.mode=default or none",
        ),
        (
            cpu and mode != "none" and shutil.which(compiler) is None,
            f"{shown} needs a C++ compiler on the CPU, and there is no {compiler}; install it, or give mode=none",
        ),
        (
            settings.model.branches == "two" and mode != "none" and settings.compile.region == "model",
            "model.branches=two needs parts that are compiled apart; give compile.region=parts",
        ),
        (
            # torch 2.13.0 on x86: a strided 1x1 convolution in this layout dies in its backward with SIGSEGV.
            cpu and settings.model.memory_format == "channels_last",
            "model.memory_format=channels_last crashes torch on some CPUs; give memory_format=contiguous",
        ),
        (cpu and settings.model.branches == "two", "model.branches=two needs CUDA streams, and this run is on the CPU"),
        (
            not cpu and mode != "none" and importlib.util.find_spec("triton") is None,
            f"{shown} needs triton on a GPU, and this environment has none; install it, or give compile.mode=none",
        ),
    ]


def _capture_rules(settings: Settings, device_type: str) -> list[tuple[bool, str]]:
    on = settings.capture == "step"
    return [
        (on and device_type == "cpu", "capture=step makes a CUDA graph, and this run is on the CPU; give capture=none"),
        (
            on and settings.losses == "host",
            "capture=step cannot hold a read-back in the middle of the step; give losses=device or losses=late",
        ),
        (
            on and settings.compile.mode == "reduce-overhead",
            "capture=step and compile.mode=reduce-overhead both make CUDA graphs; give compile.mode=default",
        ),
        (
            on and settings.ddp.find_unused_parameters,
            "capture=step replays one graph, and ddp.find_unused_parameters looks at each step anew; set it to false",
        ),
    ]
