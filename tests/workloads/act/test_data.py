"""Synthetic samples: the same for every arm, whatever way they travel."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
import torch

from interlace.workloads.act.data import Episodes, Feed, batches
from tests.workloads.act.small import settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # torch

CPU = torch.device("cpu")


def test_a_sample_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    one, other = (Episodes(chosen.model, chosen.data, chosen.seed) for _ in range(2))

    torch.manual_seed(7)
    first = one[5]
    torch.manual_seed(8)
    second = other[5]

    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first.actions, one[6].actions)


def test_samples_have_the_declared_shapes_and_some_are_padded(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    episodes = Episodes(chosen.model, chosen.data, chosen.seed)

    sample = episodes[0]
    padded = [bool(episodes[i].is_pad.any()) for i in range(40)]

    assert [tuple(part.shape) for part in sample] == [(3, 64, 64), (4,), (8, 4), (8,)]
    assert 0.0 <= sample.images.min() <= sample.images.max() <= 1.0
    assert not any(episodes[i].is_pad[0] for i in range(40))
    assert any(padded)
    assert not all(padded)


def test_ranks_see_different_samples_and_every_arm_the_same(tmp_path: Path) -> None:
    chosen = settings(tmp_path)

    rank0, rank1, again = (list(islice(batches(chosen, rank, 2, CPU), 3)) for rank in (0, 1, 0))

    assert all(torch.equal(a.actions, b.actions) for a, b in zip(rank0, again, strict=True))
    assert not any(torch.equal(a.actions, b.actions) for a, b in zip(rank0, rank1, strict=True))


def test_images_as_bytes_become_the_same_numbers(tmp_path: Path) -> None:
    feeds = [
        Feed(batches(settings(tmp_path, f"data.images={kind}"), 0, 2, CPU), CPU, ahead=ahead)
        for kind, ahead in (("float32", False), ("uint8", True))
    ]

    for _ in range(3):
        plain, as_bytes = (feed.next() for feed in feeds)
        feeds[1].ahead()
        assert torch.equal(plain.images, as_bytes.images)
        assert torch.equal(plain.actions, as_bytes.actions)


def test_an_epoch_ends_and_the_next_one_is_shuffled_anew(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "data.samples=8", "batch_size=2")

    epochs = list(islice(batches(chosen, 0, 2, CPU), 4))  # four samples a rank, two batches an epoch

    assert not torch.equal(epochs[0].actions, epochs[2].actions)


def test_a_loader_with_a_worker_yields_the_same(tmp_path: Path) -> None:
    plain = next(batches(settings(tmp_path), 0, 2, CPU))

    with_worker = next(batches(settings(tmp_path, "data.workers=1", "data.prefetch=1"), 0, 2, CPU))

    assert all(torch.equal(a, b) for a, b in zip(plain, with_worker, strict=True))
