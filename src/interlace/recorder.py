"""The only module that WRITES step times: one file, standard library only, to import or copy into a trainer.

    from interlace.recorder import StepRecorder

    rec = StepRecorder()              # does nothing unless INTERLACE_STEP_DIR or `folder` says where to write
    for batch in batches:
        with rec.phase("forward"):
            loss = model(batch)
        ...
        rec.step()                    # at the END of each step

It never synchronises the device and never reads a tensor. A step's own time may therefore end before the
device has finished it; but a device queue is bounded and every later step waits for the earlier ones, so the
log's cumulative clock (`t_s`) is early by one queue at most at either end of a window, whatever is inside it.
Over 250 steps that is nothing; over one step it can be much. Readers therefore take windows from `t_s`.

The log (format 1), one JSON object a line, `rank-<RANK>.jsonl`:
    {"interlace": "steps", "format": 1, "rank": 0, "local_rank": 0, "world_size": 1, "pid": 1234,
     "clock": "perf_counter", "unit": "s", "start_unix_s": 1764432000.1}
    {"step": 1, "step_s": 0.012, "t_s": 0.012, "compiled": 3, "phases": {"forward": 0.004}, "loss": 0.5}
    {"end": true, "steps": 1}
`step` counts from 1. `t_s` is the recorder's clock: it stands still between a `step()` and a later `start()`,
so it is always the sum of the steps. `compiled` is there on steps during which torch compiled code, and says
how many times. Numbers that JSON lacks are written as the strings "nan", "inf", "-inf".
The last line is written by a clean close only.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import math
import numbers
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

FORMAT = 1
"""Version of the log. 1: first."""

FOLDER_VARIABLE = "INTERLACE_STEP_DIR"
RESERVED = frozenset({"step", "step_s", "t_s", "compiled", "phases", "end", "steps", "interlace"})

_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK")
_LOCAL_RANK_NAMES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_WORLD_SIZE_NAMES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")


class StepRecorder:
    """Writes one line a step into this rank's log; a cheap no-op when no folder is given.

    `folder` defaults to INTERLACE_STEP_DIR of the environment; `rank`, `local_rank` and `world_size` to
    what the launcher put there (torchrun and accelerate, Open MPI, srun), else to 0, 0, 1. The log is
    handed to the operating system every `flush_every_s` seconds of steps: a kill loses that much at most.
    Not thread-safe: one recorder belongs to one training loop. A process forked from its owner writes
    nothing.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        flush_every_s: float = 0.5,
    ) -> None:
        self.path: str | None = None
        self.steps = 0
        self._fd = -1
        self._pid = os.getpid()
        self._buffer: list[str] = []
        self._phases_ns: dict[str, int] = {}
        self._clock_ns = 0
        self._compiled = _compiled()
        self._flush_every_ns = int(flush_every_s * 1e9)
        where = folder or os.environ.get(FOLDER_VARIABLE)
        if where:
            header = _header(rank, local_rank, world_size)
            self.path, self._fd = _create(os.fspath(where), header["rank"])
            self._write((json.dumps(header) + "\n").encode())
            atexit.register(self._at_exit)
        self._mark_ns = self._flushed_ns = time.perf_counter_ns()

    @property
    def enabled(self) -> bool:
        """Whether steps are written anywhere."""
        return self._fd >= 0

    def start(self) -> None:
        """Begin a step here and now: time since the last `step()` (validation, a checkpoint) is left out."""
        self._mark_ns = time.perf_counter_ns()
        self._compiled = _compiled()
        self._phases_ns.clear()

    def step(self, **values: float | str | None) -> None:
        """End a step: its time is what passed since the previous `step()`, `start()` or construction.

        `values` are further numbers of this step (`loss=0.5`). A tensor is refused with a TypeError: reading
        it here would synchronise the device behind your back.
        """
        if self._fd < 0:
            return
        now_ns = time.perf_counter_ns()
        step_ns = now_ns - self._mark_ns
        self._mark_ns = now_ns
        self._clock_ns += step_ns
        self.steps += 1
        line = f'{{"step": {self.steps}, "step_s": {step_ns / 1e9:.9f}, "t_s": {self._clock_ns / 1e9:.9f}'
        compiled = _compiled()
        if compiled > self._compiled:
            line += f', "compiled": {compiled - self._compiled}'
        self._compiled = compiled
        if self._phases_ns:
            line += f', "phases": {_phases(self._phases_ns)}'
            self._phases_ns.clear()
        if values:
            line += _extras(values)
        self._buffer.append(line + "}\n")
        if now_ns - self._flushed_ns >= self._flush_every_ns:
            self.flush()

    def phase(self, name: str) -> contextlib.AbstractContextManager[object]:
        """Add the time of a `with` block to this step's phase `name`. Host time, like everything here."""
        return _NOTHING if self._fd < 0 else _Phase(self._phases_ns, name)

    def flush(self) -> None:
        """Hand what is buffered to the operating system. A full disk ends the log, never the training."""
        if self._fd < 0 or os.getpid() != self._pid:
            return
        lines, self._buffer = self._buffer, []
        if lines:
            self._write("".join(lines).encode())
        self._flushed_ns = time.perf_counter_ns()

    def close(self) -> None:
        """Flush, write the end line and close. Harmless when called again."""
        if self._fd >= 0:
            self._buffer.append(json.dumps({"end": True, "steps": self.steps}) + "\n")
            self._shut()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._shut()

    def _at_exit(self) -> None:
        # The interpreter keeps an uncaught exception here: a run that died of one has no clean end.
        if getattr(sys, "last_value", None) is None:
            self.close()
        else:
            self._shut()

    def _shut(self) -> None:
        atexit.unregister(self._at_exit)
        self.flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            sys.stderr.write(f"interlace recorder: {self.path}: {error}; no further steps are recorded\n")
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1


