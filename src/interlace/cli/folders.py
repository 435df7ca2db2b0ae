"""Arguments of the commands that take sweep folders; one parser for all of them."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors read like every other error of Interlace."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise instead of printing usage and leaving."""
        from interlace.errors import UsageError  # noqa: PLC0415 (keeps --help light)

        if message.startswith(UNKNOWN) and re.match(r"[\w.+~@]+=", message.removeprefix(UNKNOWN)):
            message += " (settings are for interlace sweep, plan and aa; one on disk keeps its own)"
        raise UsageError(f"{message}; see: {self.prog} --help")


def folder_parser(command: str, description: str, *, several: bool = False, json: bool = False) -> Parser:
    """Return a parser of `interlace COMMAND DIR`."""
    parser = Parser(prog=f"interlace {command}", description=description)
    parser.add_argument(
        "directory", metavar="DIR", type=Path, nargs="+" if several else None,
        help="folder of a sweep: outputs/NAME/DATE_TIME",
    )  # fmt: skip
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser
