"""Choosing where GPU facts come from: NVML, nvidia-smi where NVML fails, nothing where both do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.monitor.nvml import Nvml
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import GpuReadError, GpuSource
from interlace.monitor.smi import NvidiaSmi

if TYPE_CHECKING:
    from interlace.settings import Source


def open_source(kind: Source = "auto") -> GpuSource:
    """Open the best source there is. Never raises: what failed is told by the source's `reason`."""
    if kind == "off":
        return NoGpus("GPU monitoring is switched off (monitor.source=off)")
    failed = []
    if kind in ("auto", "nvml"):
        try:
            return Nvml("NVML answers")
        except (GpuReadError, ImportError) as error:
            failed.append(str(error))
    if kind in ("auto", "nvidia-smi"):
        try:
            return _answering_smi("; ".join(failed))
        except GpuReadError as error:
            failed.append(str(error))
    return NoGpus("; ".join(failed))


def _answering_smi(nvml_failure: str) -> NvidiaSmi:
    """Return nvidia-smi after one question that it answered."""
    smi = NvidiaSmi("nvidia-smi answers" + (f" where NVML does not ({nvml_failure})" if nvml_failure else ""))
    smi.inventory()
    return smi
