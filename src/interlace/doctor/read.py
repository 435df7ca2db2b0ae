"""Reads everything the doctor knows of this node, once. Changes nothing; imports no torch.

`root` stands for `/`, so that a test can give a tree of its own.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.doctor.facts import GpuSigns, Memory, NodeFacts, Ulimits
from interlace.doctor.once import AskedOnce
from interlace.doctor.read_cpu import cpu_settings, load_over
from interlace.doctor.read_disk import output_folder
from interlace.doctor.read_placement import kernel_cpus, planned
from interlace.doctor.read_software import software
from interlace.doctor.read_surroundings import surroundings
from interlace.gate import look
from interlace.monitor.cpu import mem_available_mib
from interlace.monitor.readings import GpuReadError
from interlace.node import fingerprint, text_of
from interlace.rank.gpu_map import read_facts as read_pairs
from interlace.rank.numactl import why_not
from interlace.settings import GateConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlace.doctor.facts import CpuLoad
    from interlace.doctor.read_placement import AllowedCpus, TryNumactl
    from interlace.monitor.readings import GpuSample, GpuSource

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"
"""PCI class of VGA and 3D controllers, as sysfs writes it: the upper byte of 0x030000 and 0x030200."""


def read_node(
    source: GpuSource,
    *,
    root: Path = Path("/"),
    output_dir: Path = Path("outputs"),
    environ: Mapping[str, str] = os.environ,
    torch_python: str | None = None,
    load: Callable[[], CpuLoad] = load_over,
    cpus: AllowedCpus = kernel_cpus,
    try_numactl: TryNumactl = why_not,
) -> NodeFacts:
    """Read this node. With `torch_python` that interpreter is asked what its torch sees; else none is started."""
    asked = AskedOnce(source)
    cpu_load = load()  # before anything of ours makes a load of its own
    node = fingerprint(asked, root=root)
    return NodeFacts(
        node=node,
        signs=gpu_signs(root),
        gate=look(asked, GateConfig(), cpu=lambda: cpu_load.busy_pct),
        samples=_samples(asked),
        placement=planned([one.gpu for one in node.gpus], environ, str(root / "sys"), cpus, try_numactl),
        load=cpu_load,
        cpu=cpu_settings(root),
        memory=memory(root),
        ulimits=ulimits(),
        output=output_folder(output_dir, root),
        software=software(torch_python),
        surroundings=surroundings(environ, root),
    )


def gpu_signs(root: Path) -> GpuSigns:
    """Look for signs of NVIDIA GPUs that do not need their driver to answer."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted((root / "sys/bus/pci/devices").iterdir()):
            is_nvidia = text_of(device / "vendor") == NVIDIA
            if is_nvidia and text_of(device / "class").startswith(DISPLAY_CLASS):
                found.append(device.name)
    return GpuSigns((root / "proc/driver/nvidia/version").exists(), tuple(found))


def memory(root: Path) -> Memory:
    """Read main memory, swap and the setting of transparent huge pages."""
    try:
        info = read_pairs(str(root / "proc/meminfo"))
    except OSError:
        info = {}
    pages = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled")
    return Memory(
        mem_available_mib(root / "proc"),
        _kib_as_mib(info.get("SwapTotal")),
        _kib_as_mib(info.get("SwapFree")),
        pages.partition("[")[2].partition("]")[0] or None,
    )


def ulimits() -> Ulimits:
    """Ask the kernel for the limits of this process."""
    nofile, nofile_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memlock = _limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    core = _limit(resource.getrlimit(resource.RLIMIT_CORE)[0])
    return Ulimits(
        _limit(nofile),
        _limit(nofile_hard),
        _limit(resource.getrlimit(resource.RLIMIT_NPROC)[0]),
        None if memlock is None else memlock / 1024,
        None if core is None else core / 1024,
    )


def _samples(source: GpuSource) -> tuple[GpuSample, ...]:
    """Return the samples the gate judged; where they were refused, its evidence says why."""
    try:
        return source.sample()
    except GpuReadError:
        return ()


def _kib_as_mib(text: str | None) -> float | None:
    number = (text or "").partition(" ")[0]
    return int(number) / 1024 if number.isdigit() else None


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
