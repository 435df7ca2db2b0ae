"""The only place that learns how records begin, and cuts a line where one begins in its middle. Pure."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CUT_NUMBER = re.compile(r"\d\.$")
_OPEN = frozenset("=:,;|/([{<\"'-.#@&?")


def _start_of(text: str) -> str | None:
    """Return a pattern of what a record begins with, None where that would be too little to tell it."""
    if _DATE.match(text.lstrip()):
        return _DATE.pattern
    first = re.match(r"\s*([^\s=:]+(?:\s?[=:]|(?=\s)))", text)
    if not first or not re.search(r"[A-Za-z]{2}", first[1]):
        return None
    token = re.sub(r"\d+", r"\\d+", re.escape(first[1]))
    return token if first[1][-1] in "=:]" else token + r"\b"


class Starts:
    """Where records begin, learned from one of them."""

    def __init__(self, pattern: re.Pattern[str], words: set[str]) -> None:
        self.pattern = pattern
        self.words = words

    @classmethod
    def learn(cls, texts: list[str]) -> Starts | None:
        """Learn from the first records how most of them begin: with a date, or with the same first word.

        One alone may be cut (`tep=1`) or begin with another's rest.
        """
        found = Counter(pattern for pattern in map(_start_of, texts) if pattern)
        if not found:
            return None
        most = max(found.values())
        usual = next(pattern for pattern in reversed(found) if found[pattern] == most)
        words = Counter(word for text in texts for word in set(_WORD.findall(text)))
        # A word that stands in one of several records only may be two halves (`step_rank`).
        return cls(re.compile(usual), {word for word, times in words.items() if times > 1 or len(texts) == 1})

    def begins(self, text: str) -> bool:
        """Whether a text begins as records do."""
        return bool(self.pattern.match(text.lstrip()))

    def fit(self, cut: str, rest: str) -> bool:
        """Whether the word that a rest goes on with is one that records have."""
        joint = re.search(r"[A-Za-z_]\w*$", cut)
        return joint is None or (_WORD.match(joint[0] + rest) or [""])[0] in self.words

    def split(self, text: str) -> list[str]:
        """Cut a line where a record begins in the middle of it, without a space before."""
        cuts = [0, *(m.start() for m in self.pattern.finditer(text) if self._glued(text, m)), len(text)]
        return [text[a:b] for a, b in pairwise(cuts)]

    def _glued(self, text: str, match: re.Match[str]) -> bool:
        start = match.start()
        if start == 0 or text[start - 1].isspace():
            return False
        if text[start - 1] in _OPEN:
            return bool(_CUT_NUMBER.search(text[:start]))
        if not (text[start - 1].isalpha() or text[start - 1] == "_") or not match[0][0].isalpha():
            return True
        word = re.search(r"\w+$", text[:start])
        whole = (word[0] if word else "") + (_WORD.match(match[0]) or [""])[0]
        return whole not in self.words and whole.split("_")[0] not in {"local", "node", "global", "group"}
