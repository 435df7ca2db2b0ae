"""Transformer layers with positions added to queries and keys in every layer, and the tables of positions.

Post-norm layers (Vaswani et al., 2017); positions that enter each attention (Carion et al., DETR, 2020, figure 10).
All sequences are (tokens, batch, width).
"""

from __future__ import annotations

import math

import torch
from torch import nn

TEMPERATURE = 10_000.0


class Attention(nn.MultiheadAttention):
    """Multi-head attention that returns its output alone.

    With `weights` the probabilities are materialised (bmm, softmax, dropout, bmm, and their mean over the heads, which
    nobody reads); without, the same sums are one fused kernel of scaled_dot_product_attention.
    """

    def __init__(self, width: int, heads: int, dropout: float, *, weights: bool) -> None:
        super().__init__(width, heads, dropout=dropout)
        self.weights = weights

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attend from (T, B, E) to (S, B, E). `padding` (B, S) is true where a key is to be left out."""
        out, _ = self(query, key, value, key_padding_mask=padding, need_weights=self.weights)
        attended: torch.Tensor = out
        return attended


class FeedForward(nn.Module):
    """W2 dropout(relu(W1 x))."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (tokens, batch, width) to the same shape."""
        out: torch.Tensor = self.contract(self.dropout(torch.relu(self.expand(x))))
        return out


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward net, each with dropout, a residual and a norm after it."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, weights: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout, weights=weights)
        self.feedforward = FeedForward(width, hidden, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, positions: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Map (T, B, E) to the same shape; `positions` (T, 1 or B, E) enter queries and keys, not values."""
        query = x + positions
        x = self.norm1(x + self.dropout1(self.attention.attend(query, query, x, padding)))
        out: torch.Tensor = self.norm2(x + self.dropout2(self.feedforward(x)))
        return out


class DecoderLayer(nn.Module):
    """As EncoderLayer, with attention to the encoder's output between the two."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, weights: bool) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads, dropout, weights=weights)
        self.cross_attention = Attention(width, heads, dropout, weights=weights)
        self.feedforward = FeedForward(width, hidden, dropout)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout1, self.dropout2, self.dropout3 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor, queries: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Map (T, B, E) to the same shape; `queries` (T, 1, E) are its positions, `positions` those of `memory`."""
        query = x + queries
        x = self.norm1(x + self.dropout1(self.self_attention.attend(query, query, x)))
        attended = self.cross_attention.attend(x + queries, memory + positions, memory)
        x = self.norm2(x + self.dropout2(attended))
        out: torch.Tensor = self.norm3(x + self.dropout3(self.feedforward(x)))
        return out


def sinusoids(tokens: int, width: int) -> torch.Tensor:
    """Return the table (tokens, width) of Vaswani et al., section 3.5: sines in even, cosines in odd columns."""
    frequency = TEMPERATURE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(tokens, dtype=torch.float64)[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def image_positions(features: torch.Tensor, width: int) -> torch.Tensor:
    """Return positions (1, width, height, width of the map): half the channels for y, half for x.

    Cells are counted from 1 and scaled to 2 pi; sines and cosines interleave (DETR, appendix A.4).
    """
    ones = torch.ones_like(features[:1, 0])
    axes = (ones.cumsum(1), ones.cumsum(2))
    lasts = (axes[0][:, -1:, :], axes[1][:, :, -1:])
    half = width // 2
    frequency = TEMPERATURE ** (-torch.arange(0, half, 2, device=features.device, dtype=torch.float32) / half)
    tables = []
    for axis, last in zip(axes, lasts, strict=True):
        angle = (axis / (last + 1e-6) * 2 * math.pi)[..., None] * frequency
        tables.append(torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(3))
    return torch.cat(tables, dim=3).permute(0, 3, 1, 2)
