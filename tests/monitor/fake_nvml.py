"""A stand-in for the module `pynvml`: the functions we call, over two GPUs of which one is odd."""

# ruff: noqa: N801, N802, N815, N818 (the names are the binding's)

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

MIB = 1024 * 1024


class NVMLError(Exception):
    """Base of NVML's errors."""


class NVMLError_NotSupported(NVMLError):
    """The GPU has no such value."""


class NVMLError_FunctionNotFound(NVMLError):
    """The driver is older than the function."""


class NVMLError_GpuIsLost(NVMLError):
    """The GPU fell off the bus."""


class NVMLError_DriverNotLoaded(NVMLError):
    """No driver."""


class FakeNvml:
    """Two GPUs: 0 answers everything and has a process; 1 has unified memory, an old driver."""

    NVMLError = NVMLError
    NVMLError_FunctionNotFound = NVMLError_FunctionNotFound
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    nvmlMemory_v2 = 2

    def __init__(self, *, lost: bool = False, driver: bool = True, mig: bool = False) -> None:
        self.lost, self.driver, self.mig = lost, driver, mig
        self.shutdowns = 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError_DriverNotLoaded("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        self.shutdowns += 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if self.lost and index == 1:
            raise NVMLError_GpuIsLost("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return f"MIG-{handle}" if isinstance(handle, str) else f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: Any) -> str:
        return "NVIDIA H200 MIG 1g.18gb" if isinstance(handle, str) else "NVIDIA H200"

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"0000000F:0{handle + 1}:00.0".encode())

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        if handle == 1:
            raise NVMLError_NotSupported("Not Supported")
        return [int(self.mig), int(self.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 3 - handle

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, device: int) -> str:
        if device != 1:
            raise NVMLError_NotSupported("Not Found")
        return f"{handle}/{device}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        if handle == 1:
            raise (NVMLError_NotSupported if version is None else NVMLError_FunctionNotFound)("Not Supported")
        return SimpleNamespace(total=143771 * MIB, used=517 * MIB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=7 * handle)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return 1980 - handle * kind

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 40 + handle + sensor

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 112_500 + handle

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        if handle == 1:
            raise NVMLError_FunctionNotFound("Function Not Found")
        return 0x4

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return 0x20 * handle

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        if handle == 1:
            raise NVMLError_NotSupported("Not Supported")
        return [SimpleNamespace(pid=4242, usedGpuMemory=500 * MIB)]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        return f"python-{pid}"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12040
