"""Why a run ended: a cause named from exit codes and log texts, and the status that follows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from interlace.lane.ends import (
    last_exception,
    last_line,
    line_of,
    line_start,
    of_rank,
    plain,
    root_cause,
    signal_name,
)
from interlace.lane.known_texts import KNOWN
from interlace.schema import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.schema import Status

EndedBy = Literal["itself", "timeout", "stall", "grace"]

TAIL_BYTES = 262_144
"""How much of each log's end is searched for a cause."""


@dataclass(frozen=True)
class Ending:
    """The facts of a run's end. `returncode` is None when the program never started.

    `started` is the number of processes that told a rank of theirs, `world_found` how many of them trained together.
    `oom_kills` is how many processes the kernel ended for want of memory while the run was on. `world_below` is the
    world size of ranks that ranks of ours started themselves.
    """

    returncode: int | None
    ended_by: EndedBy
    text: str
    steps_seen: int
    last_step: int
    steps_asked: int | None
    window_last: int
    end_marker: bool
    world_asked: int | None
    world_found: int | None
    launcher: str = ""
    limit_s: float = 0.0
    unreadable: str | None = None
    started: int = 0
    oom_kills: int = 0
    world_below: int | None = None
    nodes: int = 1


RETRYABLE = frozenset({"port_in_use"})

DECISIVE = frozenset({"shm_exhausted", "nccl_timeout", "segfault", "killed"})
"""These name the cause even where an exception that they led to is raised after them."""

_SIGNAL_CODES = {
    "SIGSEGV": ("segfault", "crashed (segmentation fault)"),
    "SIGKILL": ("killed", "was killed (SIGKILL: the host's out-of-memory killer, or somebody)"),
    "SIGABRT": ("aborted", "aborted"),
    "SIGBUS": ("bus_error", "got a bus error (often /dev/shm is full)"),
    "SIGTERM": ("terminated", "was asked to end (SIGTERM)"),
}


_EXPLAINS = {
    "SIGKILL": {"host_oom", "shm_exhausted"},
    "SIGSEGV": {"segfault"},
    "SIGBUS": {"shm_exhausted"},
    "SIGABRT": {"cuda_oom", "host_oom", "shm_exhausted", "nccl_timeout", "nccl_error", "cuda_error", "segfault"},
}
"""Which known texts can be why a process ended by a signal: an exception, or a port that was taken, ends it with 1."""

AFTERMATH = re.compile(
    r"Connection (closed|reset|refused)|[Bb]roken pipe|ncclRemoteError|ncclSystemError|remote process|DistNetworkError"
    r"|RendezvousConnectionError|recvValue failed|sendBytes failed|timed out waiting for"
)
"""What ranks say that lost another one: the cause lies with that."""

LOST_PEER = re.compile(
    r"gloo/transport|ncclRemoteError|remote process exited|NCCL communicator was aborted|Watchdog caught collective"
    r"|client socket has timed out|recvValue failed|sendBytes failed|RendezvousConnectionError"
)
"""Of these, what is said of another rank alone: what was raised before it in that one is the cause."""

VAGUE = frozenset({"exit_code", "terminated", "aborted", "nccl_error"})


def telling(ends: Sequence[tuple[str, int]]) -> int:
    """Return which of several nodes' ends (text, return code), first to end first, tells why a run failed.

    A failure somewhere makes ranks elsewhere fail too, often before torchrun has noticed its own.
    """

    def order(index: int) -> tuple[bool, bool, bool, int]:
        text, returncode = ends[index]
        cause = find_cause(text, returncode)
        if cause is None:
            return True, True, True, index
        return False, bool(AFTERMATH.search(cause.message)), cause.code in VAGUE, index

    return min(range(len(ends)), key=order)


def find_cause(text: str, returncode: int | None) -> Cause | None:
    """Name why a program failed, from its logs and its return code; None for a clean end without a known text.

    Texts alone say nothing (good runs print tracebacks, and warnings of ports and memory that they got over): a
    known text counts in a program that failed, and there the last one, unless a later exception says otherwise. Where
    ranks mark their lines, those of the first to fail count, unless they only tell that another one is lost.
    """
    if returncode == 0:
        return None
    text = plain(text)
    failure = root_cause(text)
    rank = failure[0] if failure else None
    cause = _cause_in(text if rank is None else of_rank(text, rank), failure, returncode)
    if not LOST_PEER.search(cause.message):
        return cause
    others = "\n".join(line for line in text.split("\n") if not LOST_PEER.search(line))
    before = _cause_in(others, None, 1)
    vague = {"exit_code", "exception"} if cause.code == "nccl_timeout" else {"exit_code"}
    return before if before.code not in vague and _was_raised(before.code, before.message) else cause


