"""What a lane holds while it measures, and the observer it reports to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from interlace.lane.nodes.local import LocalNode
from interlace.node import node_name
from interlace.slurm.nodelist import compact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from interlace.files import SweepDir
    from interlace.lane.nodes.node import Node
    from interlace.lane.nodes.remote import RemoteNode
    from interlace.monitor import GpuSource
    from interlace.schema import Arm, Run, RunRecord, Sweep
    from interlace.settings import Source


class Observer(Protocol):
    """Told what happens; it shows things and decides nothing."""

    def run_starts(self, run: Run, number: int, total: int, steps: int | None) -> None:
        """Announce run `number` of `total`, with the steps it is expected to make."""

    def progress(self, steps_seen: int, elapsed_s: float) -> None:
        """Tell how far the running one is."""

    def waiting(self, reasons: Sequence[str], waited_s: float) -> None:
        """Tell that the node is not empty, and why."""

    def run_ends(self, record: RunRecord) -> None:
        """Show a finished run; its record is on disk already."""

    def say(self, text: str) -> None:
        """Say one line that matters to the user."""


class Silent:
    """An observer that shows nothing; for tests and for use as a library."""

    def run_starts(self, run: Run, number: int, total: int, steps: int | None) -> None:
        """Show nothing."""

    def progress(self, steps_seen: int, elapsed_s: float) -> None:
        """Show nothing."""

    def waiting(self, reasons: Sequence[str], waited_s: float) -> None:
        """Show nothing."""

    def run_ends(self, record: RunRecord) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Lane:
    """A node, or several, at work on one sweep.

    `worktrees` maps an arm's slug to its checkout (None: current folder).
    `gpus` is asked at the gate, `monitors` during runs: the source for each `monitor.source` that an arm names.
    `ends_at` (unix seconds) is when the node is taken away: no round is begun that would not be over by then.
    `empty_mib` fills itself: the least memory (MiB) in use on each GPU (UUID) at any gate that found it empty.
    `others` are its nodes beside this one; `address` is this one, as they reach it.
    """

    sweep_dir: SweepDir
    sweep: Sweep
    worktrees: Mapping[str, Path | None]
    gpus: GpuSource
    environ: Mapping[str, str]
    observer: Observer
    monitors: Mapping[Source, GpuSource] = field(default_factory=dict)
    ends_at: float | None = None
    empty_mib: dict[str, float] = field(default_factory=dict)
    others: tuple[RemoteNode, ...] = ()
    address: str = "127.0.0.1"

    @property
    def node(self) -> str:
        """The name of its node, or of all of them in one, whatever their order."""
        return compact([node_name(), *(other.name for other in self.others)])

    def nodes(self) -> tuple[Node, ...]:
        """Return all its nodes, this one first, ready for a run."""
        label = node_name() if self.others else None
        own = LocalNode(node_name(), self.gpus, self.environ, self.monitors, label, self.empty_mib)
        return (own, *self.others)

    def arm(self, run: Run) -> Arm:
        """Return the arm that a run measures."""
        return self.sweep.arm(run.arm)
