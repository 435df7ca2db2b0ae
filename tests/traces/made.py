"""Traces written by hand, in the layout that torch's exporter gives them. Times in microseconds."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interlace.trace.columns import read_trace
from interlace.trace.metrics import measure

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.trace.metrics import RankMetrics

HOST, GPU = {"pid": 100, "tid": 100}, {"pid": 0, "tid": 7}
EPOCH_US = 5179335460000.5


@dataclass
class Made:
    """Events of one rank, added one after another."""

    rank: int | None = None
    world: int = 1
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, cat: str, name: str, ts: float, dur: float, where: dict[str, int], **args: object) -> None:
        """Add one event of any kind."""
        event = {"ph": "X", "cat": cat, "name": name, **where, "ts": EPOCH_US + ts, "dur": dur}
        self.events.append({**event, "args": args} if args else event)

    def step(self, number: int, ts: float, dur: float) -> None:
        """Add a profiler step, and its twin on the GPU, which counts for nothing."""
        for cat, where in (("user_annotation", HOST), ("gpu_user_annotation", GPU)):
            self.add(cat, f"ProfilerStep#{number}", ts, dur, where)

    def kernel(self, launched: float, ts: float, dur: float, name: str = "gemm", **args: object) -> None:
        """Add a kernel and the call (1 us) that launched it."""
        number = len(self.events) + 1
        self.add("cuda_runtime", "cudaLaunchKernel", launched, 1, HOST, correlation=number)
        self.add("kernel", name, ts, dur, GPU, correlation=number, **args)

    def reduce(self, launched: float, ts: float, dur: float) -> None:
        """Add an all-reduce of 4,000 bytes."""
        args = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": self.world}
        self.kernel(launched, ts, dur, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **args)

    def sync(self, ts: float, dur: float, name: str = "cudaStreamSynchronize", thread: int = 100) -> None:
        """Add a call that waits for the device."""
        self.add("cuda_runtime", name, ts, dur, {"pid": 100, "tid": thread}, correlation=0)

    def text(self) -> bytes:
        """Return the file as torch's exporter lays it out."""
        known = f'"distributedInfo": {{"rank": {self.rank}, "world_size": {self.world}}},\n'
        flow = {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": EPOCH_US, "cat": "ac2g", "name": "ac2g", "bp": "e"}
        events = ",".join(
            "\n  " + json.dumps(event, indent=4).replace("\n}", "\n  }") for event in (flow, *self.events)
        )
        device = '  "deviceProperties": [\n    {\n      "id": 0, "name": "GPU", "totalGlobalMem": 1\n    }\n  ],\n'
        head = '{\n  "schemaVersion": 1,\n' + device
        head += known if self.rank is not None else ""
        return f'{head}  "traceEvents": [{events}\n  ],\n  "traceName": "x"\n}}\n'.encode()

    def written(self, path: Path) -> Path:
        """Write the file, packed where its name says so."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(self.text()) if path.suffix == ".gz" else self.text())
        return path

    def measured(self, folder: Path, name: str = "rank-0.json") -> RankMetrics:
        """Write, read and measure."""
        return measure(read_trace(self.written(folder / name)))


def plain(rank: int | None = None, world: int = 1, steps: int = 2, reduce_us: float = 0.0) -> Made:
    """Return steps of 1,000 us, each with a kernel of 200 us that starts at 100, and maybe an all-reduce at 400."""
    made = Made(rank, world)
    for number in range(steps):
        begin = 1000.0 * number
        made.step(number, begin, 1000)
        made.kernel(begin + 95, begin + 100, 200)
        if reduce_us:
            made.reduce(begin + 110, begin + 400, reduce_us)
    return made
