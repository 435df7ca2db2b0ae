"""All that a run is made of, for every node, written down before it starts."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.files import write_json, write_text
from interlace.lane.nodes.node import RunSpec
from interlace.launch import Rendezvous, build_launch, by_hand, command_script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlace.lane.lane import Lane
    from interlace.lane.nodes.node import Node
    from interlace.launch import Launch
    from interlace.schema import Arm


@dataclass(frozen=True)
class Prepared:
    """What every node is to start; `log` is the trainer's own log, where the configuration names one."""

    specs: tuple[RunSpec, ...]
    log: Path | None


def out_dir(run_dir: Path, nodes: Sequence[Node], position: int) -> Path:
    """Return where a node's output goes: the run's folder for the first, one below it for every other."""
    return run_dir if position == 0 else run_dir / "nodes" / nodes[position].name


def prepare(lane: Lane, arm: Arm, run_dir: Path, nodes: Sequence[Node]) -> Prepared:
    """Build the run and write down what repeats it."""
    several = len(nodes) > 1
    places = _meeting(lane.address, nodes) if several else [None]
    tree = lane.worktrees[arm.slug]
    launches = [build_launch(arm, run_dir, tree, lane.environ, at) for at in places]
    script = build_launch(arm, run_dir, tree, lane.environ, by_hand(len(nodes))) if several else launches[0]
    for name, text in launches[0].files.items():
        write_text(run_dir / name, text)
    write_text(run_dir / "command.sh", command_script(script), executable=True)
    write_json(run_dir / "env.json", launches[0].env)
    write_json(run_dir / "config.json", arm.config)
    for at in range(1, len(nodes)):  # made here, so that a shared disk shows them here at once
        out_dir(run_dir, nodes, at).mkdir(parents=True)
    specs = (_spec(arm, run_dir, launch, out_dir(run_dir, nodes, at)) for at, launch in enumerate(launches))
    return Prepared(tuple(specs), launches[0].log)


def _meeting(address: str, nodes: Sequence[Node]) -> list[Rendezvous]:
    """Return the rendezvous of every node: on the first, at a port that is free there now."""
    with socket.socket() as one:
        one.bind(("", 0))
        port = str(one.getsockname()[1])
    return [Rendezvous(len(nodes), str(number), node.name, address, port) for number, node in enumerate(nodes)]


def _spec(arm: Arm, run_dir: Path, launch: Launch, out: Path) -> RunSpec:
    config = arm.config
    return RunSpec(
        str(run_dir), str(out), launch.argv, launch.env, str(launch.cwd), config.monitor, config.measure.window
    )
