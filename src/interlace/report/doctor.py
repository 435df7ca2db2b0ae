"""What `interlace doctor` shows: one screen for people, one object for programs."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.text import Text

from interlace.doctor.finding import all_findings, is_fit, to_do, verdict
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from interlace.doctor.facts import NodeFacts
    from interlace.doctor.finding import Level, Section
    from interlace.node import NodeInfo

FORMAT_VERSION = 1
"""Version of the object that --json prints. 1: first."""

COLOURS: dict[Level, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}
LEVEL_WIDTH = max(len(level) for level in COLOURS)
SHOWN_NAMES = 4
LEAST_WIDTH = 24
"""Columns for what is found, however narrow the terminal: below this nobody could read it."""


def print_screen(facts: NodeFacts, sections: Sequence[Section], console: Console) -> None:
    """Print a line a finding under its heading, then the verdict and what to do, where a screen ends."""
    findings = all_findings(sections)
    remedies = [(level, first_of(names, SHOWN_NAMES), todo) for level, names, todo in to_do(findings)]
    names = [*(finding.name for finding in findings), *(names for _, names, _ in remedies)]
    name_width = max((len(name) for name in names), default=0)
    _print(console, Text(_headline(facts.node), "bold"))
    for section in sections:
        _print(console, Text(section.title, "bold"))
        for one in section.findings:
            _print(console, *_lines(one.level, one.name, one.what, name_width, console.width))
    _print(console, Text(), Text(verdict(findings), COLOURS["ok" if is_fit(findings) else "problem"]))
    for level, name, todo in remedies:
        _print(console, *_lines(level, name, todo, name_width, console.width))


def _print(console: Console, *lines: Text) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _headline(node: NodeInfo) -> str:
    return f"{node.hostname}: {node.system or 'system unknown'}, kernel {node.kernel}"


def _lines(level: Level, name: str, text: str, name_width: int, width: int) -> list[Text]:
    """Align levels and names over all sections, and fold the rest within the width, under its own beginning."""
    head = Text.assemble("  ", (level.ljust(LEVEL_WIDTH), COLOURS[level]), f"  {name.ljust(name_width)}  ")
    folded = wrap(text, max(width - len(head), LEAST_WIDTH), break_on_hyphens=False) or [""]
    return [head + Text(folded[0]), *(Text(" " * len(head) + line) for line in folded[1:])]


def as_object(facts: NodeFacts, sections: Sequence[Section]) -> dict[str, Any]:
    """Return what --json prints: the verdict, every finding under its topic, and the facts they come from."""
    findings = all_findings(sections)
    return {
        "format_version": FORMAT_VERSION,
        "fit": is_fit(findings),
        "verdict": verdict(findings),
        "findings": [
            {"topic": section.title, "name": one.name, "level": one.level, "what": one.what, "todo": one.todo}
            for section in sections
            for one in section.findings
        ],
        "facts": facts,
    }
