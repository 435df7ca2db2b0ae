"""One rank's trace as columns: only what the metrics need. Reads a file; all else is pure.

Categories and names changed over the years: docs/traces.md lists what is taken for what.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from interlace.errors import ReadError
from interlace.trace.decode import File, mended, pieces, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from interlace.trace.decode import Event

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

KERNEL, COPY = frozenset({"kernel", "Kernel"}), frozenset({"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"})
API = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "Runtime"})
OPERATOR = frozenset({"cpu_op", "Operator"})
STEP = re.compile(r"ProfilerStep#(\d+)")
DATA = re.compile(r"enumerate\(Data(Loader|Pipe)\)#")
COMMUNICATION = re.compile(r"nccl|rccl|multimem_|cross_device_reduce|(one|two)_shot_all_reduce", re.IGNORECASE)
LAUNCH = re.compile(r"Launch|Memcpy.*Async|Memset.*Async")
SYNC = re.compile(
    r"(cuda|hip)(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize"
    r"|(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol)?|hipMemcpyWithStream|cuMemcpy(DtoH|HtoD)"
)
ALLOCATION = re.compile(r"(cuda|hip)(Malloc|Free|HostAlloc|FreeHost|MallocHost|HostMalloc|HostFree)|cuMem(Alloc|Free)")
SUFFIX = re.compile(r"(_ptsz|_ptds|_v\d+)+$")
BYTES = {"Float": 4, "BFloat16": 2, "Half": 2, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1, "Bool": 1}
NAMED_RANK = re.compile(r"(?:rank|worker)[-_]?(\d+)")
FAR = 10
"""GPU events further away than this many times the profiled span carry a broken clock."""


@dataclass(frozen=True)
class Calls:
    """Calls on the host in order of their begin (us): of the driver, or operators; `correlation` is -1 without one."""

    begin: Floats
    end: Floats
    thread: Ints
    correlation: Ints
    name: tuple[str, ...]

    def chosen(self, which: Bools) -> Calls:
        """Return some of them."""
        names = tuple(self.name[index] for index in np.flatnonzero(which))
        return Calls(self.begin[which], self.end[which], self.thread[which], self.correlation[which], names)


@dataclass(frozen=True)
class Collective:
    """What a communication kernel moved: its name, the bytes that went in, and how many ranks took part."""

    name: str
    bytes: int
    ranks: int | None


@dataclass(frozen=True)
class Trace:
    """Columns of one rank's trace; times in us since its first event.

    `gpu` are spans of kernels and copies, shape (n, 2), in order of their begin, with `copy` and `comm` marking copies
    and communication. `steps` and `data` are spans on the host: profiler steps, and waiting for a data loader.
    `host` are first and last moment of work on the host. `remarks` say what was odd about the file.
    """

    name: str
    gpu: Floats
    gpu_name: tuple[str, ...]
    gpu_correlation: Ints
    copy: Bools
    comm: Bools
    collectives: tuple[Collective | None, ...]
    launches: Calls
    syncs: Calls
    allocations: Calls
    operators: Calls
    steps: Floats
    step_number: Ints
    step_thread: Ints
    data: Floats
    host: tuple[float, float]
    rank: int | None = None
    world_size: int | None = None
    remarks: tuple[str, ...] = ()


def read_trace(path: Path) -> Trace:
    """Read one rank's trace, packed or not. Raises ReadError naming the file and what is wrong with it."""
    text = text_of(path)
    kept = _Kept()
    remarks: list[str] = []
    try:
        for piece in pieces(text):
            kept.add(piece)
    except msgspec.DecodeError:
        whole, remark = mended(path, text)
        kept, remarks = _Kept(), [remark]
        kept.add(whole)
    if not np.isfinite(kept.first):
        raise ReadError(f"{path}: a trace without any timed event; was the profiler stopped before its first step?")
    return kept.columns(path.name, remarks)


