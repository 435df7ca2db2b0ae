"""Step logs: from what a trainer printed or recorded to a step series. `read` a finished log, `Tail` a live.

What needs pandas (`read`, `slowest_rank`) is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlace.steplog.model import Options, Parsed, Reader, Remarks, Row, StepLog, Unit
from interlace.steplog.registry import names
from interlace.steplog.tail import Tail

if TYPE_CHECKING:
    from interlace.steplog.assemble import slowest_rank
    from interlace.steplog.reading import read

__all__ = [
    "Options",
    "Parsed",
    "Reader",
    "Remarks",
    "Row",
    "StepLog",
    "Tail",
    "Unit",
    "names",
    "read",
    "slowest_rank",
]

_LATER = {"read": "interlace.steplog.reading", "slowest_rank": "interlace.steplog.assemble"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