def _cause_in(text: str, failure: tuple[int | None, int] | None, returncode: int | None) -> Cause:
    """Name the cause that a text tells of; `failure` is what the launcher saw of the first rank to fail."""
    rank, exitcode = failure or (None, returncode)
    name = signal_name(exitcode)
    raised = last_exception(text)
    known = _last_known(text, name, alone=failure is None)
    if known is not None and (known[0] in DECISIVE or raised is None or known[2] >= raised.at):
        why = re.findall(r"Last error:\n(.+)$", text, re.MULTILINE) if known[0] == "nccl_error" else []
        return Cause(known[0], ": ".join((known[1], line_of(text, known[2]), *why[-1:])), rank, exitcode)
    who = "the program" if rank is None else f"rank {rank}"
    if name is not None and (name in _SIGNAL_CODES or raised is None or (exitcode or 0) < 0):
        code, what = _SIGNAL_CODES.get(name, ("signal", f"was ended by {name}"))
        thrown = re.findall(r"^.*what\(\): +(\S.*)$", text, re.MULTILINE) if name == "SIGABRT" else []
        return Cause(code, ": ".join((f"{who} {what}", *thrown[-1:])), rank, exitcode)
    last = raised.text if raised else last_line(text)
    who = f"rank {rank} failed" if rank is not None else f"exit code {returncode}"
    return Cause("exception" if raised else "exit_code", f"{who}: {last}" if last else who, rank, exitcode)


