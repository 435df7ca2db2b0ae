"""What the wrappers of a run's ranks wrote down. Apart from the logs, so that an agent reads it without pandas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_ranks(run_dir: Path) -> list[dict[str, Any]]:
    """Read what each rank's wrapper found and bound, in the order of ranks."""
    ranks = [json.loads(path.read_text()) for path in (run_dir / "ranks").glob("rank-*.json")]
    return sorted(ranks, key=lambda rank: int(rank.get("rank") or 0))
