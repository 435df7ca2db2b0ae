"""Interlace says what a change to distributed training code is worth.

In a notebook: `interlace.load(dir)` gives `.runs` and `.steps` (pandas) and `.analysis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.loaded import LoadedSweep

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(
    directory: str | Path,
    aa: str | Path | None = None,
    window: tuple[int, int] | None = None,
    baseline: str | None = None,
) -> LoadedSweep:
    """Load a sweep folder; see `interlace.loaded.load`. Heavy imports happen here, not at import."""
    from importlib import import_module  # noqa: PLC0415 (importing interlace stays light)

    loaded: LoadedSweep = import_module("interlace.loaded").load(directory, aa, window, baseline)
    return loaded
