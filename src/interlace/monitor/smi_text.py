"""The only module that knows what nvidia-smi prints: pure functions from its text to GPU facts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from interlace.monitor.cells import mask, number, parse_table, sysfs_bus_id
from interlace.monitor.readings import Gpu, GpuProcess, GpuReadError, GpuSample, MigDevice, ProcessList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# First match wins. Texts: NVIDIA driver releases 450 to 580, as quoted in public bug reports.
_PROBLEMS = tuple(
    (re.compile(pattern, re.IGNORECASE), code)
    for pattern, code in (
        (r"driver/library version mismatch", "nvml_version_mismatch"),
        (r"(couldn.t|could not) communicate with the nvidia driver|driver not loaded", "driver_not_loaded"),
        (
            r"(couldn't find|shared libraries:) libnvidia-ml|nvml.*library not found|shared library not found",
            "nvml_missing",
        ),
        (r"no devices( were)? found|no supported gpus? (was|were) found", "no_devices"),
        (r"gpu is lost|fallen off the bus", "gpu_lost"),
        (r"requires? (a )?reset|reset required", "gpu_requires_reset"),
        (r"unable to determine the device handle", "device_handle_error"),
        (r"blocked by the operating system", "gpu_access_blocked"),
        (r"failed to initialize nvml: insufficient permissions", "insufficient_permissions"),
        (r"failed to initialize nvml", "nvml_init_error"),
        (r"is not a valid field to query", "invalid_field"),
        (r"(command|file|nvidia-smi:) not found|no such file or directory", "nvidia_smi_missing"),
    )
)
# `GPU 0000:0B:00.0`, `GPU0000:0B:00.0`, and `GPU3: 0000:0B:00.0` of newer drivers.
_BUS_IN_MESSAGE = re.compile(r"GPU\s*(?:\d+:\s+)?([0-9a-f]{1,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field', re.IGNORECASE)
_ONE_GPU = frozenset({"gpu_lost", "gpu_requires_reset", "device_handle_error"})
_REFUSED = re.compile(r"\[[^\]]+\]")
_NOBODY = re.compile(r"no running (\w+ )?processes", re.IGNORECASE)
_LISTED_GPU = re.compile(r"GPU\s+(\d+):\s+(.*?)\s*\(UUID:\s*([^)]+)\)")
_LISTED_MIG = re.compile(r"MIG\s+(\S+)\s+Device\s+(\d+):\s*\(UUID:\s*([^)]+)\)")
_CUDA = re.compile(r"CUDA(?: \w+)? Version\s*:\s*(\d+(?:\.\d+)+)")


class Problem(NamedTuple):
    """What a line of nvidia-smi that is no row means."""

    code: str
    message: str
    bus_id: str | None = None

    def error(self) -> GpuReadError:
        """Return the problem as what a source raises."""
        return GpuReadError(self.code, f"nvidia-smi: {self.message}", self.bus_id)


def problem_of_line(line: str) -> Problem | None:
    """Recognise one line as a known failure; None where it is something else."""
    code = next((code for pattern, code in _PROBLEMS if pattern.search(line)), None)
    if code is None:
        return None
    bus = _BUS_IN_MESSAGE.search(line)
    return Problem(code, line.strip(), sysfs_bus_id(bus[1]) if bus else None)


def problems(text: str) -> tuple[Problem, ...]:
    """Return every known failure in a text, in its order."""
    found = (problem_of_line(line) for line in text.splitlines() if line.strip())
    return tuple(problem for problem in found if problem)


def invalid_field(text: str) -> str | None:
    """Return the field that this driver does not know, if that is what the text complains of."""
    match = _BAD_FIELD.search(text)
    return match[1] if match else None


def failure(stdout: str, stderr: str = "", rc: int | None = None) -> Problem:
    """Say why a call without any row failed. The exit code alone is never trusted: it varies by driver."""
    text = f"{stdout}\n{stderr}"
    known = problems(text)
    if known:
        return known[0]
    ended = "" if rc is None else f" (exit code {rc})"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        return Problem("empty_output", f"printed nothing{ended}")
    return Problem("unreadable_output", f"{first}{ended}")


def parse_gpus(text: str, fields: Sequence[str] | None = None) -> tuple[Gpu, ...]:
    """Read `--query-gpu=index,uuid,pci.bus_id,name,memory.total`; lost GPUs are kept with their reason.

    Raises GpuReadError when the text holds no row and no lost GPU.
    """
    table = parse_table(text, fields)
    gpus = tuple(_gpu(row) for row in table.rows)
    lost = tuple(_lost(problem) for problem in problems("\n".join(table.strays)) if problem.code in _ONE_GPU)
    if not gpus and not lost:
        raise failure(text).error()
    return gpus + lost


def parse_samples(text: str, t_s: float, fields: Sequence[str] | None = None) -> tuple[GpuSample, ...]:
    """Read `--query-gpu=uuid,memory.used,...` as taken at `t_s`. Raises GpuReadError without a row."""
    rows = parse_table(text, fields).rows
    if not rows:
        raise failure(text).error()
    return tuple(_sample(row, t_s) for row in rows)


def parse_processes(text: str, fields: Sequence[str] | None = None) -> ProcessList:
    """Read `--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name`.

    A row whose pid is no number (`[Not Supported]`) means that the list is unknown, not that it is empty.
    """
    table = parse_table(text, fields)
    refused = next((line for line in table.strays if _REFUSED.fullmatch(line)), None)
    if not (table.has_header or table.rows or refused or _NOBODY.search(text)):
        raise failure(text).error()
    processes = []
    reasons = {"*": refused} if refused else {}
    for row in table.rows:
        uuid = row.get("uuid", "")
        owner = uuid if uuid.startswith(("GPU-", "MIG-")) else None
        pid = number(row.get("pid"))
        if pid.value is None:
            reasons[owner or "*"] = pid.reason or "no pid"
        else:
            used = number(row.get("used_gpu_memory")).value
            processes.append(GpuProcess(int(pid.value), owner, row.get("process_name"), used))
    return ProcessList(tuple(processes), reasons)


def parse_list(text: str) -> tuple[Gpu, ...]:
    """Read `nvidia-smi -L`: MIG slices are children of their GPU, never GPUs. Raises GpuReadError."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        if match := _LISTED_GPU.search(line):
            gpus.append(Gpu(int(match[1]), match[3].strip(), name=match[2]))
        elif (match := _LISTED_MIG.search(line)) and gpus:
            last = gpus[-1]
            child = MigDevice(match[1], int(match[2]), match[3].strip())
            gpus[-1] = Gpu(last.index, last.uuid, name=last.name, mig=(*last.mig, child))
    if not gpus:
        raise failure(text).error()
    return tuple(gpus)


