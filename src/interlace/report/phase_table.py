"""Where the host spends a step, per arm, as a table of strings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.report.table import Table, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.compare import ArmSummary


def phase_table(arms: Sequence[ArmSummary]) -> Table | None:
    """Return one row an arm and one column a phase, or None where no trainer recorded any."""
    names = tuple(dict.fromkeys(name for arm in arms for name in arm.phases_s))
    if not names:
        return None
    # What is left of a step comes last, also where the first arm has phases that others lack.
    names = (*(name for name in names if name != "rest"), "rest")
    rows = tuple(
        (arm.name, *(milliseconds(arm.phases_s[name]) if name in arm.phases_s else "" for name in names))
        for arm in arms
        if arm.phases_s
    )
    return Table(("arm", *names), rows, frozenset(range(1, len(names) + 1)))
