"""`python -m interlace.lane.nodes.agent`: does on another node of a lane what the lane does on its own. Not a command.

Started by srun for the lane's whole life, and spoken to by lines of JSON on stdin and stdout. When stdin ends, the
lane is gone: what runs here is ended then, and so is the agent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from interlace.lane.nodes.environ import of_the_job, rank_environ
from interlace.lane.nodes.local import LocalNode
from interlace.lane.nodes.messages import Greeted, Greeting, Message, Trouble, Waiting, line, read_line
from interlace.lane.nodes.node import RunSpec
from interlace.monitor.source import open_source
from interlace.process import STOPS
from interlace.settings import GateConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from interlace.lane.nodes.node import Promise

READ_BYTES = 65_536


class _SpokenToError(Exception):
    """The lane said something, or went, while the gate was waiting: it is no longer interested."""


class Channel:
    """The two ends of the talk with the lane."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self._outgoing = incoming, outgoing
        self._rest = b""

    def receive(self) -> list[bytes] | None:
        """Return the lines that have come, waiting for some; None when the lane is gone."""
        got = os.read(self.incoming, READ_BYTES)
        if not got:
            return None
        *lines, self._rest = (self._rest + got).split(b"\n")
        return lines

    def send(self, kind: str, body: Any = None) -> None:
        """Say something. A lane that is gone is noticed when it is next listened to."""
        text = line(kind, body)
        with contextlib.suppress(BrokenPipeError):
            while text:
                text = text[os.write(self._outgoing, text) :]

    def is_spoken_to(self) -> bool:
        """Tell whether something has come, or the lane is gone."""
        return bool(select.select([self.incoming], [], [], 0)[0])


class Agent:
    """Answers requests, one after the other; tells by itself when the program of a run has ended."""

    def __init__(self, channel: Channel, environ: Mapping[str, str]) -> None:
        self._channel, self._environ = channel, environ
        self._held = contextlib.ExitStack()
        self._node: LocalNode | None = None
        self._program: int | None = None

    def serve(self) -> None:
        """Work until the lane is gone, and leave nothing behind."""
        with self._held:
            for came in self._lines():
                message = read_line(came)
                try:
                    self._answer(message)
                except _SpokenToError:
                    continue
                except Exception as error:  # noqa: BLE001 (the lane decides what it means)
                    self._channel.send(
                        "error", Trouble(message.kind, f"{type(error).__name__}: {error}", _errno(error))
                    )

    def _lines(self) -> Iterator[bytes]:
        while True:
            heard = [self._channel.incoming] + ([] if self._program is None else [self._program])
            ready = select.select(heard, [], [])[0]
            if self._program in ready:
                self._tell_exit()
            if self._channel.incoming in ready:
                lines = self._channel.receive()
                if lines is None:
                    return
                yield from lines

    def _answer(self, message: Message) -> None:
        """Answer with the result, under the request's own name."""
        if message.kind == "greet":
            self._greet(message.read(Greeting))
            return
        node = self._node
        if node is None:
            raise LookupError(f"{message.kind} before greet")
        if message.kind == "look":  # asks for no answer
            node.look(message.read(int))
            return
        requests: dict[str, Callable[[], Promise[object]]] = {
            "gate": lambda: node.gate(message.read(GateConfig), self._tell_waiting),
            "start": lambda: node.start(message.read(RunSpec)),
            "end": node.end,
            "keep": node.keep,
            "end_left": lambda: node.end_left(message.read(str)),
            "fingerprint": node.fingerprint,
        }
        result = requests[message.kind]()()
        if message.kind == "end":
            self._forget_program()
        self._channel.send(message.kind, result)
        if message.kind == "start" and node.child is not None:
            self._program = os.pidfd_open(node.child.popen.pid)

    def _greet(self, greeting: Greeting) -> None:
        opened = {kind: self._held.enter_context(contextlib.closing(open_source(kind))) for kind in greeting.sources}
        gpus = next(iter(opened.values()))
        own = of_the_job(self._environ, greeting.slurm, greeting.name, greeting.number)
        node = LocalNode(greeting.name, gpus, rank_environ(gpus, own), opened, greeting.name)
        self._held.callback(self._end)
        self._node = node
        self._channel.send("greet", Greeted(self._environ.get("SLURM_LAUNCH_NODE_IPADDR")))

    def _end(self) -> None:
        if self._node is not None:
            self._node.end()()

    def _tell_waiting(self, reasons: Sequence[str], waited_s: float) -> None:
        if self._channel.is_spoken_to():
            raise _SpokenToError
        self._channel.send("waiting", Waiting(list(reasons), waited_s))

    def _tell_exit(self) -> None:
        self._forget_program()
        if self._node is not None:
            self._channel.send("exited", self._node.returncode())

    def _forget_program(self) -> None:
        if self._program is not None:
            os.close(self._program)
        self._program = None


def _errno(error: Exception) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def main() -> int:
    """Serve the lane at the other end of stdin."""
    # What anything here prints must not get between the lines.
    outgoing = os.dup(1)
    os.dup2(2, 1)
    # SLURM asks the steps of a cancelled job to end when it asks the lane. The lane ends its run first, through us.
    # A handler, because what is ignored would be ignored by the ranks as well.
    for number in STOPS:
        signal.signal(number, lambda _number, _frame: None)
    agent = Agent(Channel(0, outgoing), dict(os.environ))
    # In a thread of its own, which no signal interrupts in the middle of ending a run.
    thread = threading.Thread(target=agent.serve, name="interlace-agent")
    thread.start()
    thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
