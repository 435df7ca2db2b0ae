"""Transformer layers with positions added to queries and keys in every layer, and the tables of positions.

Post-norm layers (Vaswani et al., 2017); positions that enter each attention (Carion et al., DETR, 2020, figure 10).
All sequences are (tokens, batch, width).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)
from torch import nn

if TYPE_CHECKING:
    from interlace.workloads.act.settings import AttentionKind

TEMPERATURE = 10_000.0


class Attention(nn.MultiheadAttention):
    """Multi-head attention that returns its output alone; the same sums in three ways.

    `weights`: torch's module as it stands: three projections, bmm, softmax, dropout, bmm, and the mean of the
    probabilities over the heads, which nobody reads. `sdpa`: one projection fewer (queries and keys have one input) and
    one fused kernel. `bmm`: the same with the softmax spelled out, for a compiler to fuse with the dropout.
    """

    def __init__(self, width: int, heads: int, dropout: float, *, kind: AttentionKind) -> None:
        super().__init__(width, heads, dropout=dropout)
        self.kind = kind

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, padding: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attend from (T, B, E) to (S, B, E). `padding` (B, S) is true where a key is to be left out."""
        attended: torch.Tensor
        if self.kind == "weights":
            attended = self(query, key, value, key_padding_mask=padding)[0]
            return attended
        q, k, v = (self._by_head(x) for x in self._project(query, key, value))
        mask = None if padding is None else torch.zeros_like(padding, dtype=q.dtype).masked_fill(padding, -math.inf)
        mask = None if mask is None else mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        attend = F.scaled_dot_product_attention if self.kind == "sdpa" else spelled_out_attention
        attended = self.out_proj(attend(q, k, v, mask, dropout).permute(2, 0, 1, 3).flatten(2))
        return attended

    def _project(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        weight, bias, width = self.in_proj_weight, self.in_proj_bias, self.embed_dim
        v = F.linear(value, weight[2 * width :], bias[2 * width :])
        if key is query:
            q, k = F.linear(query, weight[: 2 * width], bias[: 2 * width]).chunk(2, dim=-1)
            return q, k, v
        q = F.linear(query, weight[:width], bias[:width])
        return q, F.linear(key, weight[width : 2 * width], bias[width : 2 * width]), v

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        """View (T, B, E) as (B, heads, T, E / heads)."""
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).permute(1, 2, 0, 3)


def spelled_out_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, dropout: float
) -> torch.Tensor:
    """Do what scaled_dot_product_attention does, in parts, for (B, H, T, D); `mask` is added to the scores."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    scores = scores if mask is None else scores + mask
    exponents = (scores - scores.amax(-1, keepdim=True).detach()).exp()
    return F.dropout(exponents / exponents.sum(-1, keepdim=True), dropout) @ v


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

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, kind: AttentionKind) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout, kind=kind)
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

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, *, kind: AttentionKind) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads, dropout, kind=kind)
        self.cross_attention = Attention(width, heads, dropout, kind=kind)
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
