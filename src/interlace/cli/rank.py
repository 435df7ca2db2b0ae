"""`interlace rank -- CMD`; the wrapper itself is `interlace.rank`, which ranks start directly."""

from __future__ import annotations

from interlace.rank.wrapper import main as run

__all__ = ["run"]
