"""Another node of the lane, through its agent: starting the agent, asking it, and noticing when it is gone."""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interlace.errors import NodeLostError
from interlace.gate import GateResult
from interlace.lane.nodes.environ import slurms
from interlace.lane.nodes.messages import Greeted, Greeting, Message, Trouble, Waiting, line, read_line
from interlace.lane.nodes.node import Begun, Ended, all_of
from interlace.lane.proof import due
from interlace.node import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from interlace.lane.nodes.node import Promise, RunSpec
    from interlace.settings import GateConfig, Source

T = TypeVar("T")

GREETED_WITHIN_S = 180.0
"""An agent has to load its modules from a shared disk that everybody uses, after SLURM has started its step."""

ANSWERED_WITHIN_S = 120.0
"""What is asked takes a second at most; ending processes in the middle of a write to a slow disk may take longer."""

GONE_WITHIN_S = 15.0
"""An agent that is let go has a run to end at most; srun that is asked to end needs a moment of its own."""

SHOWN_CHARS = 300


@dataclass(frozen=True)
class AgentCommand:
    """How the agent of a node is started."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]


class RemoteNode:
    """A node of the lane on which an agent works."""

    def __init__(self, command: AgentCommand, log: Path) -> None:
        self.name = command.name
        self.label: str | None = command.name
        self.lane_address: str | None = None
        self._log = log
        self._answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._news = threading.Event()
        self._returncode: int | None = None
        self._due: list[int] = []
        self._gone = False
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            try:
                self._agent = subprocess.Popen(
                    list(command.argv), env=dict(command.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=stream, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise NodeLostError(f"node {self.name}: cannot start {command.argv[0]}: {error.strerror}") from error
        self._listener = threading.Thread(target=self._listen, name=f"interlace-{self.name}", daemon=True)
        self._listener.start()

    def greet(self, number: int, sources: Sequence[Source], environ: Mapping[str, str]) -> Promise[None]:
        """Say who it is for this lane; `environ` is the lane's own."""
        answer = self._ask("greet", Greeting(self.name, number, list(sources), slurms(environ)), Greeted)

        def greeted() -> None:
            self.lane_address = answer(GREETED_WITHIN_S).lane_address

        return greeted

    def gate(self, config: GateConfig, on_wait: Callable[[Sequence[str], float], None]) -> Promise[GateResult]:
        """Wait until the node is empty."""
        answer = self._ask("gate", config, GateResult, on_wait)
        return lambda: answer(config.timeout_s + config.poll_s + ANSWERED_WITHIN_S)

    def start(self, spec: RunSpec) -> Promise[Begun]:
        """Begin to watch the node, then start the run's program on it."""
        self._returncode, self._due = None, due(spec.window)
        self._news.clear()
        return self._soon("start", spec, Begun)

    def wait(self, timeout_s: float) -> None:
        """Sleep until the program has ended, or the agent is gone."""
        self._news.wait(timeout_s)

    def returncode(self) -> int | None:
        """Return how the program ended. Raises NodeLostError."""
        if self._gone:
            raise self._lost()
        return self._returncode

    def look(self, step: int) -> None:
        """Have the ranks read back; nothing is waited for, and nothing said where it is no moment to do so."""
        if self._due and step >= self._due[0]:
            self._due = [moment for moment in self._due if moment > step]
            self._send("look", step)

    def end(self) -> Promise[Ended]:
        """End what is left of the run there."""
        return self._soon("end", None, Ended)

    def keep(self) -> Promise[None]:
        """Have the samples written."""
        return self._soon("keep", None, type(None))

    def end_left(self, marker: str) -> Promise[dict[str, int]]:
        """End what dead orchestrators left there."""
        return self._soon("end_left", marker, dict[str, int])

    def fingerprint(self) -> Promise[NodeInfo]:
        """Describe the machine."""
        return self._soon("fingerprint", None, NodeInfo)

    def hang_up(self) -> None:
        """Let the agent go: it ends what it runs, and itself."""
        with contextlib.suppress(OSError):
            self._pipe_in().close()

    def close(self) -> None:
        """Wait until the agent is gone. One that stays is ended."""
        for end in (self._agent.terminate, self._agent.kill, lambda: None):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(GONE_WITHIN_S)
                break
            end()
        self._listener.join(GONE_WITHIN_S)
        if self._agent.stdout is not None and not self._listener.is_alive():
            self._agent.stdout.close()

    # ------------------------------------------------------------ the talk

    def _soon(self, kind: str, body: Any, result: type[T]) -> Promise[T]:
        answer = self._ask(kind, body, result)
        return lambda: answer(ANSWERED_WITHIN_S)

    def _ask(
        self, kind: str, body: Any, result: type[T],
        on_wait: Callable[[Sequence[str], float], None] = lambda _reasons, _waited_s: None,
    ) -> Callable[[float], T]:  # fmt: skip
        """Send a request; what comes back waits for its answer, so many seconds."""
        self._send(kind, body)

        def answer(within_s: float) -> T:
            for message in self._messages(within_s, kind):
                if message.kind == "waiting":
                    waiting = message.read(Waiting)
                    on_wait([f"{self.name}: {reason}" for reason in waiting.reasons], waiting.waited_s)
                elif message.kind == "error":
                    self._raise(message.read(Trouble), kind)
                elif message.kind == kind:  # the answer to a question that was given up is passed over
                    return message.read(result)
            raise AssertionError("unreachable: messages end by raising")

        return answer

    def _send(self, kind: str, body: Any) -> None:
        try:
            self._pipe_in().write(line(kind, body))
            self._pipe_in().flush()
        except (OSError, ValueError) as error:  # ValueError: closed
            raise self._lost() from error

    def _messages(self, within_s: float, about: str) -> Iterator[Message]:
        deadline = time.monotonic() + within_s
        while True:
            try:
                message = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise NodeLostError(f"node {self.name}: no answer for {within_s:.0f} s ({about})") from None
            if message is None:
                self._answers.put(None)
                raise self._lost()
            yield message

    def _listen(self) -> None:
        """Take in what the agent says, until it says no more."""
        stream = self._agent.stdout
        try:
            for text in iter(stream.readline, b"") if stream else ():
                message = read_line(text)
                if message.kind == "exited":
                    self._returncode = message.read(int)
                    self._news.set()
                else:
                    self._answers.put(message)
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # what cannot be understood ends the talk: the node counts as lost
        self._gone = True
        self._news.set()
        self._answers.put(None)

    def _pipe_in(self) -> Any:
        return self._agent.stdin

    def _raise(self, trouble: Trouble, asked: str) -> None:
        if trouble.about != asked:
            return
        if trouble.errno is not None:
            raise OSError(trouble.errno, f"{os.strerror(trouble.errno)} on node {self.name}")
        raise NodeLostError(f"node {self.name}: its agent failed: {trouble.text}")

    def _lost(self) -> NodeLostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._agent.wait(1.0)
        code = self._agent.poll()
        how = "does not answer" if code is None else f"ended (exit code {code})"
        words = self._log.read_text(errors="replace").strip().splitlines() if self._log.is_file() else []
        said = f": {words[-1][:SHOWN_CHARS]}" if words else ""
        return NodeLostError(f"node {self.name} is lost: its agent {how}{said}")


def first_address(others: Sequence[RemoteNode]) -> str:
    """Return the lane's own node as the others reach it: as SLURM told them, else by its name."""
    known = [other.lane_address for other in others if other.lane_address]
    return known[0] if known else platform.node()


@contextlib.contextmanager
def agents(
    commands: Sequence[AgentCommand], environ: Mapping[str, str], sources: Sequence[Source], logs: Path
) -> Iterator[tuple[RemoteNode, ...]]:
    """Hold an agent on every other node of the lane; `environ` is the lane's own.

    Raises NodeLostError where one does not come up.
    """
    nodes: list[RemoteNode] = []
    try:
        for command in commands:
            log = logs / f"{command.name}.log"
            nodes.append(RemoteNode(command, log))
        all_of([node.greet(number, sources, environ) for number, node in enumerate(nodes, 1)])
        yield tuple(nodes)
    finally:
        for node in nodes:
            node.hang_up()
        for node in nodes:
            node.close()
