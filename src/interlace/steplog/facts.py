"""The only reader of what a format's docstring says about its times: clock, scope, ranks, resolution, losses. Pure."""

from __future__ import annotations

import re

LABELS = ("Clock", "Includes", "Ranks", "Resolution", "Lost")
"""What the docstring of every reader states, each as `Label: sentences`."""

_LABELLED = re.compile(rf"^({'|'.join(LABELS)}): *(.*?)(?=^(?:{'|'.join(LABELS)}):|^\s*$|\Z)", re.DOTALL | re.MULTILINE)


def facts_in(doc: str | None) -> dict[str, str]:
    """Return the labelled facts of a docstring, each on one line; empty without a docstring (`python -OO`)."""
    return {match[1]: " ".join(match[2].split()) for match in _LABELLED.finditer(doc or "")}