@dataclass
class _Kept:
    """The events that matter, while a file is read."""

    gpu: list[Event] = field(default_factory=list)
    api: list[Event] = field(default_factory=list)
    operators: list[Event] = field(default_factory=list)
    steps: dict[int, Event] = field(default_factory=dict)
    data: list[Event] = field(default_factory=list)
    first: float = np.inf
    rank: int | None = None
    world_size: int | None = None

    def add(self, piece: File) -> None:
        if piece.distributed is not None:
            self.rank, self.world_size = piece.distributed.rank, piece.distributed.world_size
        for event in piece.events:
            if event.ph != "X" or not event.ts:
                continue
            self.first = min(self.first, event.ts)
            event.name = intern(str(event.name))
            if event.cat in KERNEL or event.cat in COPY:
                self.gpu.append(event)
            elif event.cat in API:
                event.name = intern(SUFFIX.sub("", event.name))
                self.api.append(event)
            elif event.cat in OPERATOR or event.cat == "user_annotation":
                self._host(event)

    def _host(self, event: Event) -> None:
        if (step := STEP.fullmatch(event.name)) is not None:
            self.steps.setdefault(int(step[1]), event)
        elif DATA.match(event.name):
            self.data.append(event)
        elif event.cat in OPERATOR:
            event.args = None  # there are many of them, and nothing of theirs is used
            self.operators.append(event)

    def columns(self, name: str, remarks: list[str]) -> Trace:
        origin = self.first
        number = sorted(self.steps, key=lambda one: self.steps[one].ts or 0.0)
        steps = [self.steps[one] for one in number]
        work = self.api or self.operators
        host = _spans([*self.operators, *self.api], origin)[:, 0], _spans(work, origin)[:, 1]
        gpu, far = _near(sorted(self.gpu, key=_begin), _spans(steps or work, origin), origin)
        if far:
            remarks.append(f"{far} GPU events lie far outside the profiled time (a broken clock) and are left out")
        threads: dict[object, int] = {}
        launches, syncs, allocations = (
            _calls((event for event in self.api if matches(event.name)), origin, threads)
            for matches in (LAUNCH.search, SYNC.fullmatch, ALLOCATION.fullmatch)
        )
        comm = np.array(
            [bool(COMMUNICATION.search(event.name)) and event.cat in KERNEL for event in gpu], dtype=np.bool_
        )
        return Trace(
            name=name,
            gpu=_spans(gpu, origin),
            gpu_name=tuple(event.name for event in gpu),
            gpu_correlation=_correlations(gpu),
            copy=np.array([event.cat in COPY for event in gpu], dtype=np.bool_),
            comm=comm,
            collectives=tuple(
                _collective(event) if is_comm else None for event, is_comm in zip(gpu, comm, strict=True)
            ),
            launches=launches,
            syncs=syncs,
            allocations=allocations,
            operators=_calls(self.operators, origin, threads),
            steps=_spans(steps, origin),
            step_number=np.array(number, dtype=np.int64),
            step_thread=_threads(steps, threads),
            data=_spans(self.data, origin),
            host=(float(host[0].min()), float(host[1].max())) if work else (0.0, 0.0),
            rank=_rank_in(name) if self.rank is None else self.rank,
            world_size=self.world_size,
            remarks=tuple(remarks),
        )


def _rank_in(name: str) -> int | None:
    found = NAMED_RANK.search(name)
    return int(found[1]) if found else None


def _begin(event: Event) -> float:
    return event.ts or 0.0


def _spans(events: Sequence[Event], origin: float) -> Floats:
    if not events:
        return np.empty((0, 2))
    begin = np.array([event.ts for event in events], dtype=np.float64) - origin
    return np.column_stack((begin, begin + np.maximum([event.dur or 0.0 for event in events], 0.0)))


def _near(gpu: list[Event], profiled: Floats, origin: float) -> tuple[list[Event], int]:
    """Leave out GPU events whose clock is broken; say how many."""
    if len(profiled) == 0:
        return gpu, 0
    first, last = float(profiled[:, 0].min()), float(profiled[:, 1].max())
    reach = FAR * max(last - first, 1.0)
    near = [event for event in gpu if first - reach <= _begin(event) - origin <= last + reach]
    return near, len(gpu) - len(near)


def _calls(events: Iterable[Event], origin: float, threads: dict[object, int]) -> Calls:
    ordered = sorted(events, key=_begin)
    spans = _spans(ordered, origin)
    names = tuple(event.name for event in ordered)
    return Calls(spans[:, 0], spans[:, 1], _threads(ordered, threads), _correlations(ordered), names)


def _threads(events: Sequence[Event], threads: dict[object, int]) -> Ints:
    return np.array([threads.setdefault((event.pid, event.tid), len(threads)) for event in events], dtype=np.int64)


def _correlations(events: Sequence[Event]) -> Ints:
    return np.array([_correlation(event) for event in events], dtype=np.int64)


def _correlation(event: Event) -> int:
    found = str(event.args.correlation) if event.args is not None else ""
    return int(found) if found.isdigit() else -1


def _collective(event: Event) -> Collective:
    args = event.args
    if args is None or args.collective is None:
        return Collective("unknown", 0, None)
    elements = args.elements if isinstance(args.elements, int) else 0
    ranks = args.group_size if isinstance(args.group_size, int) else None
    return Collective(str(args.collective), elements * BYTES.get(str(args.dtype), 0), ranks)
