"""Puts the `sweeps/` and `launchers/` folders beside `conf/` on Hydra's search path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hydra.plugins.search_path_plugin import SearchPathPlugin

import interlace

if TYPE_CHECKING:
    from hydra.core.config_search_path import ConfigSearchPath


class InterlaceSearchPath(SearchPathPlugin):
    """Adds the two groups, only where Interlace itself is the application: other apps keep their own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folder that holds `sweeps` and `launchers`."""
        tree = Path(interlace.__file__).resolve().parent / "_tree"
        main = [item.path for item in search_path.get_path() if item.provider == "main"]
        if main == [str(tree / "conf")]:
            search_path.append(provider="interlace", path=f"file://{tree / 'groups'}")
