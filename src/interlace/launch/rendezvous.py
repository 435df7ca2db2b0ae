"""Where the ranks of several nodes meet. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of several nodes meet, and which of the nodes, counted from 0, this one is.

    All but `nodes` are texts, because a script has shell variables in their places, and `plan` words.
    """

    nodes: int
    node: str
    name: str
    address: str
    port: str


BY_HAND = {
    "\0node": '"$node"',
    "\0name": '"$(hostname)"',
    "\0address": '"$first"',
    "\0port": '"$port"',
}
"""What stands for the parts of a rendezvous while a script is built, and what the script has there."""


def by_hand(nodes: int) -> Rendezvous:
    """Return the rendezvous of a run that is repeated by hand."""
    node, name, address, port = BY_HAND
    return Rendezvous(nodes, node, name, address, port)
