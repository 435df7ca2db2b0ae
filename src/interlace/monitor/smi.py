"""GPU facts through the nvidia-smi program: the only module that starts it, and ends it when it hangs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from interlace.monitor import smi_text
from interlace.monitor.readings import Driver, Gpu, GpuReadError, GpuSample, ProcessList

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_GPU_FIELDS = ("index", "uuid", "pci.bus_id", "name", "memory.total", "mig.mode.current")
_SAMPLE_FIELDS = (
    "uuid",
    "memory.used",
    "utilization.gpu",
    "clocks.sm",
    "temperature.gpu",
    "power.draw",
    "clocks_event_reasons.active",
)
_PROCESS_FIELDS = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")
# The other name of a field, for drivers that know only that one (renamed in 535).
_OTHER_NAME = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}


class Answer(NamedTuple):
    """What a program printed, and how it ended."""

    stdout: str
    stderr: str
    rc: int


def run_bounded(argv: list[str], timeout_s: float) -> Answer:
    """Run a program that may hang; after `timeout_s` its whole session is killed (SIGKILL).

    Raises GpuReadError: `timeout`, or `nvidia_smi_missing` when it cannot be started.
    """
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise GpuReadError("nvidia_smi_missing", f"cannot start {argv[0]}: {error.strerror}") from error
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(child)
        raise GpuReadError("timeout", f"{argv[0]} did not answer within {timeout_s:g} s") from None
    return Answer(stdout, stderr, child.returncode)


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill the child's session. One stuck in the kernel (D state) cannot be killed, and is not waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=1.0)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()


class NvidiaSmi:
    """GPU facts from nvidia-smi. After `max_timeouts` hangs in a row it is left alone for `pause_s`, then tried."""

    kind = "nvidia-smi"
    min_interval_s = 1.0
    """One call takes a good part of a second of somebody's CPU on a node of eight GPUs."""

    def __init__(
        self, reason: str = "chosen by name", *, program: str | None = None, timeout_s: float = 10.0,
        max_timeouts: int = 3, pause_s: float = 60.0,
    ) -> None:  # fmt: skip
        self.reason = reason
        self._program = program or shutil.which("nvidia-smi") or "nvidia-smi"
        self._timeout_s = timeout_s
        self._max_timeouts = self._timeouts_left = max_timeouts
        self._pause_s, self._again_s = pause_s, 0.0
        self._fields = {"gpu": _GPU_FIELDS, "sample": _SAMPLE_FIELDS}

    def driver(self) -> Driver:
        """Return the driver's version from a query and CUDA's from the banner."""
        version = smi_text.parse_driver_version(self._ask("--query-gpu=driver_version", "--format=csv,noheader").stdout)
        return Driver(version, smi_text.parse_cuda_version(self._ask().stdout))

    def inventory(self) -> tuple[Gpu, ...]:
        """Return every GPU, with MIG slices where any GPU has MIG on."""
        answer, fields = self._query("gpu")
        gpus = _parsed(answer, lambda text: smi_text.parse_gpus(text, fields))
        if "mig.mode.current" in fields and "Enabled" in answer.stdout:
            return smi_text.with_mig(gpus, smi_text.parse_list(self._ask("-L").stdout))
        return gpus

    def sample(self) -> tuple[GpuSample, ...]:
        """Return what every GPU does now; the time is that of the answer."""
        answer, fields = self._query("sample")
        now_s = time.monotonic()
        return _parsed(answer, lambda text: smi_text.parse_samples(text, now_s, fields))

    def processes(self) -> ProcessList:
        """Return the compute processes."""
        answer = self._ask(f"--query-compute-apps={','.join(_PROCESS_FIELDS)}", "--format=csv")
        return _parsed(answer, lambda text: smi_text.parse_processes(text, _PROCESS_FIELDS))

    def close(self) -> None:
        """Do nothing: no process outlives its call."""

    def _query(self, what: str) -> tuple[Answer, tuple[str, ...]]:
        """Ask for the fields of `what`; fields unknown to this driver are renamed, then left out."""
        while True:
            fields = self._fields[what]
            answer = self._ask(f"--query-gpu={','.join(fields)}", "--format=csv")
            bad = smi_text.invalid_field(answer.stdout + answer.stderr)
            if bad is None or bad not in fields:
                return answer, fields
            self._fields[what] = _without(fields, bad)

    def _ask(self, *arguments: str) -> Answer:
        if self._timeouts_left <= 0 and (left_s := self._again_s - time.monotonic()) > 0:
            raise GpuReadError("switched_off", f"{self._program} hung too often; it is asked again in {left_s:.0f} s")
        try:
            answer = run_bounded([self._program, *arguments], self._timeout_s)
        except GpuReadError as error:
            self._timeouts_left -= error.code == "timeout"
            self._again_s = time.monotonic() + self._pause_s
            raise
        self._timeouts_left = self._max_timeouts
        return answer


def _without(fields: tuple[str, ...], bad: str) -> tuple[str, ...]:
    other = _OTHER_NAME.get(bad)
    renamed = (other if field == bad else field for field in fields)
    return tuple(field for field in renamed if field)


def _parsed(answer: Answer, parse: Callable[[str], T]) -> T:
    """Parse the answer; what nvidia-smi could not read may stand on stderr beside a good table on stdout."""
    if not answer.stdout.strip():
        raise smi_text.failure(answer.stdout, answer.stderr, answer.rc).error()
    return parse(f"{answer.stdout}\n{answer.stderr}")
