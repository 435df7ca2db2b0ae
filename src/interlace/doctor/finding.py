"""What the doctor says about one thing, and what all of it comes to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Level = Literal["ok", "warning", "problem"]
WORST_FIRST: tuple[Level, ...] = ("problem", "warning", "ok")


@dataclass(frozen=True)
class Finding:
    """One line of the screen: the value found, and what to do unless it is `ok`.

    `problem`: a measurement would wait, fail, or not be worth its name. `warning`: it would run, and something
    about it is not what it could be. `ok` also holds what is known and harmless.
    """

    name: str
    level: Level
    what: str
    todo: str | None = None


@dataclass(frozen=True)
class Section:
    """The findings of one heading, in their order."""

    title: str
    findings: tuple[Finding, ...]


def ok(name: str, what: str) -> Finding:
    """Say a value that is as it should be, or that does no harm."""
    return Finding(name, "ok", what)


def warning(name: str, what: str, todo: str) -> Finding:
    """Say a value that a measurement can live with."""
    return Finding(name, "warning", what, todo)


def problem(name: str, what: str, todo: str) -> Finding:
    """Say a value that spoils a measurement."""
    return Finding(name, "problem", what, todo)


def all_findings(sections: Iterable[Section]) -> tuple[Finding, ...]:
    """Return every finding, in the order of the screen."""
    return tuple(finding for section in sections for finding in section.findings)


def count_of(findings: Iterable[Finding], level: Level) -> int:
    """Count the findings of a level."""
    return sum(finding.level == level for finding in findings)


def is_fit(findings: Iterable[Finding]) -> bool:
    """Tell whether the node is fit to measure on: nothing is a problem."""
    return count_of(findings, "problem") == 0


def verdict(findings: Iterable[Finding]) -> str:
    """Return the last word: fit or not, and how many things are to be seen to."""
    findings = tuple(findings)
    counts = [_counted(count_of(findings, level), level) for level in WORST_FIRST[:2]]
    rest = ", ".join(text for text in counts if text)
    return ("fit to measure" if is_fit(findings) else "not fit to measure") + (f": {rest}" if rest else "")


def _counted(number: int, level: Level) -> str:
    return f"{number} {level}{'s' if number > 1 else ''}" if number else ""


def to_do(findings: Iterable[Finding]) -> tuple[tuple[Level, tuple[str, ...], str], ...]:
    """Return level, names and what to do, problems first; what has the same remedy is named together."""
    names: dict[tuple[Level, str], list[str]] = {}
    for level in WORST_FIRST[:2]:
        for finding in findings:
            if finding.level == level and finding.todo is not None:
                names.setdefault((level, finding.todo), []).append(finding.name)
    return tuple((level, tuple(found), todo) for (level, todo), found in names.items())
