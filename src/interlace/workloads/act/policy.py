"""The trained module: the model and its loss, the optimizer's groups, and the compiled region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from interlace.workloads.act.model import ACT

if TYPE_CHECKING:
    from interlace.workloads.act.data import Batch
    from interlace.workloads.act.settings import CompileSettings, OptimizerSettings, Settings

Value = torch.Tensor | float


class Policy(nn.Module):
    """`model` predicts; the policy turns a batch into its loss: masked L1 plus `kl_weight` times the KL divergence."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.model = ACT(settings.model)
        self.kl_weight = settings.kl_weight
        self.read_back = settings.losses == "host"

    def forward(self, batch: Batch) -> tuple[torch.Tensor, dict[str, Value]]:
        """Return the loss, and its two parts for the log."""
        predicted = self.model(batch.images, batch.state, batch.actions, batch.is_pad)
        valid = ~batch.is_pad[..., None]
        errors = (predicted.actions - batch.actions).abs() * valid
        l1 = errors.sum() / (valid.sum() * batch.actions.shape[-1])
        variance = predicted.log_variance.exp()
        kl = -0.5 * (1 + predicted.log_variance - predicted.mean.square() - variance).sum(1).mean()
        loss = l1 + self.kl_weight * kl
        if self.read_back:  # here the host waits until the device has done the whole forward
            return loss, {"l1": l1.item(), "kl": kl.item()}
        return loss, {"l1": l1.detach(), "kl": kl.detach()}


def build_optimizer(policy: Policy, settings: OptimizerSettings, *, capturable: bool) -> torch.optim.AdamW:
    """AdamW with the trunk as a group of its own. Call it before `compile_model`: groups are told by names."""
    backbone = [p for name, p in policy.named_parameters() if name.startswith("model.backbone.")]
    rest = [p for name, p in policy.named_parameters() if not name.startswith("model.backbone.")]
    groups: list[dict[str, Any]] = [{"params": rest}, {"params": backbone, "lr": settings.lr_backbone}]
    return torch.optim.AdamW(
        groups,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        fused=settings.fused,
        foreach=False,  # unfused means one update per parameter
        capturable=capturable,
    )


def compile_model(policy: Policy, settings: CompileSettings) -> None:
    """Compile the model in place, so that names of parameters and checkpoints stay what they were."""
    if settings.mode != "none":
        from torch._inductor import config as inductor  # noqa: PLC0415 (seconds; only who compiles pays for it)

        # With torch's own generators a compiled model draws the masks and latents that the eager one would draw,
        # at the price of fusing less: for a look at correctness, not for speed.
        inductor.fallback_random = settings.fallback_random
        model = policy.model
        for part in [model] if settings.region == "model" else [model.styles, model.backbone, model.core]:
            part.compile(mode=settings.mode)
