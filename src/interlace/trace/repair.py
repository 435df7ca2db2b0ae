"""Traces that are not JSON: what torch's exporters are known to break, mended where the meaning is plain. Pure.

Quotes and line breaks in names, backslashes that escape nothing, bare nan and inf, commas at an end, a file that was
cut. Sources: docs/traces.md.
"""

from __future__ import annotations

import re

NAME = re.compile(rb'("name": ?")(.*?)("(?:, ?"[\w .]+": ?|,? ?\r?\n| ?\}))', re.DOTALL)
"""A name ends with the quote behind which another key, a line's end or the object's end comes."""
BACKSLASH = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
BREAK = re.compile(rb"[\x00-\x1f]")
QUOTE = re.compile(rb'(?<!\\)"')
NO_NUMBER = re.compile(rb"(:\s*)(?:[-+]?(?:nan|inf(?:inity)?)|N/A)(?=\s*[,}\]])", re.IGNORECASE)
LAST_COMMA = re.compile(rb",(\s*[}\]])")
EVENT_END = b"\n  }"


def repaired(text: bytes) -> bytes:
    """Mend what breaks JSON inside a whole file."""
    text = CONTROL.sub(b" ", text)
    text = BACKSLASH.sub(lambda found: found[0] if found[1] else rb"\\", text)
    text = NAME.sub(lambda found: found[1] + QUOTE.sub(rb'\\"', BREAK.sub(b" ", found[2])) + found[3], text)
    return LAST_COMMA.sub(rb"\1", NO_NUMBER.sub(rb"\1null", text))


def closed(text: bytes) -> bytes | None:
    """Close a file that was cut behind its last whole event; None where it has none."""
    end = text.rfind(EVENT_END)
    return None if end < 0 else text[: end + len(EVENT_END)] + b"]}"
