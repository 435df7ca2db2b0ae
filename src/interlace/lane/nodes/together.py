"""All nodes of a lane as one: the gate of all, the end of all, and which of them a failure came from."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from interlace.errors import NodeLostError
from interlace.lane.nodes.node import all_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlace.gate import GateResult
    from interlace.lane.nodes.node import Ended, Node
    from interlace.settings import GateConfig

T = TypeVar("T")

FAILED_GRACE_S = 10.0
"""After the program of one node has failed, the others have so long to end and to say what they saw of it."""

ASIDE_S = 2.0
"""A gate that took longer than this waited; meanwhile somebody may have come to the nodes that passed at once."""


@dataclass(frozen=True)
class Gates:
    """What the gate found on every node, by label. `reasons` name the node where there are several."""

    ok: bool
    waited_s: float
    reasons: tuple[str, ...]
    nodes: tuple[tuple[str | None, GateResult], ...]

    @property
    def evidence(self) -> dict[str, Any] | None:
        """What `gate.json` holds; None where nobody looked. Of several nodes each has an entry of its own."""
        seen = [(label, asdict(gate)) for label, gate in self.nodes if gate.evidence is not None]
        if not seen:
            return None
        if seen[0][0] is None:
            return seen[0][1]
        return {
            "ok": self.ok, "waited_s": self.waited_s, "reasons": self.reasons,
            "nodes": [{"node": label, **gate} for label, gate in seen],
        }  # fmt: skip


def labelled(label: str | None, texts: Sequence[str]) -> tuple[str, ...]:
    """Put the node's name in front of each text, where it has one."""
    return tuple(texts) if label is None else tuple(f"{label}: {text}" for text in texts)


def through_the_gates(
    nodes: Sequence[Node], config: GateConfig, on_wait: Callable[[Sequence[str], float], None]
) -> Gates:
    """Wait until every node is empty at the same time."""
    began_s = time.monotonic()
    while True:
        left_s = max(0.001, config.timeout_s - (time.monotonic() - began_s))
        within = replace(config, timeout_s=left_s)
        results = all_of([node.gate(within, on_wait) for node in nodes])
        apart = max(one.waited_s for one in results) - min(one.waited_s for one in results) > ASIDE_S
        if not apart or config.action != "wait" or not all(one.ok for one in results):
            break
    found = tuple((node.label, result) for node, result in zip(nodes, results, strict=True))
    reasons = tuple(text for label, result in found for text in labelled(label, result.reasons))
    waited_s = results[0].waited_s if len(results) == 1 else time.monotonic() - began_s
    return Gates(all(one.ok for one in results), waited_s, reasons, found)


def end_all(nodes: Sequence[Node]) -> tuple[list[Ended], NodeLostError | None]:
    """End what is left of a run on every node, also where one is lost; tell what was seen, and the first loss."""
    lost: list[NodeLostError] = []

    def reached(ask: Callable[[], T]) -> list[T]:
        try:
            return [ask()]
        except NodeLostError as error:
            lost.append(error)
            return []

    promises = [promise for node in nodes for promise in reached(node.end)]
    ended = [one for promise in promises for one in reached(promise)]
    return ended, lost[0] if lost else None


class Ranks:
    """The programs of one run on all nodes, while they run."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._failed_at_s: float | None = None
        self.codes: dict[str, int] = {}
        """Node -> return code of those whose program ended by itself, the first to end first."""

    def over(self, timeout_s: float) -> bool:
        """Sleep so long at most; tell whether all have ended, or one failed and the others do not follow.

        Raises NodeLostError.
        """
        running = [node for node in self._nodes if node.name not in self.codes]
        if running:
            running[0].wait(timeout_s)
        for node in running:
            if (code := node.returncode()) is not None:
                self.codes[node.name] = code
                if code != 0 and self._failed_at_s is None:
                    self._failed_at_s = time.monotonic()
        if len(self.codes) == len(self._nodes):
            return True
        return self._failed_at_s is not None and time.monotonic() - self._failed_at_s > FAILED_GRACE_S
