"""Why a run ended: a cause named from exit codes and log texts, and the status that follows. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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


KNOWN = (
    ("cuda_oom", r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED",
     "a GPU ran out of memory"),
    ("host_oom", r"DefaultCPUAllocator: (can't|not enough)|^MemoryError|Cannot allocate memory",
     "the host ran out of memory"),
    ("shm_exhausted", r"(out of|insufficient) shared memory|killed by signal: Bus error|unable to .*shared memory",
     "shared memory ran out (/dev/shm is too small, or full of what killed runs left)"),
    ("port_in_use", r"EADDRINUSE|[Aa]ddress already in use|another process is utilizing it",
     "a port of the rendezvous was taken"),
    ("nccl_timeout", r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL",
     "a collective timed out: some rank did not take part"),
    ("nccl_error", r"ncclInternalError|ncclSystemError|ncclUnhandledCudaError|NCCL error in|ncclRemoteError",
     "NCCL failed"),
    ("cuda_error", r"CUDA error: [a-z ]+", "CUDA failed"),
    ("segfault", r"Segmentation fault", "a rank crashed (segmentation fault)"),
    ("bad_arguments", r"error: (unrecognized arguments|the following arguments are required|argument ).*",
     "the command refused its arguments"),
    ("import_error", r"(ModuleNotFoundError|ImportError): .*", "an import failed"),
)  # fmt: skip
"""Code, pattern, sentence; the first that matches names the cause."""

OWN_LINES = ("interlace rank: unpinned", "interlace rank: note")
"""What our wrapper says of itself explains no failure."""

RETRYABLE = frozenset({"port_in_use"})

DECISIVE = frozenset({"shm_exhausted", "nccl_timeout", "segfault"})
"""These name the cause even where an exception that they led to is raised after them."""

_SIGNAL_CODES = {
    "SIGSEGV": ("segfault", "crashed (segmentation fault)"),
    "SIGKILL": ("killed", "was killed (SIGKILL: the host's out-of-memory killer, or somebody)"),
    "SIGABRT": ("aborted", "aborted"),
    "SIGBUS": ("bus_error", "got a bus error (often /dev/shm is full)"),
    "SIGTERM": ("terminated", "was asked to end (SIGTERM)"),
}


def signal_name(returncode: int | None) -> str | None:
    """Name the signal behind a return code: -9 and 137 are SIGKILL. None where there is none."""
    if returncode is None:
        return None
    number = -returncode if returncode < 0 else returncode - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


AFTERMATH = re.compile(
    r"Connection (closed|reset|refused)|[Bb]roken pipe|ncclRemoteError|ncclSystemError|remote process|DistNetworkError"
    r"|RendezvousConnectionError|recvValue failed|sendBytes failed|timed out waiting for"
)
"""What ranks say that lost another one: the cause lies with that."""

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


def root_cause(text: str) -> tuple[int, int] | None:
    """Read (rank, exit code) of torch elastic's first observed failure; its own exit code is only 1."""
    block = re.search(r"Root Cause \(first observed failure\):(.*)", text, re.DOTALL)
    scope = block[1] if block else ""
    rank = re.search(r"rank\s*:\s*(\d+)", scope)
    code = re.search(r"exitcode\s*:\s*(-?\d+)", scope)
    if rank and code:
        return int(rank[1]), int(code[1])
    line = re.search(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)", text)
    return (int(line[2]), int(line[1])) if line else None


def find_cause(text: str, returncode: int | None) -> Cause | None:
    """Name why a program failed, from its logs and its return code; None for a clean end without a known text.

    Texts alone say nothing (good runs print tracebacks, and warnings of ports and memory that they got over): a
    known text counts in a program that failed, and there the last one, unless a later exception says otherwise.
    """
    if returncode == 0:
        return None
    failure = root_cause(text)
    rank, exitcode = failure or (None, returncode)
    known, at = _last_known(text)
    exception, raised_at = _last_exception(text)
    name = signal_name(exitcode)
    if known is not None and (known[0] in DECISIVE or at >= raised_at):
        return Cause(known[0], f"{known[1]}: {_line_of(text, at)}", rank, exitcode)
    if name in _SIGNAL_CODES:
        code, what = _SIGNAL_CODES[name]
        who = "the program" if rank is None else f"rank {rank}"
        return Cause(code, f"{who} {what}", rank, exitcode)
    who = f"rank {rank} failed" if rank is not None else f"exit code {returncode}"
    last = exception or _last_line(text)
    return Cause("exception" if exception else "exit_code", f"{who}: {last}" if last else who, rank, exitcode)


ELASTIC = "torch/distributed/elastic/"
ELASTIC_REPORT = re.compile(rf"^.*{ELASTIC}.*\] failed \(exitcode", re.MULTILINE)


def _last_known(text: str) -> tuple[tuple[str, str] | None, int]:
    """Return code and sentence of the last known text, and where it stands."""
    found = [
        (match.start(), code, sentence)
        for code, pattern, sentence in KNOWN
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    if not found:
        return None, -1
    # A text that says more (out of memory) stands beside one that says less: of one line the first kind counts.
    line = _line_start(text, max(at for at, _, _ in found))
    at, code, sentence = next(one for one in found if _line_start(text, one[0]) == line)
    return (code, sentence), at


def _last_exception(text: str) -> tuple[str | None, int]:
    pattern = r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?::.*)?)$"
    own = [
        match
        for match in re.finditer(pattern, text, re.MULTILINE)
        if "ChildFailedError" not in match[1] and "CalledProcessError" not in match[1]
    ]
    return (own[-1][1], own[-1].start()) if own else (None, -1)


def _last_line(text: str) -> str | None:
    """Return what the ranks said last: what the launcher says of their end comes after it, and is not theirs."""
    launcher = ELASTIC_REPORT.search(text)
    lines = [line.strip() for line in re.split(r"[\r\n]", text[: launcher.start()] if launcher else text)]
    lines = [line for line in lines if line and not line.startswith(OWN_LINES) and ELASTIC not in line]
    return lines[-1][:300] if lines else None


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _line_of(text: str, position: int) -> str:
    start = _line_start(text, position)
    return re.split(r"[\r\n]", text[start : start + 300])[0].strip()


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
    if not asked or found is None or asked == found:
        return None
    hint = "see the start of stderr.log"
    if found < ending.started:
        hint = (
            f"{ending.started} processes were started, and by its own log it is no more than {found} that trained "
            "together; without a GPU accelerate joins them only where ACCELERATE_USE_CPU=true (workload.env)"
        )
    elif ending.launcher == "accelerate" and found == 1:
        hint = "`accelerate launch` starts one process silently where it sees no GPUs and no --multi_gpu"
    return Cause("world_size", f"asked for {asked} rank{'s' * (asked > 1)}, found {found}; {hint}")


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
