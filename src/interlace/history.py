"""How noisy this node has been: a line per finished sweep in the user's state folder. The only memory across sweeps."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.files import SweepDir
    from interlace.settings import WorkloadConfig

UNUSUAL = 2.0
"""Today's noise is worth a word when it is more than twice, or less than half, of what is usual."""

FEWEST = 3
"""Earlier sweeps that make something usual."""


@dataclass(frozen=True)
class Noise:
    """Run-to-run noise of one sweep: relative sd of a run's statistic, and the drift over the sweep."""

    node: str
    workload: str
    at: float
    s_run: float
    drift: float | None
    sweep: str


def node_key(fingerprint: Mapping[str, Any]) -> str:
    """Return a short name of a machine: its host name and its GPUs, hashed; a node that is rebuilt is a new one."""
    gpus = sorted(str(one.get("gpu", {}).get("uuid")) for one in fingerprint.get("gpus") or [])
    text = json.dumps([fingerprint.get("hostname"), gpus])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fingerprints(sweep_dir: SweepDir) -> list[dict[str, Any]]:
    """Read the fingerprints of the machine, or of all machines, that a sweep was measured on."""
    paths = [sweep_dir.node, *sorted(sweep_dir.nodes.glob("*.json"))]
    return [read_json(path, dict) for path in paths]


def machine_key(sweep_dir: SweepDir) -> str:
    """Return a short name of what a sweep was measured on; several nodes have one of their own, in any order."""
    keys = sorted(node_key(one) for one in fingerprints(sweep_dir))
    return keys[0] if len(keys) == 1 else hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:12]


def workload_key(workload: WorkloadConfig) -> str:
    """Return a name that two different programs do not share: the workload's, and a hash of what it runs."""
    text = json.dumps([workload.command, workload.module, workload.settings], default=str, sort_keys=True)
    return f"{workload.name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def history_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the history lies: $XDG_STATE_HOME/interlace/noise.jsonl, by default under ~/.local/state."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(base) / "interlace" / "noise.jsonl"


def remember(noise: Noise, path: Path) -> list[Noise]:
    """Append one sweep; return the earlier ones of its node and workload. A file it cannot use is left alone."""
    known = recall(path)
    before = [
        one for one in known if (one.node, one.workload) == (noise.node, noise.workload) and one.sweep != noise.sweep
    ]
    if any(one.sweep == noise.sweep for one in known):
        return before
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(noise), allow_nan=False) + "\n")
    except (OSError, ValueError):
        pass
    return before


def recall(path: Path) -> list[Noise]:
    """Read the history; a line that is none (a torn one, say) is passed over."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    for line in lines:
        try:
            found.append(Noise(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def unusual(noise: Noise, before: Sequence[Noise]) -> str | None:
    """Say that today's noise is far from what this node and workload usually show; None where it is not."""
    if len(before) < FEWEST:
        return None
    usual = statistics.median(one.s_run for one in before)
    if usual / UNUSUAL <= noise.s_run <= usual * UNUSUAL:
        return None
    word = "noisier" if noise.s_run > usual else "quieter"
    return (
        f"this node is {word} than usual: run-to-run sd {100 * noise.s_run:.2g} %, "
        f"median of {len(before)} earlier sweeps of this workload {100 * usual:.2g} %"
    )


def now() -> float:
    """Return the time of a record."""
    return time.time()
