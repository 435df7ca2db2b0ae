"""The node that this process runs on. The lane uses it for its own node, an agent for the agent's."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from interlace import process
from interlace.errors import LaunchError
from interlace.gate import wait_until_idle
from interlace.lane.nodes.node import NODE_VARIABLE, Begun, Ended
from interlace.lane.others import children_cpu_s
from interlace.lane.proof import Proof
from interlace.launch import applied
from interlace.monitor.foreign import Sightings
from interlace.monitor.sampler import Monitor
from interlace.monitor.samples import write_samples
from interlace.node import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlace.gate import GateResult
    from interlace.lane.nodes.node import Promise, RunSpec
    from interlace.monitor import GpuSource
    from interlace.monitor.sampler import MonitorResult
    from interlace.node import NodeInfo
    from interlace.settings import GateConfig, Source


class NodeRun:
    """One run on this node: its program, the monitor beside it, and the proof of where its ranks are."""

    def __init__(
        self, spec: RunSpec, source: GpuSource, environ: Mapping[str, str], idle_mib: Mapping[str, float | None]
    ) -> None:
        self._spec, self._environ = spec, environ
        sightings = Sightings(lambda pid: process.owner_of(pid, spec.run_dir))
        self._monitor = Monitor(source, spec.monitor.interval_s, idle_mib=idle_mib or None, sightings=sightings)
        self._proof = Proof(Path(spec.run_dir), spec.window, node=spec.env.get(NODE_VARIABLE))
        self._held = contextlib.ExitStack()
        self._child: process.Child | None = None
        self._seen: MonitorResult | None = None
        self._cpu_s = children_cpu_s()
        self._begun = False

    def start(self) -> Begun:
        """Begin to sample, then start the program in a session of its own."""
        spec, out = self._spec, Path(self._spec.out_dir)
        out.mkdir(parents=True, exist_ok=True)
        self._monitor.start()
        self._begun = True
        env = applied(self._environ, spec.env)
        opened = process.running(spec.argv, env, Path(spec.cwd), out / "stdout.log", out / "stderr.log")
        try:
            self._child = self._held.enter_context(opened)
        except LaunchError as error:
            return Begun(None, 0.0, str(error))
        return Begun(self._child.popen.pid, self._child.started_at)

    @property
    def child(self) -> process.Child | None:
        """The program, where it could be started."""
        return self._child

    def look(self, step: int) -> None:
        """Read the ranks back, if it is time to."""
        self._proof.at(step)

    def end(self) -> Ended:
        """End all that is left of it, and the sampling."""
        if not self._begun:
            return Ended(None)
        try:
            self._held.close()
        finally:
            self._seen = seen = self._monitor.stop()
        child = self._child
        return Ended(
            returncode=child.popen.returncode if child else None,
            stubborn=tuple(child.stubborn) if child else (),
            gpus=seen.gpus,
            sightings=seen.sightings,
            cpu_busy_pct=seen.cpu_busy_pct,
            notes=seen.notes,
            placements=tuple(self._proof.placements(seen.sightings)),
            children_cpu_s=children_cpu_s() - self._cpu_s,
            cpus=os.cpu_count() or 1,
        )

    def keep(self) -> None:
        """Write the samples beside the output."""
        if self._seen is not None:
            write_samples(Path(self._spec.out_dir) / "monitor.parquet", self._seen)


@dataclass
class LocalNode:
    """This machine. `gpus` is asked at the gate, `monitors` during runs; `environ` is what its ranks inherit.

    `empty_mib` fills itself: the least memory (MiB) in use on each GPU (UUID) at any gate that found it empty.
    """

    name: str
    gpus: GpuSource
    environ: Mapping[str, str]
    monitors: Mapping[Source, GpuSource] = field(default_factory=dict)
    label: str | None = None
    empty_mib: dict[str, float] = field(default_factory=dict)
    _idle_mib: Mapping[str, float | None] = field(default_factory=dict)
    _run: NodeRun | None = None

    def gate(self, config: GateConfig, on_wait: Callable[[Sequence[str], float], None]) -> Promise[GateResult]:
        """Wait for an empty node; remember how little memory an empty GPU shows."""

        def look() -> GateResult:
            result = wait_until_idle(config, self.gpus, on_wait=on_wait, empty_mib=self.empty_mib)
            self._idle_mib = result.idle_mib
            if result.ok and not result.reasons:
                for uuid, used_mib in result.idle_mib.items():
                    if used_mib is not None:
                        self.empty_mib[uuid] = min(used_mib, self.empty_mib.get(uuid, used_mib))
            return result

        return look

    def start(self, spec: RunSpec) -> Promise[Begun]:
        """Begin to sample, then start the program."""
        source = self.monitors.get(spec.monitor.source, self.gpus)
        self._run = NodeRun(spec, source, self.environ, self._idle_mib)
        return self._run.start

    def wait(self, timeout_s: float) -> None:
        """Sleep until the program has ended, at most so long."""
        if (child := self.child) is not None:
            process.wait(child, timeout_s)

    def returncode(self) -> int | None:
        """Return how the program ended."""
        return self.child.popen.poll() if self.child else None

    @property
    def child(self) -> process.Child | None:
        """The program of the run that is on."""
        return self._run.child if self._run else None

    def look(self, step: int) -> None:
        """Read the ranks back, if it is time to."""
        if self._run is not None:
            self._run.look(step)

    def end(self) -> Promise[Ended]:
        """End what is left of the run; nothing where there is none."""
        return self._run.end if self._run is not None else lambda: Ended(None)

    def keep(self) -> Promise[None]:
        """Write the samples."""
        return self._run.keep if self._run is not None else lambda: None

    def end_left(self, marker: str) -> Promise[dict[str, int]]:
        """End left-over ranks, known by the marker in their environment."""
        return lambda: end_left(marker)

    def fingerprint(self) -> Promise[NodeInfo]:
        """Describe this machine."""
        return lambda: fingerprint(self.gpus)


def end_left(marker: str) -> dict[str, int]:
    """End every process that carries a run folder below `marker`; return run folder -> how many there were."""
    left: dict[str, int] = {}
    for found in process.members(None, marker):
        with contextlib.suppress(psutil.Error):
            path = found.environ().get(process.MARKER, "")
            left[path] = left.get(path, 0) + 1
    with process.undisturbed():
        process.end(None, marker)
    return left