class _Phase:
    """One `with rec.phase(name)` block."""

    __slots__ = ("_name", "_start_ns", "_sums_ns")

    def __init__(self, sums_ns: dict[str, int], name: str) -> None:
        self._sums_ns = sums_ns
        self._name = name
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        took_ns = time.perf_counter_ns() - self._start_ns
        self._sums_ns[self._name] = self._sums_ns.get(self._name, 0) + took_ns


_NOTHING: contextlib.AbstractContextManager[object] = contextlib.nullcontext()


def _compiled() -> int:
    """How many frames torch.compile has compiled in this process, recompilations included; 0 without torch."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)  # not torch's public interface: it may be gone one day
    try:
        return int(counters["frames"]["total"]) if counters else 0
    except (KeyError, TypeError, ValueError):
        return 0


def _header(rank: int | None, local_rank: int | None, world_size: int | None) -> dict[str, Any]:
    env = os.environ
    # Only srun sets this one; the other SLURM_ counts describe the allocation, not the ranks.
    srun = "SLURM_STEP_NUM_TASKS" in env
    return {
        "interlace": "steps",
        "format": FORMAT,
        "rank": _number(env, rank, (*_RANK_NAMES, *(("SLURM_PROCID",) if srun else ())), 0),
        "local_rank": _number(env, local_rank, (*_LOCAL_RANK_NAMES, *(("SLURM_LOCALID",) if srun else ())), 0),
        "world_size": _number(env, world_size, (*_WORLD_SIZE_NAMES, "SLURM_STEP_NUM_TASKS"), 1),
        "pid": os.getpid(),
        "clock": "perf_counter",
        "unit": "s",
        "start_unix_s": round(time.time(), 6),
    }


def _number(env: Mapping[str, str], given: int | None, names: tuple[str, ...], default: int) -> int:
    if given is not None:
        return given
    for name in names:
        text = env.get(name, "")
        if text.isdigit():
            return int(text)
    return default


def _create(folder: str, rank: int) -> tuple[str, int]:
    """Create this rank's log. Never overwrites: a second or a restarted process of a rank gets its own."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - no pathlib: imported by every rank
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    names = [f"rank-{rank}.jsonl", f"rank-{rank}-p{os.getpid()}.jsonl"]
    names += [f"rank-{rank}-p{os.getpid()}-{n}.jsonl" for n in range(2, 100)]
    for name in names:
        path = os.path.join(folder, name)  # noqa: PTH118 - no pathlib, as above
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, flags, 0o644)
    raise FileExistsError(f"{folder}: too many step logs of rank {rank} and process {os.getpid()}; empty it")


def _phases(sums_ns: dict[str, int]) -> str:
    return "{" + ", ".join(f"{_quoted(name)}: {ns / 1e9:.9f}" for name, ns in sums_ns.items()) + "}"


def _extras(values: Mapping[str, object]) -> str:
    return "".join(f", {_quoted(name)}: {_plain(name, value)}" for name, value in values.items())


@functools.lru_cache(maxsize=256)
def _quoted(name: str) -> str:
    return json.dumps(name)


def _plain(name: str, value: object) -> str:
    """JSON text of one extra value, without ever asking a tensor for its content."""
    if name in RESERVED:
        raise ValueError(f"step({name}=...): the name belongs to the recorder; choose another")
    if type(value) is float or type(value) is int:  # the common case, far faster than the abstract classes
        return repr(value) if math.isfinite(value) else f'"{value}"'
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        return _plain(name, float(value))
    if value is None or isinstance(value, str):
        return json.dumps(value)
    raise TypeError(
        f"step({name}=...): {type(value).__name__} is not a Python number; pass {name}.item() yourself"
        " if you accept that it synchronises the device"
    )
