"""What is printed of an end: which rank ended how, as launchers say it, and the exceptions that ranks raised. Pure."""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from interlace.steplog.text import text_of
from interlace.wording import printable

SHOWN = 300
"""So much of a line is shown."""

LABEL = r"(?:\[[\w,|/ -]*\d\](?:<\w+>)?:[ \t]*|\d+: )*"
"""What launchers and torch put in front of a rank's lines: `[rank3]: `, `[default3]:`, `[1,3]<stderr>:`, `3: `."""

_RANK_LABEL = re.compile(r"\[rank(\d+)\]:")
_ROOT_CAUSE = re.compile(r"Root Cause(?: \(first observed failure\))?:(.*)", re.DOTALL)
_ELASTIC = "torch/distributed/elastic/"
_REPORT = re.compile(rf"^.*(?:{_ELASTIC}.*\] failed \(exitcode|ChildFailedError)", re.MULTILINE)
_REPORTS = (
    re.compile(r"process rank (?P<rank>\d+) with PID [^\n]{0,200} exited\s+on\s+signal (?P<signal>\d+)"),  # mpirun
    re.compile(r"process (?P<rank>\d+) terminated with signal (?P<signal>SIG\w+)"),  # torch.multiprocessing
    re.compile(r"\[rank: (?P<rank>\d+)\] Child process with PID \d+ terminated with code (?P<code>-?\d+)"),  # Lightning
    re.compile(r"(?:--local_rank=(?P<rank>\d+)\b[^\n]{0,1000})?exits with return code = -(?P<signal>\d+)"),  # deepspeed
    re.compile(
        r"CalledProcessError: Command [^\n]{0,9000} died with <Signals\.(?P<signal>SIG\w+): "
    ),  # accelerate, one rank
    re.compile(r"CalledProcessError: Command [^\n]{0,9000} exit status (?P<status>\d+)"),
    re.compile(r"SignalException: Process \d+ got signal: (?P<signal>\d+)"),  # torchrun, that was itself ended
)
_EXCEPTION = re.compile(
    rf"^{LABEL}[ \t|]*((?:(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b|(?:[a-z_]\w*\.)+[A-Z]\w+(?=:|$))(?::.*)?)$",
    re.MULTILINE,
)
_LAUNCHERS_OWN = ("ChildFailedError", "CalledProcessError", "ProcessExitedException", "SignalException")
_ASIDE = re.compile(rf"^{LABEL}[ \t]*(?:Exception in thread |Exception ignored in|Error in atexit)", re.MULTILINE)
"""What is raised below these is raised aside: by a thread or at the close, often because the program ended."""

OWN_LINES = ("interlace rank: unpinned", "interlace rank: note")
"""What our wrapper says of itself explains no failure."""


class Raised(NamedTuple):
    """An exception as printed, and where."""

    text: str
    at: int


def plain(text: str) -> str:
    r"""Return a text without colours, its lines ended by \n alone."""
    return text_of(text.encode(errors="replace"))


def of_rank(text: str, rank: int) -> str:
    """Return a text without the lines that torch marks as another rank's."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not (found := _RANK_LABEL.search(line, 0, 80)) or int(found[1]) == rank)


def signal_name(returncode: int | None) -> str | None:
    """Name the signal behind a return code: -9 and 137 are SIGKILL, and so is 247, a -9 handed on. None for others."""
    if returncode is None:
        return None
    if 256 - returncode in HANDED_ON:
        returncode -= 256
    try:
        return signal.Signals(-returncode if returncode < 0 else returncode - 128).name
    except ValueError:
        return None


HANDED_ON = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM})


def root_cause(text: str) -> tuple[int | None, int] | None:
    """Read (rank, exit code) of the first failure that a launcher saw, whose own code is only 1."""
    block = _ROOT_CAUSE.search(text)
    scope = block[1] if block else ""
    rank = re.search(r"rank\s*:\s*(\d+)", scope)
    code = re.search(r"exitcode\s*:\s*(-?\d+)", scope)
    if rank and code:
        return int(rank[1]), int(code[1])
    if line := re.search(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)", text):
        return int(line[2]), int(line[1])
    return next((found for pattern in _REPORTS if (found := _reported(pattern.search(text)))), None)


def _reported(match: re.Match[str] | None) -> tuple[int | None, int] | None:
    fields = match.groupdict() if match else {}
    rank = int(fields["rank"]) if fields.get("rank") else None
    if name := fields.get("signal"):
        return rank, -(int(name) if name.isdigit() else signal.Signals[name].value)
    if code := fields.get("code"):
        return rank, int(code)
    status = int(fields.get("status") or 0)
    return (rank, status) if signal_name(status) else None


def last_exception(text: str) -> Raised | None:
    """Return the last exception that is not a launcher's own; one raised aside only where there is no other."""
    own = [match for match in _EXCEPTION.finditer(text) if not any(name in match[1] for name in _LAUNCHERS_OWN)]
    asides = {
        next((match.start() for match in own if match.start() > aside.end()), -1) for aside in _ASIDE.finditer(text)
    }
    chosen = [match for match in own if match.start() not in asides] or own
    return Raised(printable(chosen[-1][1].strip(), SHOWN), chosen[-1].start()) if chosen else None


def last_line(text: str) -> str | None:
    """Return what the ranks said last: what the launcher says of their end comes after it, and is not theirs."""
    report = _REPORT.search(text)
    lines = [line.strip() for line in (text[: report.start()] if report else text).split("\n")]
    lines = [
        line for line in lines if re.search(r"\w", line) and not line.startswith(OWN_LINES) and _ELASTIC not in line
    ]
    return printable(lines[-1], SHOWN) if lines else None


def line_start(text: str, position: int) -> int:
    """Return where the line of a position begins."""
    return text.rfind("\n", 0, position) + 1


def line_of(text: str, position: int) -> str:
    """Return the line of a position, a long one cut."""
    start = line_start(text, position)
    return printable(text[start : start + SHOWN].partition("\n")[0].strip(), SHOWN)
