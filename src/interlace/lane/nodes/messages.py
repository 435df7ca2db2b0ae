"""The lines of JSON between a lane and its agents: what is asked, what is answered, and how both are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from interlace.settings import Source  # noqa: TC001 (msgspec reads these at run time)

T = TypeVar("T")

PROTOCOL_VERSION = 1
"""Version of these lines; lane and agent come from the same installation. 1: first."""


class Message(msgspec.Struct, frozen=True):
    """One line; a Struct, because its body is read later, as what `kind` says it is.

    Requests have the name of a method of `Node`, and so have their answers. Besides there are `greet`, the events
    `waiting` and `exited`, and `error` in the place of an answer.
    """

    kind: str
    body: msgspec.Raw = msgspec.Raw(b"null")

    def read(self, kind: type[T]) -> T:
        """Return the body. Raises msgspec.DecodeError where it is something else."""
        return msgspec.json.decode(self.body, type=kind)


@dataclass(frozen=True)
class Greeting:
    """The lane's first words: who the agent is for it, and what SLURM says on the lane's own node."""

    name: str
    number: int
    sources: list[Source]
    slurm: dict[str, str]
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True)
class Greeted:
    """The agent's. `lane_address` is the lane's own node as this one reaches it; None where SLURM does not say."""

    lane_address: str | None
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True)
class Waiting:
    """The gate of this node waits."""

    reasons: list[str]
    waited_s: float


@dataclass(frozen=True)
class Trouble:
    """The request `about` failed. `errno` is that of an OSError (a full disk, say)."""

    about: str
    text: str
    errno: int | None = None


def line(kind: str, body: Any = None) -> bytes:
    """Write one message."""
    return msgspec.json.encode({"kind": kind, "body": body}) + b"\n"


def read_line(text: bytes) -> Message:
    """Read one message. Raises msgspec.DecodeError for a line that is none."""
    return msgspec.json.decode(text, type=Message)
