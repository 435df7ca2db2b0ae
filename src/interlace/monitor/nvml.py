"""GPU facts through NVML (nvidia-ml-py): the only module that loads the driver's library."""

from __future__ import annotations

import contextlib
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlace.monitor.cells import sysfs_bus_id
from interlace.monitor.readings import (
    Driver,
    Gpu,
    GpuProcess,
    GpuReadError,
    GpuSample,
    MigDevice,
    ProcessList,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MIB = 1024 * 1024
_NEEDED = ("nvmlDeviceGetMigMode", "nvmlMemory_v2", "nvmlSystemGetCudaDriverVersion_v2")
"""Missing from old releases of the package `pynvml`, whose folder of that name hides the module of nvidia-ml-py."""
_NOT_AVAILABLE = 1 << 63  # NVML answers "no value" with all bits of an unsigned 64-bit number


class Nvml:
    """GPU facts from NVML. Raises GpuReadError when the library or the driver cannot be used.

    `binding` is the module `pynvml`, or a stand-in with the same functions.
    """

    kind = "nvml"
    min_interval_s = 0.0

    def __init__(self, reason: str = "chosen by name", *, binding: Any = None) -> None:
        self.reason = reason
        self._nvml = _checked(binding or import_module("pynvml"))
        self._handles: list[tuple[str, Any]] = []
        self._gpus: list[Gpu] = []
        self._open = False
        try:
            self._nvml.nvmlInit()
            self._open = True
            self._find()
        except self._nvml.NVMLError as error:
            self.close()
            raise GpuReadError(_code(error), f"NVML: {error}") from error

    def driver(self) -> Driver:
        """Return the versions of the driver and of the newest CUDA it supports."""
        reasons: dict[str, str] = {}
        version = self._read(reasons, "version", self._nvml.nvmlSystemGetDriverVersion)
        cuda = self._read(reasons, "cuda", self._nvml.nvmlSystemGetCudaDriverVersion_v2)
        return Driver(version, None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}")

    def inventory(self) -> tuple[Gpu, ...]:
        """Return the GPUs found when the library was opened, lost ones included."""
        return tuple(self._gpus)

    def sample(self) -> tuple[GpuSample, ...]:
        """Return what every GPU does now; each value that fails is None with NVML's word for it."""
        self._refuse_when_closed()
        return tuple(self._sample(uuid, handle) for uuid, handle in self._handles)

    def processes(self) -> ProcessList:
        """Return the compute processes of every GPU."""
        self._refuse_when_closed()
        found: list[GpuProcess] = []
        reasons: dict[str, str] = {}
        for uuid, handle in self._handles:
            listed = self._read(reasons, uuid, self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            found.extend(self._process(uuid, entry) for entry in listed or ())
        return ProcessList(tuple(found), reasons)

    def close(self) -> None:
        """Shut the library down, once."""
        if self._open:
            self._open = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _find(self) -> None:
        count = self._nvml.nvmlDeviceGetCount()
        if count == 0:
            self.close()
            raise GpuReadError("no_devices", "NVML: no devices were found")
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                gpu = self._gpu(index, handle)
            except self._nvml.NVMLError as error:
                self._gpus.append(Gpu(index, f"lost:{index}", reasons={"gpu": str(error)}))
            else:
                self._gpus.append(gpu)
                self._handles.append((gpu.uuid, handle))

    def _gpu(self, index: int, handle: Any) -> Gpu:
        reasons: dict[str, str] = {}
        uuid = str(self._nvml.nvmlDeviceGetUUID(handle))
        pci = self._read(reasons, "bus_id", self._nvml.nvmlDeviceGetPciInfo, handle)
        return Gpu(
            index,
            uuid,
            None if pci is None else sysfs_bus_id(_text(pci.busId)),
            self._read(reasons, "name", self._nvml.nvmlDeviceGetName, handle),
            _mib(self._read(reasons, "memory_total_mib", lambda: self._memory(handle).total)),
            self._mig(handle),
            reasons,
        )

    def _mig(self, handle: Any) -> tuple[MigDevice, ...]:
        """List the slices of a GPU; none where MIG is off or unknown to the GPU."""
        found = []
        with contextlib.suppress(self._nvml.NVMLError):
            if self._nvml.nvmlDeviceGetMigMode(handle)[0] != 1:
                return ()
            for device in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
                with contextlib.suppress(self._nvml.NVMLError):  # an empty place raises NotFound
                    child = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, device)
                    name = str(self._nvml.nvmlDeviceGetName(child))
                    uuid = str(self._nvml.nvmlDeviceGetUUID(child))
                    found.append(MigDevice(name.rpartition("MIG ")[2], device, uuid))
        return tuple(found)

    def _sample(self, uuid: str, handle: Any) -> GpuSample:
        nvml, why = self._nvml, dict[str, str]()
        power_mw = self._read(why, "power_w", nvml.nvmlDeviceGetPowerUsage, handle)
        return GpuSample(
            time.monotonic(),
            uuid,
            _mib(self._read(why, "memory_used_mib", lambda: self._memory(handle).used)),
            self._read(why, "utilization_pct", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            self._read(why, "sm_clock_mhz", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            self._read(why, "temperature_c", nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            None if power_mw is None else power_mw / 1000,
            self._read(why, "throttle", self._throttle, handle),
            why,
        )

    def _memory(self, handle: Any) -> Any:
        """Ask for memory as nvidia-smi shows it: since driver 510 without what the driver reserves."""
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError_FunctionNotFound:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _throttle(self, handle: Any) -> int:
        """Ask by the new name of the mask, then by that before driver 535 (which `pynvml` 11 has alone)."""
        if hasattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons"):
            with contextlib.suppress(self._nvml.NVMLError_FunctionNotFound):
                return int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        return int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def _process(self, uuid: str, entry: Any) -> GpuProcess:
        name = self._read({}, "name", self._nvml.nvmlSystemGetProcessName, entry.pid)
        return GpuProcess(entry.pid, uuid, name, _mib(entry.usedGpuMemory))

    def _read(self, reasons: dict[str, str], field: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make one call of the library; a refusal gives None and its text under the field's name.

        The binding decodes names as UTF-8, and a process may be called anything.
        """
        try:
            return call(*arguments)
        except (self._nvml.NVMLError, UnicodeDecodeError) as error:
            reasons[field] = str(error)
            return None

    def _refuse_when_closed(self) -> None:
        if not self._open:
            raise GpuReadError("closed", "NVML was read after close()")


def _checked(binding: Any) -> Any:
    """Return the module as it is; raise GpuReadError where it is too old to be asked."""
    lacking = [name for name in _NEEDED if not hasattr(binding, name)]
    if lacking:
        hint = "the package pynvml hides nvidia-ml-py: pip uninstall pynvml, then reinstall nvidia-ml-py"
        raise GpuReadError("binding_too_old", f"NVML: the module pynvml here is too old (no {lacking[0]}); {hint}")
    return binding


def _mib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None or size_bytes >= _NOT_AVAILABLE else size_bytes / _MIB


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _code(error: Exception) -> str:
    """Turn `NVMLError_DriverNotLoaded` into `driver_not_loaded`."""
    name = type(error).__name__.partition("_")[2] or "unknown"
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
