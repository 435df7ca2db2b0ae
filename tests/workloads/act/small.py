"""The ACT job at sizes of milliseconds, with whatever a test changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from interlace.workloads.act.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

CONF = Path(__file__).parents[3] / "conf" / "workload"


def settings(tmp_path: Path, *changes: str, size: str = "act_small") -> Settings:
    """Read settings as a rank does: from the file that the orchestrator writes, with dotted `changes`."""
    merged = OmegaConf.load(CONF / "act.yaml").workload
    if size == "act_small":
        merged = OmegaConf.merge(merged, OmegaConf.load(CONF / "act_small.yaml").workload)
    merged = OmegaConf.merge(merged, OmegaConf.from_dotlist(list(changes)))
    return read_settings(write_config(tmp_path, OmegaConf.to_container(merged)))


def write_config(tmp_path: Path, own: Any, common: Sequence[str] = ("name", "module", "steps")) -> Path:
    workload = {key: own[key] for key in common}
    workload["settings"] = {key: value for key, value in own.items() if key not in common}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"workload": workload}))
    return path
