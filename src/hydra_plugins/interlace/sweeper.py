"""The bridge from Hydra to Interlace: overrides in, one request handed on. Everything else is ordinary Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


# A plain mapping: Hydra executes this file outside sys.modules, where a dataclass cannot be made.
ConfigStore.instance().store(
    group="hydra/sweeper",
    name="interlace",
    node={"_target_": "hydra_plugins.interlace.sweeper.InterlaceSweeper"},
    provider="interlace",
)


class InterlaceSweeper(Sweeper):
    """Hands the parsed overrides, and the function that composes one arm, to the task function."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what Hydra offers."""
        self.loader = hydra_context.config_loader
        self.task_function = task_function
        self.master = config

    def sweep(self, arguments: list[str]) -> None:
        """Hand on one request for the whole sweep; nothing runs inside Hydra."""
        from interlace.config import read_request  # noqa: PLC0415 (Hydra imports every plugin at each start)

        self.task_function(read_request(arguments, self.loader, self.master))
