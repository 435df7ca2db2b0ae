"""Synthetic samples of one robot's episodes, from a seed, through a real DataLoader to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.workloads.act.settings import DataSettings, ModelSettings, Settings

TO_UNIT = 1 / 255
"""Images are multiplied by this on the host or on the device: the same product, bit for bit."""


class Batch(NamedTuple):
    """images (B, 3, H, W) in 0..1 (or bytes), state (B, S), actions (B, T, A), is_pad (B, T)."""

    images: torch.Tensor
    state: torch.Tensor
    actions: torch.Tensor
    is_pad: torch.Tensor


class Episodes(Dataset[Batch]):
    """Sample `i` is the same in every process: a frame of a small pool, and noise that `i` seeds."""

    def __init__(self, sizes: ModelSettings, data: DataSettings, seed: int) -> None:
        self.sizes, self.data, self.seed = sizes, data, seed
        shape = (data.frames, *sizes.image)
        self.frames = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))

    def __len__(self) -> int:
        return self.data.samples

    def __getitem__(self, index: int) -> Batch:
        """Return one sample, without the batch dimension."""
        noise = torch.Generator().manual_seed(self.seed + 1 + index)
        chunk = self.sizes.chunk
        left = int(torch.randint(1, 4 * chunk, (), generator=noise))  # steps until the episode ends
        frame = self.frames[index % len(self.frames)]
        return Batch(
            images=frame if self.data.images == "uint8" else frame.float() * TO_UNIT,
            state=torch.randn(self.sizes.state, generator=noise),
            actions=torch.randn(chunk, self.sizes.action, generator=noise),
            is_pad=torch.arange(chunk) >= left,
        )


def batches(settings: Settings, rank: int, world_size: int, device: torch.device) -> Iterator[Batch]:
    """Yield batches on the host, epoch after epoch: the same ones for every arm, different ones for every rank."""
    data = settings.data
    episodes = Episodes(settings.model, data, settings.seed)
    sampler: DistributedSampler[Batch] = DistributedSampler(
        episodes, world_size, rank, seed=settings.seed, drop_last=True
    )
    loader = DataLoader(
        episodes,
        batch_size=settings.batch_size,
        sampler=sampler,
        num_workers=data.workers,
        prefetch_factor=data.prefetch if data.workers else None,
        pin_memory=device.type == "cuda",
        persistent_workers=data.workers > 0,
        drop_last=True,
    )
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


class Feed:
    """Hands batches to the device: when they are asked for, or one step ahead on a stream of their own.

    `next()` returns the batch of this step; `ahead()` is called once the step is on its way, and starts the copy of the
    next batch beside it (it does nothing with data.transfer=inline).
    """

    def __init__(self, source: Iterator[Batch], device: torch.device, *, ahead: bool) -> None:
        self.source, self.device = source, device
        on = ahead and device.type == "cuda"
        self.side = torch.cuda.Stream(device) if on else None  # type: ignore[no-untyped-call]
        self.waiting: Batch | None = None

    def next(self) -> Batch:
        """Return this step's batch on the device, images in 0..1."""
        if self.side is None:
            return _unit(_moved(next(self.source), self.device))
        batch = self._copying(self.side) if self.waiting is None else self.waiting
        self.waiting = None
        now = torch.cuda.current_stream(self.device)
        now.wait_stream(self.side)
        for tensor in batch:
            tensor.record_stream(now)  # the allocator may not hand this memory to the side stream before `now` is done
        return _unit(batch)

    def ahead(self) -> None:
        """Start the copy of the next batch."""
        if self.side is not None:
            self.waiting = self._copying(self.side)

    def _copying(self, side: torch.cuda.Stream) -> Batch:
        with torch.cuda.stream(side):
            return _moved(next(self.source), self.device)


def _moved(batch: Batch, device: torch.device) -> Batch:
    return Batch(*(tensor.to(device, non_blocking=True) for tensor in batch))


def _unit(batch: Batch) -> Batch:
    if batch.images.dtype is torch.uint8:
        return batch._replace(images=batch.images.float() * TO_UNIT)
    return batch
