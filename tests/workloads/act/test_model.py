"""The ACT model: its counts, and switches that leave what it computes as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from interlace.workloads.act.data import Batch, Episodes
from interlace.workloads.act.policy import Policy, build_optimizer, compile_model
from interlace.workloads.act.resnet import FrozenNorm
from interlace.workloads.act.transformer import image_positions, sinusoids
from tests.workloads.act.small import settings

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.workloads.act.settings import Settings

pytestmark = pytest.mark.slow  # torch


def batch_of(chosen: Settings) -> Batch:
    episodes = Episodes(chosen.model, chosen.data, chosen.seed)
    return Batch(*(torch.stack(parts) for parts in zip(*(episodes[i] for i in range(3)), strict=True)))


def loss_and_gradients(chosen: Settings) -> tuple[float, list[torch.Tensor]]:
    torch.manual_seed(0)
    policy = Policy(chosen)
    torch.manual_seed(1)
    loss, _ = policy(batch_of(chosen))
    loss.backward()
    return loss.item(), [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]


def test_at_full_size_it_has_the_parameters_and_buffers_of_the_published_policy(tmp_path: Path) -> None:
    policy = Policy(settings(tmp_path, size="act"))

    parameters, buffers = list(policy.parameters()), list(policy.buffers())
    assert sum(p.numel() for p in parameters) == 51_613_582
    assert len(parameters) == 153
    assert all(p.requires_grad for p in parameters)
    assert sum(b.numel() * b.element_size() for b in buffers) == 285_696
    assert len(buffers) == 81
    assert sum(isinstance(m, nn.Dropout) for m in policy.modules()) == 28
    assert sum(isinstance(m, nn.MultiheadAttention) for m in policy.modules()) == 10
    assert sum(isinstance(m, nn.Conv2d) for m in policy.model.backbone.modules()) == 20


def test_every_parameter_has_a_gradient(tmp_path: Path) -> None:
    chosen = settings(tmp_path)

    _, gradients = loss_and_gradients(chosen)

    assert len(gradients) == len(list(Policy(chosen).parameters()))


@pytest.mark.parametrize(
    "switch",
    ["model.attention=sdpa", "model.attention=bmm", "model.positions=once", "model.tokens=list", "losses=device"],
)
def test_a_switch_for_speed_changes_no_number_beyond_rounding(switch: str, tmp_path: Path) -> None:
    plain_loss, plain = loss_and_gradients(settings(tmp_path, "model.dropout=0.0"))

    loss, gradients = loss_and_gradients(settings(tmp_path, "model.dropout=0.0", switch))

    assert loss == pytest.approx(plain_loss, rel=1e-5)
    for one, other in zip(gradients, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=1e-4)


def test_actions_behind_the_end_of_an_episode_do_not_count(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "model.dropout=0.0")
    torch.manual_seed(0)
    policy = Policy(chosen)
    batch = batch_of(chosen)
    is_pad = torch.arange(chosen.model.chunk).expand(3, -1) >= 3
    other = torch.where(is_pad[..., None], 1e3, batch.actions)

    losses = []
    for actions in (batch.actions, other):
        torch.manual_seed(1)
        loss, _ = policy(batch._replace(actions=actions, is_pad=is_pad))
        losses.append(loss.item())

    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_the_loss_is_the_masked_l1_and_ten_times_the_divergence_from_a_standard_normal(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "model.dropout=0.0", "losses=device")
    torch.manual_seed(0)
    policy = Policy(chosen)
    batch = batch_of(chosen)

    torch.manual_seed(1)
    loss, parts = policy(batch)
    torch.manual_seed(1)
    actions, mean, log_variance = policy.model(*batch)

    normal = torch.distributions.Normal
    divergence = torch.distributions.kl_divergence(normal(mean, (log_variance / 2).exp()), normal(0.0, 1.0))
    kl = divergence.sum(1).mean().item()
    l1 = (actions - batch.actions)[~batch.is_pad].abs().mean().item()
    assert parts["l1"].item() == pytest.approx(l1, rel=1e-5)
    assert parts["kl"].item() == pytest.approx(kl, rel=1e-5)
    assert loss.item() == pytest.approx(l1 + 10 * kl, rel=1e-5)


def test_losses_on_the_host_are_numbers_and_those_on_the_device_tensors(tmp_path: Path) -> None:
    for losses, kind in (("host", float), ("device", torch.Tensor)):
        chosen = settings(tmp_path, f"losses={losses}")
        _, parts = Policy(chosen)(batch_of(chosen))
        assert {type(value) for value in parts.values()} == {kind}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("region", ["model", "parts"])
def test_compiling_leaves_names_of_parameters_and_checkpoint_as_they_were(region: str, tmp_path: Path) -> None:
    chosen = settings(tmp_path, "compile.mode=default", f"compile.region={region}")
    policy = Policy(chosen)
    names, keys = [name for name, _ in policy.named_parameters()], list(policy.state_dict())

    compile_model(policy, chosen.compile)

    assert [name for name, _ in policy.named_parameters()] == names
    assert list(policy.state_dict()) == keys


def test_switches_leave_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    plain = list(Policy(settings(tmp_path)).state_dict())

    switched = Policy(settings(tmp_path, "model.attention=bmm", "model.positions=once", "model.tokens=list"))

    assert list(switched.state_dict()) == plain


def test_the_trunk_is_a_parameter_group_with_its_own_rate(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "optimizer.lr_backbone=5e-6")
    policy = Policy(chosen)

    rest, trunk = build_optimizer(policy, chosen.optimizer, capturable=False).param_groups

    assert (rest["lr"], trunk["lr"]) == (1e-5, 5e-6)
    assert {id(p) for p in trunk["params"]} == {id(p) for p in policy.model.backbone.parameters()}
    assert len(rest["params"]) + len(trunk["params"]) == len(list(policy.parameters()))


def test_a_frozen_norm_is_a_batch_norm_in_evaluation() -> None:
    frozen, norm = FrozenNorm(3), nn.BatchNorm2d(3).eval()
    vectors = {name: torch.rand(3) + 0.5 for name in ("weight", "bias", "mean", "variance")}
    frozen.load_state_dict(vectors)
    norm.load_state_dict(
        {"weight": vectors["weight"], "bias": vectors["bias"], "running_mean": vectors["mean"],
         "running_var": vectors["variance"]}, strict=False,
    )  # fmt: skip
    x = torch.randn(2, 3, 4, 5)

    torch.testing.assert_close(frozen(x), norm(x))


def test_positions_of_a_sequence_are_the_sinusoids_of_the_paper() -> None:
    table = sinusoids(5, 8)

    for place in range(5):
        for i in range(4):
            angle = torch.tensor(place / 10_000 ** (2 * i / 8))
            torch.testing.assert_close(table[place, 2 * i : 2 * i + 2], torch.stack((angle.sin(), angle.cos())))


def test_positions_of_an_image_say_the_row_in_the_first_half_and_the_column_in_the_second() -> None:
    table = image_positions(torch.zeros(2, 7, 3, 4), 8)

    assert table.shape == (1, 8, 3, 4)
    assert torch.equal(table[0, :4, :, 0], table[0, :4, :, 3])
    assert torch.equal(table[0, 4:, 0], table[0, 4:, 2])
    # The last row stands at a whole turn, less the small number that keeps an empty map from dividing by zero.
    torch.testing.assert_close(table[0, 0, 2, 0], torch.tensor(0.0), atol=1e-4, rtol=0)
    torch.testing.assert_close(table[0, 0, 0, 0], torch.tensor(2 * torch.pi / 3).sin(), atol=1e-5, rtol=0)