def _last_known(text: str, name: str | None, *, alone: bool) -> tuple[str, str, int] | None:
    """Return code, sentence and place of the last known text; of those that explain the signal `name`, where it is one.

    `alone`: no launcher says whose end it was, so an error that another rank raised may be why this one was ended.
    """
    found = [
        (match.start(), code, sentence)
        for code, pattern, sentence in KNOWN
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    if name in _EXPLAINS:
        may = _EXPLAINS[name]
        found = [one for one in found if one[1] in may or (alone and _was_raised(one[1], line_of(text, one[0])))]
    if not found:
        return None
    # A text that says more (out of memory) stands beside one that says less: of one line the first kind counts.
    line = line_start(text, max(at for at, _, _ in found))
    at, code, sentence = next(one for one in found if line_start(text, one[0]) == line)
    return code, sentence, at


def _was_raised(code: str, message: str) -> bool:
    """Whether a text is that of an error and no mere warning; trainers get over imports that fail."""
    return code != "import_error" and (code in DECISIVE or re.search(r"(Error|Exception)\b", message) is not None)


def judge(ending: Ending) -> tuple[Status, Cause | None, tuple[str, ...]]:
    """Return the status of a run, its cause, and notes. Steps decide, not the exit code.

    A run whose steps were all measured and whose processes then hung, aborted or failed is ok with a note:
    the steps are what was to be measured.
    """
    cause = find_cause(ending.text, ending.returncode)
    if ending.returncode is None and ending.ended_by == "itself":
        return "failed", Cause("cannot_start", ending.text), ()
    if wrong := _wrong_world(ending):
        return "failed", wrong, ()
    if _complete(ending, cause):
        return "ok", None, (*_teardown_note(ending, cause), *_unknown_world(ending))
    return (*_incomplete(ending, cause), ())


def _wrong_world(ending: Ending) -> Cause | None:
    asked, found = ending.world_asked, ending.world_found
    if not asked or found is None:
        return None
    if (own := ending.world_below) and asked > 1 and ending.launcher != "plain":
        return Cause(
            "world_size",
            f"asked for {asked} ranks, and these started ranks of their own ({own} each): several trainings at once; "
            f"{_as_plain(own, ending.nodes)}, or leave the launcher out of the command",
        )
    if asked == found:
        return None
    return Cause("world_size", f"asked for {asked} rank{'s' * (asked > 1)}, found {found}{_world_hint(ending, found)}")


def _world_hint(ending: Ending, found: int) -> str:
    if found < ending.started:
        return (
            f"; {ending.started} processes were started, and by its own log it is no more than {found} that trained "
            "together; without a GPU accelerate joins them only where ACCELERATE_USE_CPU=true (workload.env)"
        )
    if ending.launcher == "accelerate" and found == 1:
        return "; `accelerate launch` starts one process silently where it sees no GPUs and no --multi_gpu"
    if ending.launcher == "plain" or (ending.world_asked or 0) < found:
        return f"; where the command starts {found} itself, {_as_plain(found, ending.nodes, ending.launcher)}"
    return ""


def _as_plain(world: int, nodes: int, launcher: str = "") -> str:
    """Say how a command that starts so many ranks by itself is measured."""
    each = world // nodes if world % nodes == 0 else world
    return f"give {'' if launcher == 'plain' else 'launchers=plain '}ranks.nproc_per_node={each}"


TEARDOWN = frozenset({"aborted", "terminated", "segfault"})
"""How processes end whose work is done; an exception or out of memory is a failure of the training itself."""


def _complete(ending: Ending, cause: Cause | None) -> bool:
    """All steps are there: the number asked for, or an end marker, or the window where neither is known.

    A run of unknown length whose window is measured counts when it hangs or aborts then, and not when an
    exception ends it.
    """
    if ending.last_step < ending.window_last:
        return False
    if ending.steps_asked is not None:
        return ending.last_step >= ending.steps_asked
    if ending.end_marker or ending.ended_by in ("stall", "grace"):
        return True
    return ending.ended_by == "itself" and (cause is None or cause.code in TEARDOWN)


def _teardown_note(ending: Ending, cause: Cause | None) -> tuple[str, ...]:
    if ending.ended_by == "itself" and ending.returncode == 0:
        return ()
    if ending.ended_by == "itself":
        return (f"measured, teardown failed: {cause.message if cause else f'exit code {ending.returncode}'}",)
    return (f"measured, teardown failed: still there {ending.limit_s:g} s after the last step, so it was ended",)


def _unknown_world(ending: Ending) -> tuple[str, ...]:
    if ending.world_found is None and (ending.world_asked or 0) > 1:
        return (f"the world size could not be checked: nothing in the run shows its {ending.world_asked} ranks",)
    return ()


def _incomplete(ending: Ending, cause: Cause | None) -> tuple[Status, Cause]:
    seen = f"{ending.steps_seen} step{'s' * (ending.steps_seen != 1)} seen"
    if ending.ended_by == "timeout":
        return "timeout", Cause("timeout", f"longer than measure.timeout_s={ending.limit_s:g}; {seen}")
    if ending.ended_by == "stall":
        return "stalled", Cause("stalled", f"no new step for measure.stall_s={ending.limit_s:g}; {seen}")
    if ending.ended_by == "grace":  # its log said that it was over
        return "incomplete", Cause("incomplete", _too_short(ending))
    if ending.returncode == 0 and ending.steps_seen == 0:
        return "failed", Cause("no_steps_found", ending.unreadable or "no steps in the logs")
    if ending.returncode == 0:
        return "incomplete", Cause("incomplete", _too_short(ending))
    cause = cause or Cause("exit_code", f"exit code {ending.returncode}", None, ending.returncode)
    if cause.code == "killed" and ending.oom_kills:
        told = f"in that time the kernel ended {ending.oom_kills} for want of memory"
        cause = replace(cause, code="host_oom", message=f"{cause.message}; {told}")
    status: Status = "failed"
    if cause.code in ("cuda_oom", "host_oom"):
        status = "oom"
    elif cause.code == "killed":
        status = "killed"
    return status, Cause(cause.code, f"{cause.message} ({seen})", cause.rank, cause.exitcode)


def _too_short(ending: Ending) -> str:
    asked = ending.steps_asked or 0
    if ending.last_step < asked:
        return f"ended by itself at step {ending.last_step} of {asked} (workload.steps)"
    last = ending.last_step
    window = f"{max(1, last // 6)}:{last}"
    return (
        f"ended by itself at step {last}, and measure.window ends at step {ending.window_last}; measure with "
        f"measure.window={window}, or count other steps of what is measured: interlace report DIR --window {window}"
    )
