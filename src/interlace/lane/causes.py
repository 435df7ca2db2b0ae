"""Why a run ended: a cause named from exit codes and log texts, and the status that follows. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from interlace.schema import Cause

if TYPE_CHECKING:
    from interlace.schema import Status

EndedBy = Literal["itself", "timeout", "stall", "grace", "interrupt"]

TAIL_BYTES = 262_144
"""How much of each log's end is searched for a cause."""


@dataclass(frozen=True)
class Ending:
    """The facts of a run's end. `returncode` is None when the program never started."""

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


KNOWN = (
    ("cuda_oom", r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED",
     "a GPU ran out of memory"),
    ("host_oom", r"DefaultCPUAllocator: (can't|not enough)|^MemoryError|Cannot allocate memory",
     "the host ran out of memory"),
    ("shm_exhausted", r"(out of|insufficient) shared memory|killed by signal: Bus error|unable to .*shared memory",
     "shared memory ran out (/dev/shm is too small, or full of what killed runs left)"),
    ("port_in_use", r"EADDRINUSE|[Aa]ddress already in use", "a port of the rendezvous was taken"),
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

RETRYABLE = frozenset({"port_in_use"})

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


def find_port(text: str) -> int | None:
    """Return the port named beside a bind error, where one is."""
    found = re.search(r"port: (\d+)|\]:(\d+) \(errno|:(\d{4,5})\b.{0,40}[Aa]ddress already in use", text)
    return next((int(group) for group in found.groups() if group), None) if found else None


def find_cause(text: str, returncode: int | None) -> Cause | None:
    """Name why a program failed, from its logs and its return code; None for a clean end without a known text.

    Tracebacks alone say nothing (good runs print some): the last exception line is used only when the
    program failed.
    """
    failure = root_cause(text)
    rank, exitcode = failure or (None, returncode)
    for code, pattern, sentence in KNOWN:
        if found := re.search(pattern, text, re.MULTILINE):
            if code == "segfault" and failure is None and signal_name(returncode) != "SIGSEGV":
                continue
            return Cause(code, f"{sentence}: {_line_of(text, found.start())}", rank, exitcode)
    if returncode == 0:
        return None
    name = signal_name(exitcode)
    if name in _SIGNAL_CODES:
        code, what = _SIGNAL_CODES[name]
        return Cause(code, f"{'rank ' + str(rank) if rank is not None else 'the program'} {what}", rank, exitcode)
    last = re.findall(
        r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?::.*)?)$", text, re.MULTILINE
    )
    own = [line for line in last if "ChildFailedError" not in line and "CalledProcessError" not in line]
    who = f"rank {rank} failed" if rank is not None else f"exit code {returncode}"
    return Cause("exception" if own else "exit_code", f"{who}: {own[-1]}" if own else who, rank, exitcode)


def _line_of(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    return re.split(r"[\r\n]", text[start : start + 300])[0].strip()


def judge(ending: Ending) -> tuple[Status, Cause | None, tuple[str, ...]]:
    """Return the status of a run, its cause, and notes. Steps decide, not the exit code.

    A run whose steps were all measured and whose processes then hung, aborted or failed is ok with a note:
    the steps are what was to be measured.
    """
    cause = find_cause(ending.text, ending.returncode)
    if ending.returncode is None and ending.ended_by == "itself":
        return "failed", Cause("cannot_start", ending.text), ()
    if ending.ended_by == "interrupt":
        return "interrupted", Cause("interrupted", "Interlace was asked to stop"), ()
    if wrong := _wrong_world(ending):
        return "failed", wrong, ()
    if _complete(ending):
        return "ok", None, _teardown_note(ending, cause)
    return (*_incomplete(ending, cause), ())


def _wrong_world(ending: Ending) -> Cause | None:
    asked, found = ending.world_asked, ending.world_found
    if not asked or found is None or asked == found:
        return None
    hint = "see the start of stderr.log"
    if ending.launcher == "accelerate" and found == 1:
        hint = "`accelerate launch` starts one process silently where it sees no GPUs and no --multi_gpu"
    return Cause("world_size", f"asked for {asked} rank{'s' * (asked > 1)}, found {found}; {hint}")


def _complete(ending: Ending) -> bool:
    """All steps are there: the number asked for, or an end marker, or a clean exit after the window."""
    if ending.last_step < ending.window_last:
        return False
    if ending.steps_asked is not None:
        return ending.last_step >= ending.steps_asked
    return ending.end_marker or (ending.returncode == 0 and ending.ended_by == "itself")


def _teardown_note(ending: Ending, cause: Cause | None) -> tuple[str, ...]:
    if ending.ended_by == "itself" and ending.returncode == 0:
        return ()
    if ending.ended_by == "itself":
        return (f"measured, teardown failed: {cause.message if cause else f'exit code {ending.returncode}'}",)
    return (f"measured, teardown failed: still there {ending.limit_s:g} s after the last step, so it was ended",)


def _incomplete(ending: Ending, cause: Cause | None) -> tuple[Status, Cause]:
    seen = f"{ending.steps_seen} step{'s' * (ending.steps_seen != 1)} seen"
    if ending.ended_by == "timeout":
        return "timeout", Cause("timeout", f"longer than measure.timeout_s={ending.limit_s:g}; {seen}")
    if ending.ended_by in ("stall", "grace"):
        return "stalled", Cause("stalled", f"no new step for measure.stall_s={ending.limit_s:g}; {seen}")
    if ending.returncode == 0 and ending.steps_seen == 0:
        return "failed", Cause("no_steps_found", ending.unreadable or "no steps in the logs")
    if ending.returncode == 0:
        asked = ending.steps_asked or ending.window_last
        return "incomplete", Cause("incomplete", f"ended by itself at step {ending.last_step} of {asked}")
    cause = cause or Cause("exit_code", f"exit code {ending.returncode}", None, ending.returncode)
    status: Status = "failed"
    if cause.code in ("cuda_oom", "host_oom"):
        status = "oom"
    elif cause.code == "killed":
        status = "killed"
    return status, Cause(cause.code, f"{cause.message} ({seen})", cause.rank, cause.exitcode)