def with_mig(gpus: Iterable[Gpu], listed: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Add to each GPU the slices that `-L` lists under the same UUID."""
    slices = {gpu.uuid: gpu.mig for gpu in listed}
    return tuple(
        Gpu(
            gpu.index,
            gpu.uuid,
            gpu.bus_id,
            gpu.name,
            gpu.memory_total_mib,
            slices.get(gpu.uuid, ()),
            gpu.reasons,
        )
        for gpu in gpus
    )


def parse_driver_version(text: str) -> str | None:
    """Find the driver's version in the answer to that query: one line for each GPU, and remarks beside them."""
    match = re.search(r"^\s*(\d+(?:\.\d+)+)\s*$", text, re.MULTILINE)
    return match[1] if match else None


def parse_cuda_version(text: str) -> str | None:
    """Find the newest CUDA the driver supports in the banner of `nvidia-smi`; no query field has it."""
    match = _CUDA.search(text)
    return match[1] if match else None


def parse_topo(text: str) -> dict[int, tuple[int, ...]]:
    """Read `nvidia-smi topo -m`: GPU index -> NUMA nodes. More than one node means that nothing is known.

    Columns are separated by tabs, and cells (`N/A`, `NUMA Affinity`) hold blanks.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    heads = next((_cells(line) for line in lines if "NUMA Affinity" in line), [])
    # Before driver 535 it is the last, and the escape code that ends its underline sticks to it.
    place = next((place for place, head in enumerate(heads) if "NUMA Affinity" in head), None)
    if place is None:
        return {}
    rows = (_cells(line) for line in lines)
    return {
        int(row[0][3:]): _numbers(row[place]) for row in rows if re.fullmatch(r"GPU\d+", row[0]) and len(row) > place
    }


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")]


def _numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def _gpu(row: dict[str, str]) -> Gpu:
    reasons: dict[str, str] = {}
    index = _kept(row, "index", number, reasons, "index")
    total = _kept(row, "memory.total", number, reasons, "memory_total_mib")
    bus_id = sysfs_bus_id(row.get("pci.bus_id"))
    if bus_id is None:
        reasons["bus_id"] = row.get("pci.bus_id") or "not asked"
    uuid = row.get("uuid", "")
    if not uuid.startswith(("GPU-", "MIG-")):
        reasons["uuid"] = uuid or "not asked"
        uuid = f"unknown:{bus_id or row.get('index', '?')}"
    place = None if index is None else int(index)
    return Gpu(place, uuid, bus_id, row.get("name"), total, (), reasons)


def _lost(problem: Problem) -> Gpu:
    return Gpu(
        None, f"lost:{problem.bus_id or problem.message}", problem.bus_id, None, None, (), {"gpu": problem.message}
    )


def _sample(row: dict[str, str], t_s: float) -> GpuSample:
    reasons: dict[str, str] = {}
    bits = _kept(row, "clocks_event_reasons.active", mask, reasons, "throttle")
    return GpuSample(
        t_s,
        row.get("uuid", ""),
        _kept(row, "memory.used", number, reasons, "memory_used_mib"),
        _kept(row, "utilization.gpu", number, reasons, "utilization_pct"),
        _kept(row, "clocks.sm", number, reasons, "sm_clock_mhz"),
        _kept(row, "temperature.gpu", number, reasons, "temperature_c"),
        _kept(row, "power.draw", number, reasons, "power_w"),
        None if bits is None else int(bits),
        reasons,
    )


def _kept(
    row: dict[str, str],
    column: str,
    read: Callable[[str | None], tuple[float | None, str | None]],
    reasons: dict[str, str],
    field: str,
) -> float | None:
    """Read one cell and keep the reason under the field's name where there is no value."""
    if column not in row:
        reasons[field] = "not asked"
        return None
    value, reason = read(row[column])
    if reason is not None:
        reasons[field] = reason
    return value
