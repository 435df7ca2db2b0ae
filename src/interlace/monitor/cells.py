"""The only reader of nvidia-smi's cells: numbers with units, `[N/A]` and its kin, bus ids, throttle masks.

Formats: `nvidia-smi --help-query-gpu`; bits of the mask: NVML API reference, nvmlClocksEventReasons.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from interlace.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")
_TO_STANDARD_UNIT = {
    "": 1.0,
    "%": 1.0,
    "mib": 1.0,
    "kib": 1.0 / 1024,
    "gib": 1024.0,
    "mhz": 1.0,
    "w": 1.0,
    "mw": 1e-3,
    "c": 1.0,
}
MOST_CHARS = 80
_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE)
_COLUMN = re.compile(r"[a-z]\w*(\.\w+)*")
_UNIT_OF_A_COLUMN = re.compile(r"\s*\[[^\]]*\]\s*$")

THROTTLE_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# These say that nothing asked for more, or that somebody chose the clock; they are not a brake.
_NOT_A_BRAKE = 0x1 | 0x2 | 0x100

# Renamed in driver 535 or spelt in two ways by nvidia-smi itself.
_ONE_NAME = {
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "clocks.current.sm": "clocks.sm",
    "gpu_uuid": "uuid",
    "gpu_name": "name",
    "gpu_bus_id": "pci.bus_id",
    "used_memory": "used_gpu_memory",
}
_FREE_TEXT = ("process_name", "name")


class Cell(NamedTuple):
    """A number, or None and the text that stood in its place."""

    value: float | None
    reason: str | None


class Table(NamedTuple):
    """Rows by column name (without unit), and the lines that were no rows."""

    rows: tuple[dict[str, str], ...]
    strays: tuple[str, ...]
    has_header: bool


def number(text: str | None) -> Cell:
    """Read one cell; memory comes in MiB, power in W. Any text that is no number gives None and itself."""
    stripped = (text or "").strip()
    match = _NUMBER.fullmatch(stripped)
    scale = _TO_STANDARD_UNIT.get(match[2].lower()) if match else None
    if match is None or scale is None:
        return Cell(None, printable(stripped, MOST_CHARS) or "empty cell")
    return Cell(float(match[1]) * scale, None)


def mask(text: str | None) -> tuple[int | None, str | None]:
    """Read a bit mask such as `0x0000000000000004`; None and the text where it is none."""
    stripped = (text or "").strip()
    try:
        return int(stripped, 16 if stripped.lower().startswith("0x") else 10), None
    except ValueError:
        return None, printable(stripped, MOST_CHARS) or "empty cell"


def throttle_names(bits: int | None) -> tuple[str, ...] | None:
    """Name the reasons in a mask, lowest bit first; a bit without a name keeps its number."""
    if bits is None:
        return None
    single = (1 << place for place in range(bits.bit_length()))
    return tuple(THROTTLE_BITS.get(bit, f"bit_{bit:#x}") for bit in single if bits & bit)


def is_throttled(bits: int | None) -> bool | None:
    """Say whether power, heat or a neighbour held the clock down; idleness and chosen clocks do not count."""
    return None if bits is None else bool(brakes(bits))


def brakes(bits: int) -> tuple[str, ...]:
    """Name the reasons in a mask that held the clock down."""
    return throttle_names(bits & ~_NOT_A_BRAKE) or ()


def sysfs_bus_id(text: str | None) -> str | None:
    """Spell a PCI address as sysfs does: `0000000F:01:00.0` -> `000f:01:00.0`; None where there is none."""
    match = _BUS_ID.search(text or "")
    if match is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.groups()[:3])
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match[4]}"


def column_name(text: str) -> str:
    """Return a column's one name: without its unit, new name for renamed fields."""
    bare = _UNIT_OF_A_COLUMN.sub("", text).strip().lower()
    return _ONE_NAME.get(bare, bare)


def parse_table(text: str, fields: Sequence[str] | None = None) -> Table:
    """Read CSV as nvidia-smi prints it, line by line.

    With `fields` (the query) columns count by position, because a driver may print another name than the
    one asked for; without, the first line that can be a header names them. Remarks may stand before it.
    Commas inside a process name belong to the name.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = [column_name(part) for part in fields] if fields else _header(lines)
    cut = [_split(line, names) for line in lines]
    head = next((place for place, cells in enumerate(cut) if cells and column_name(cells[0]) == names[0]), None)
    first = 0 if head is None else head + 1
    rows = tuple(dict(zip(names, cells, strict=True)) for cells in cut[first:] if cells)
    strays = tuple(line for place, line in enumerate(lines) if place != head and (place < first or not cut[place]))
    return Table(rows, strays, head is not None)


def _header(lines: Sequence[str]) -> list[str]:
    """Return the column names of the first line that has nothing else in it; none where there is no such line."""
    named = ([column_name(part) for part in line.split(",")] for line in lines)
    return next((names for names in named if all(_COLUMN.fullmatch(name) for name in names)), [])


def _split(line: str, names: list[str]) -> list[str] | None:
    """Split a line into as many cells as there are names; None where that is impossible."""
    parts = line.split(",")
    extra = len(parts) - len(names)
    if not names:
        return None
    if extra > 0:
        place = next((names.index(name) for name in _FREE_TEXT if name in names), None)
        if place is None:
            return None
        parts[place : place + extra + 1] = [",".join(parts[place : place + extra + 1])]
    return [part.strip() for part in parts] if extra >= 0 else None
