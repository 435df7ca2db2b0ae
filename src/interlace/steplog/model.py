"""The words of the step-log readers: what a reader takes in, what it hands on, what comes out. No effects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pandas as pd

    from interlace.steplog.text import Record

Unit = Literal["s", "ms", "us", "ns"]
PER_SECOND: dict[str, float] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""How many of a unit make a second; dividing by it keeps 410 ms at exactly 0.41 s."""

Kind = Literal["single", "mean", "smoothed", "not said"]
"""What one value is: one step's time, a mean over the steps since the last value, a running average, not known."""

MAX_EXTRA_COLUMNS = 64
MAX_SHOWN = 20


class Row(NamedTuple):
    """One step of one rank as the log states it. `step` is None where the log does not number it."""

    step: int | None
    step_s: float
    rank: int = -1
    end_s: float = math.nan
    extra: Mapping[str, float] | None = None
    line: int = 0


@dataclass(frozen=True)
class Options:
    """What the user said about the log. `named`: the reader was asked for by name, not recognised."""

    pattern: str | None = None
    unit: Unit = "s"
    named: bool = False


@dataclass
class Remarks:
    """Collects what has to be said about a log while it is read. Every remark starts with `code: `."""

    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    torn: int = 0
    _unshown: int = 0

    def note(self, code: str, text: str) -> None:
        """Say something that was inferred, ignored or dropped."""
        self.notes.append(f"{code}: {text}")

    def withdraw(self, code: str) -> None:
        """Take notes back that what was found later makes untrue."""
        self.notes = [note for note in self.notes if not note.startswith(f"{code}: ")]

    def error(self, code: str, line: int, text: str, why: str = "") -> None:
        """Say that `line` was not understood, and show it. Beyond 20 of them only the number is kept."""
        self.torn += code == "torn_record"
        if len(self.errors) < MAX_SHOWN:
            self.errors.append(f"{code}:{line}: {why}{': ' if why else ''}`{shorten(text)}`")
        else:
            self._unshown += 1

    def sort_errors(self) -> None:
        """Put the errors in the order of their lines, where some were found late."""
        self.errors.sort(key=lambda error: int(error.split(":", 2)[1]))

    def tangled(self) -> bool:
        """Whether records of this log were cut or put together, so that others may be mixed without a trace."""
        return self.torn > 0 or any(note.startswith("joined_records") for note in self.notes)

    def all_errors(self) -> tuple[str, ...]:
        """Every error, the ones beyond the limit as one number."""
        more = (f"more_errors: {self._unshown} more lines were not understood",) if self._unshown else ()
        return (*self.errors, *more)


@dataclass(frozen=True)
class Parsed:
    """What one reader made of one log, before the rows are put in order."""

    rows: list[Row]
    remarks: Remarks
    world_size: int | None = None
    ended: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    reduced: str | None = None
    kind: Kind = "not said"


class Reader(Protocol):
    """One log format. A new format is one such object in a small module, and a line in `registry.READERS`.

    `anywhere`: whether the format may begin below other output (False: it begins with the file). An attribute
    `facts` (label -> sentence, as in `steplog.facts`) is shown by `interlace steps`.
    """

    @property
    def name(self) -> str:
        """What `reader=` calls it."""

    @property
    def anywhere(self) -> bool:
        """Whether other output may stand above the first record."""

    def recognise(self, head: str) -> str | None:
        """Say in a few words what marks this format in `head`, or None."""

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all records; rows may be empty, nothing is raised for a line that is not understood."""

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function from a record's text to the (rank, step) pairs in it; step None: unnumbered."""


class FileReader:
    """A format that is no text, or that has to be seen as a whole: a file, or a folder, read by its path.

    Subclasses define `recognise_path` and `read_path`; what a reader of text needs is answered here.
    """

    name = ""
    anywhere = False
    text = False
    """Whether the format has a form of text beside it, so that `recognise` and `parse` are defined too."""

    def recognise_path(self, path: Path, head: bytes) -> str | None:
        """Say in a few words what marks this format in a file's first bytes (a folder: b""), or None."""
        raise NotImplementedError

    def read_path(self, path: Path, options: Options) -> Parsed:
        """Read the whole; rows may be empty. Raises ReadError where the file cannot be what it seemed."""
        raise NotImplementedError

    def recognise(self, head: str) -> str | None:
        """Return None: a text is none of this format."""
        del head
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Return no rows: a stream of text is none of this format."""
        del records, options
        return Parsed([], Remarks())

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that finds nothing: such files are not followed while they grow."""
        del options
        return lambda _text: ()


@dataclass(frozen=True)
class StepLog:
    """The step series of one run, as read.

    `frame` has the columns step (int64), rank (int64, -1 where the log does not say), step_s (float64
    seconds), end_s (float64 seconds: the cumulative clock at the end of the step, NaN without one) and
    every further number read, sorted by rank and step, one row each. `cumulative`: every row has an
    `end_s`. `quantum_s` is the smallest gap between distinct recorded values. `started_at` and
    `finished_at` are unix seconds; dates without a zone count as UTC, so they order runs of one machine and
    are no more than that. `reduced` says over which ranks the trainer reduced a value by itself, None where
    it did not. `attempts`: 2 for a run resumed once. `kind` says what one value is (see `Kind`): values of
    different kinds are never in one log. `facts` is what is known of the format's times (see `steplog.facts`).
    """

    reader: str
    frame: pd.DataFrame
    cumulative: bool
    quantum_s: float | None
    world_size: int | None
    ended: bool
    started_at: float | None
    finished_at: float | None
    why: str
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    attempts: int = 1
    reduced: str | None = None
    kind: Kind = "not said"
    facts: Mapping[str, str] = field(default_factory=dict)


def shorten(text: str, limit: int = 160) -> str:
    """Return one printable line of at most `limit` characters."""
    flat = "".join(c if c.isprintable() else " " for c in text).strip()
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def listed(values: Iterable[int], limit: int = 8) -> str:
    """Return a few of many numbers, as in `3, 7, 12 ... 94`."""
    found = sorted(set(values))
    if len(found) <= limit:
        return ", ".join(str(v) for v in found)
    return ", ".join(str(v) for v in found[: limit - 1]) + f" ... {found[-1]}"


def in_lines(numbers: Iterable[int]) -> str:
    """Return where something stands, as in `line 3` or `lines 3, 7 ... 94`."""
    found = set(numbers)
    return f"line{'s' * (len(found) > 1)} {listed(found)}"
