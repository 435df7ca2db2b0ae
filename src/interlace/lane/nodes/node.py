"""What a lane asks of each of its nodes. One boundary; here (`local`) and elsewhere (`remote`, `agent`) answer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from interlace.monitor.foreign import Sighting  # noqa: TC001 (msgspec reads these at run time)
from interlace.schema import GpuSeen  # noqa: TC001
from interlace.settings import Environment, MonitorConfig  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlace.gate import GateResult
    from interlace.node import NodeInfo
    from interlace.settings import GateConfig

T = TypeVar("T")

Promise: TypeAlias = Callable[[], T]
"""An answer that is asked for already; calling it waits for it. So all nodes work at once, without threads."""

NODE_VARIABLE = "INTERLACE_NODE"
"""Tells the ranks of a lane of several nodes on which of them they run; the wrapper writes it down."""


@dataclass(frozen=True)
class RunSpec:
    """What one node is to start for one run.

    `out_dir` takes its output; `env` comes on top of the node's own (None: taken away).
    """

    run_dir: str
    out_dir: str
    argv: tuple[str, ...]
    env: Environment
    cwd: str
    monitor: MonitorConfig
    window: list[int]


@dataclass(frozen=True)
class Begun:
    """Whether the program started: its pid and moment (unix seconds), or why it cannot."""

    pid: int | None
    started_at: float
    cannot_start: str | None = None


@dataclass(frozen=True)
class Ended:
    """What one node has to tell of a run that is over. `children_cpu_s` is the CPU time of all that it started.

    `placements` are its own ranks as found while they made steps; `stubborn` the pids that would not end.
    """

    returncode: int | None
    stubborn: tuple[int, ...] = ()
    gpus: tuple[GpuSeen, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    cpu_busy_pct: float | None = None
    notes: tuple[str, ...] = ()
    placements: tuple[dict[str, Any], ...] = ()
    children_cpu_s: float = 0.0
    cpus: int = 1


class Node(Protocol):
    """One node of a lane. `label` names it in records and messages; None where the lane has only this one.

    Every method may raise NodeLostError, or the promise it returns does.
    """

    @property
    def name(self) -> str:
        """What the node is called."""
        ...

    @property
    def label(self) -> str | None:
        """The name, where it has to be told from others."""
        ...

    def gate(self, config: GateConfig, on_wait: Callable[[Sequence[str], float], None]) -> Promise[GateResult]:
        """Wait until the node is empty, as `config` says."""
        ...

    def start(self, spec: RunSpec) -> Promise[Begun]:
        """Begin to watch the node, then start the run's program on it."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Sleep until the program has ended, at most so long."""
        ...

    def returncode(self) -> int | None:
        """Return how the program ended; None while it runs, or could not be started."""
        ...

    def look(self, step: int) -> None:
        """Read back where the ranks of this node run, if `step` is a moment to do so."""
        ...

    def end(self) -> Promise[Ended]:
        """End what is left of the run, and tell what was seen of it."""
        ...

    def keep(self) -> Promise[None]:
        """Write down what the monitor sampled."""
        ...

    def end_left(self, marker: str) -> Promise[dict[str, int]]:
        """End what dead orchestrators left here; return run folder -> number of processes."""
        ...

    def fingerprint(self) -> Promise[NodeInfo]:
        """Describe the machine."""
        ...


def all_of(promises: Iterable[Promise[T]]) -> list[T]:
    """Ask everybody first, then collect: the nodes work side by side."""
    return [promise() for promise in list(promises)]
