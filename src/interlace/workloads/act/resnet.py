"""The image trunk: the 20 convolutions of a ResNet-18 with frozen norms, in plain torch.

Source: He et al., Deep Residual Learning for Image Recognition, 2015, table 1 (18 layers, without the classifier).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKS_PER_STAGE = 2


class FrozenNorm(nn.Module):
    """A batch norm whose four vectors are constants: (x - mean) / sqrt(variance + eps) * weight + bias."""

    weight: torch.Tensor
    bias: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, height, width) to the same shape."""
        scale = self.weight * (self.variance + self.eps).rsqrt()
        shift = self.bias - self.mean * scale
        return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class Block(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))), with a 1x1 convolution of x where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, outputs, 3, stride), FrozenNorm(outputs)
        self.conv2, self.norm2 = _conv(outputs, outputs, 3), FrozenNorm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), FrozenNorm(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        out = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class Trunk(nn.Module):
    """Images (batch, 3, height, width) to features (batch, widths[-1], height / 32, width / 32)."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, widths[0], 7, 2), FrozenNorm(widths[0]), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        )
        before = (widths[0], *widths[:-1])
        self.stages = nn.Sequential(
            *(
                Block(inputs if block == 0 else outputs, outputs, 2 if block == 0 and stage > 0 else 1)
                for stage, (inputs, outputs) in enumerate(zip(before, widths, strict=True))
                for block in range(BLOCKS_PER_STAGE)
            )
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the feature map of the last stage."""
        features: torch.Tensor = self.stages(self.stem(images))
        return features
