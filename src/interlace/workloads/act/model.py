"""The model: action chunking with transformers, a conditional VAE (Zhao et al., 2023), at its published sizes.

51,613,582 parameters at the sizes of conf/workload/act.yaml, all trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from interlace.workloads.act.resnet import Trunk
from interlace.workloads.act.transformer import DecoderLayer, EncoderLayer, image_positions, sinusoids

if TYPE_CHECKING:
    from interlace.workloads.act.settings import ModelSettings

DOWNSAMPLING = 32
"""Pixels of an image side per cell of the trunk's feature map."""


class Predicted(NamedTuple):
    """Actions (batch, chunk, action) and the latent's distribution (batch, latent) each."""

    actions: torch.Tensor
    mean: torch.Tensor
    log_variance: torch.Tensor


class Styles(nn.Module):
    """The VAE's encoder: state and true actions to the distribution of a latent."""

    positions: torch.Tensor

    def __init__(self, sizes: ModelSettings) -> None:
        super().__init__()
        self.summary = nn.Embedding(1, sizes.width)
        self.state = nn.Linear(sizes.state, sizes.width)
        self.actions = nn.Linear(sizes.action, sizes.width)
        self.layers = _encoder(sizes, sizes.vae_layers)
        self.latent = nn.Linear(sizes.width, 2 * sizes.latent)
        self.register_buffer("positions", sinusoids(2 + sizes.chunk, sizes.width)[None])

    def forward(
        self, state: torch.Tensor, actions: torch.Tensor, is_pad: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log variance, (batch, latent) each, of the latent."""
        batch = len(state)
        summary = self.summary.weight.expand(batch, 1, -1)
        tokens = torch.cat((summary, self.state(state)[:, None], self.actions(actions)), dim=1).transpose(0, 1)
        padding = torch.cat((is_pad.new_zeros(batch, 2), is_pad), dim=1)
        for layer in self.layers:
            tokens = layer(tokens, self.positions.transpose(0, 1), padding)
        mean, log_variance = self.latent(tokens[0]).chunk(2, dim=1)
        return mean, log_variance


class Core(nn.Module):
    """Latent, state and image features to a chunk of actions: the transformer."""

    image_table: torch.Tensor

    def __init__(self, sizes: ModelSettings) -> None:
        super().__init__()
        self.sizes = sizes
        self.image = nn.Conv2d(sizes.backbone[-1], sizes.width, 1)
        self.state = nn.Linear(sizes.state, sizes.width)
        self.latent = nn.Linear(sizes.latent, sizes.width)
        self.positions = nn.Embedding(2, sizes.width)
        self.encoder = _encoder(sizes, sizes.encoder_layers)
        self.queries = nn.Embedding(sizes.chunk, sizes.width)
        self.decoder = nn.ModuleList(_decoder_layer(sizes) for _ in range(sizes.decoder_layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.action)
        if sizes.positions == "once":
            height, width = (-(-side // DOWNSAMPLING) for side in sizes.image[1:])
            table = image_positions(torch.zeros(1, 1, height, width), sizes.width)
            self.register_buffer("image_table", table, persistent=False)  # the checkpoint stays as it was
        for parameter in (*self.encoder.parameters(), *self.decoder.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, features: torch.Tensor, state: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
        """Return actions (batch, chunk, action)."""
        tokens, positions = self._tokens(features, state, latent)
        for layer in self.encoder:
            tokens = layer(tokens, positions)
        queries = self.queries.weight[:, None]
        out = torch.zeros_like(queries).expand(-1, len(state), -1)
        for layer in self.decoder:
            out = layer(out, tokens, queries, positions)
        actions: torch.Tensor = self.head(self.norm(out)).transpose(0, 1)
        return actions

    def _tokens(
        self, features: torch.Tensor, state: torch.Tensor, latent: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Lay latent, state and the cells of the feature map in a row: tokens (T, B, E), positions (T, 1, E)."""
        table = self.image_table if self.sizes.positions == "once" else image_positions(features, self.sizes.width)
        cells = self.image(features).flatten(2).permute(2, 0, 1)
        places = table.flatten(2).permute(2, 0, 1)
        first = (self.latent(latent), self.state(state))
        if self.sizes.tokens == "list":  # one tensor a cell, as a list that several cameras extend
            tokens = torch.stack((*first, *cells.unbind()))
            return tokens, torch.stack((*self.positions.weight[:, None].unbind(), *places.unbind()))
        return torch.cat((torch.stack(first), cells)), torch.cat((self.positions.weight[:, None], places))


class ACT(nn.Module):
    """One camera, a state and a chunk of future actions.

    The trunk and the VAE's encoder do not need each other: with `branches: two` the latter, many small kernels, runs
    on a stream of its own beside the former, few large ones.
    """

    def __init__(self, sizes: ModelSettings) -> None:
        super().__init__()
        self.backbone = Trunk(sizes.backbone)
        self.styles = Styles(sizes)
        self.core = Core(sizes)
        # The side's kernels are small and on the critical path: they go before the trunk's where both wait.
        self.side = torch.cuda.Stream(priority=-1) if sizes.branches == "two" else None  # type: ignore[no-untyped-call]

    def forward(
        self, images: torch.Tensor, state: torch.Tensor, actions: torch.Tensor, is_pad: torch.Tensor
    ) -> Predicted:
        """Predict actions from images (B, 3, H, W), state (B, S) and, through the latent, the true actions (B, T, A).

        `is_pad` (B, T) is true where an action lies beyond the end of its episode.
        """
        if self.side is None:
            mean, log_variance = self.styles(state, actions, is_pad)
            features = self.backbone(images)
        else:
            mean, log_variance, features = self._beside(self.side, images, state, actions, is_pad)
        latent = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        return Predicted(self.core(features, state, latent), mean, log_variance)

    def _beside(
        self, side: torch.cuda.Stream, images: torch.Tensor, state: torch.Tensor, actions: torch.Tensor,
        is_pad: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        """Fork and join. The side goes first, so that its backward comes last and waits for nothing of the trunk's."""
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            mean, log_variance = self.styles(state, actions, is_pad)
        features = self.backbone(images)
        main.wait_stream(side)
        for tensor in (mean, log_variance):
            tensor.record_stream(main)
        return mean, log_variance, features


def _encoder(sizes: ModelSettings, layers: int) -> nn.ModuleList:
    return nn.ModuleList(
        EncoderLayer(sizes.width, sizes.heads, sizes.feedforward, sizes.dropout, kind=sizes.attention)
        for _ in range(layers)
    )


def _decoder_layer(sizes: ModelSettings) -> DecoderLayer:
    return DecoderLayer(sizes.width, sizes.heads, sizes.feedforward, sizes.dropout, kind=sizes.attention)
