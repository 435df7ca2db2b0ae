"""What `accelerate launch` decided by itself: defaults that nobody passed, a configuration of the user's. Reads only.

Both make one machine train differently from another, silently. Under launchers=accelerate neither applies: there
every value is passed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlace.settings import SweepConfig

HEAD_BYTES = 262_144
"""How much of a log's begin is searched: accelerate speaks before the ranks do."""

_DEFAULT = re.compile(r"`--(\w+)` was set to (?:a value of )?`'?([^'`\n]*)'?`")
_TOLD = re.compile(
    r"(?:^|[{,])\W*(distributed_type|mixed_precision|num_machines|num_processes|use_cpu)\W+(\w+)", re.MULTILINE
)


def defaults_used(text: str) -> dict[str, str]:
    """Return the values that accelerate says it took because nobody passed them."""
    return dict(_DEFAULT.findall(text))


def user_config(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration that `accelerate launch` reads where it is given none; None where there is none."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/")) / ".cache") / "huggingface"
    folder = Path(environ.get("HF_HOME") or cache) / "accelerate"
    names = (folder / f"default_config.{ending}" for ending in ("yaml", "json"))
    return next((path for path in names if path.is_file()), None)


def accelerate_notes(config: SweepConfig, environ: Mapping[str, str], stderr: Path) -> list[str]:
    """Say what a run's accelerate was not told: `environ` is that of the run, `stderr` its error stream."""
    notes = []
    if taken := defaults_used(_head(stderr)):
        shown = ", ".join(f"{name}={value}" for name, value in taken.items())
        notes.append(f"accelerate took defaults that nothing states: {shown}; pass them, or use launchers=accelerate")
    if _reads_user_config(config) and (path := user_config(environ)):
        said = ", ".join(f"{name}={value}" for name, value in _TOLD.findall(path.read_text(errors="replace")))
        notes.append(
            f"accelerate read {path}{f' ({said})' if said else ''}, which another machine may not have: "
            "give --config_file, or use launchers=accelerate"
        )
    return notes


def _reads_user_config(config: SweepConfig) -> bool:
    """Whether the command starts `accelerate launch` itself and names no configuration."""
    words = (config.workload.command or "").split()
    starts = any(Path(word).name in ("accelerate", "accelerate-launch", "accelerate.commands.launch") for word in words)
    return starts and config.ranks.kind != "accelerate" and not any("--config_file" in word for word in words)


def _head(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(HEAD_BYTES).decode(errors="replace")
