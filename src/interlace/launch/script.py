"""A run as a shell script that repeats it by hand. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from interlace.launch.rendezvous import BY_HAND

if TYPE_CHECKING:
    from interlace.launch.command import Launch


def command_script(launch: Launch) -> str:
    """Write the run as a script that repeats it by hand, into a new folder: the run's own files stay as they are.

    A run of several nodes is to be built at `by_hand`.
    """
    run_dir = str(launch.env["INTERLACE_RUN_DIR"])
    lines = ["#!/usr/bin/env bash", "# Repeats this run by hand, outside Interlace; its output goes into a new folder."]
    lines += ["set -eu", *(_on_several(launch.at.nodes) if launch.at else ())]
    lines += ["repeat=$(mktemp -d)", 'mkdir "$repeat/steps" "$repeat/ranks"']
    lines += [f'cp {shlex.quote(f"{run_dir}/{name}")} "$repeat/"' for name in ("config.json", *launch.files)]
    lines += [
        f"unset {name}" if value is None else f"export {name}={_moved(value, run_dir)}"
        for name, value in sorted(launch.env.items())
    ]
    lines += ['echo "step logs go to $repeat/steps" >&2', f"cd {shlex.quote(str(launch.cwd))}"]
    lines += [f"exec {' '.join(_moved(word, run_dir) for word in launch.argv)}"]
    return "\n".join(lines) + "\n"


def _on_several(nodes: int) -> list[str]:
    return [
        f"# One of these has to run on each of {nodes} nodes, at the same time. Inside a job of theirs:",
        f"#   srun --overlap --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none --mem=0 command.sh",
        "# Without SLURM say on each which one it is, and where the first is: NODE_RANK=0 MASTER_ADDR=node1 command.sh",
        "node=${NODE_RANK:-${SLURM_NODEID:?which node is this? set NODE_RANK}}",
        'first=${MASTER_ADDR:-$(scontrol show hostnames "${SLURM_JOB_NODELIST:?set MASTER_ADDR}" | head -n 1)}',
        "port=${MASTER_PORT:-29400}",
    ]


def _moved(word: str, run_dir: str) -> str:
    """Quote a word for the shell, with the new folder in the place of the run's, and variables in theirs."""
    stands_for = {run_dir: '"$repeat"', **BY_HAND}
    parts = re.split(f"({'|'.join(map(re.escape, stands_for))})", word)
    quoted = (stands_for.get(part) or (shlex.quote(part) if part else "") for part in parts)
    return "".join(quoted) or shlex.quote("")
