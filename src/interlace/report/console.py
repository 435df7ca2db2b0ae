"""The console for results; light, so that a command may print without loading the arithmetic."""

from __future__ import annotations

import sys

from rich.console import Console

PIPE_WIDTH = 160
"""Columns assumed where the output is no terminal, so that a table in a log is not folded at 80."""


class Quiet(Console):
    """A console that falls silent when its reader goes away: showing things decides nothing."""

    def on_broken_pipe(self) -> None:
        """Say nothing more, instead of ending the program."""
        self.quiet = True


def stdout() -> Console:
    """Return the console for results; no text of the user's is taken for markup."""
    return Quiet(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
