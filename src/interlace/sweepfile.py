"""sweep.yaml: the arms as resolved, the baseline and the configuration, written before the first run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import msgspec
import yaml

from interlace.errors import ReadError
from interlace.files import write_text
from interlace.schema import FORMAT_VERSION, Sweep

if TYPE_CHECKING:
    from interlace.files import SweepDir
    from interlace.schema import Plan


@dataclass(frozen=True)
class SweepFile:
    """The file's content. `seed` and `base_order` repeat the plan's, for a reader."""

    sweep: Sweep
    seed: int
    base_order: tuple[str, ...]
    interlace_version: str
    format_version: int = FORMAT_VERSION


def write_sweep(sweep_dir: SweepDir, sweep: Sweep, plan: Plan, version: str) -> None:
    """Write sweep.yaml."""
    content = SweepFile(sweep, plan.seed, plan.base_order, version)
    text = yaml.safe_dump(msgspec.to_builtins(asdict(content)), sort_keys=False, allow_unicode=True, width=110)
    write_text(sweep_dir.sweep, "# Written by Interlace before the first run; `interlace report` reads it.\n" + text)


def read_sweep(sweep_dir: SweepDir) -> Sweep:
    """Read sweep.yaml. Raises ReadError naming the file."""
    try:
        data = yaml.safe_load(sweep_dir.sweep.read_text(encoding="utf-8"))
        return msgspec.convert(data, SweepFile).sweep
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ReadError(f"{sweep_dir.sweep} cannot be read: {error}") from error
