"""A healthy node of two H200 on two NUMA nodes, as facts; tests replace what they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from interlace.doctor.facts import (
    CpuLoad,
    CpuSettings,
    GpuSigns,
    Memory,
    NodeFacts,
    OutputFolder,
    Placement,
    PlannedRank,
    Requirement,
    Software,
    Surroundings,
    TorchBuild,
    Ulimits,
)
from interlace.gate import GateEvidence
from interlace.monitor.occupancy import GpuState
from interlace.monitor.readings import Gpu, GpuSample
from interlace.node import Cpu, Limits, NodeGpu, NodeInfo, NumaNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interlace.doctor.finding import Finding

A, B = "GPU-aaaaaaaa", "GPU-bbbbbbbb"

HEALTHY = NodeFacts(
    node=NodeInfo(
        hostname="node-1",
        kernel="6.1.0",
        system="Debian GNU/Linux 12",
        cpu=Cpu("Some CPU", 2, 8, 16, "performance", "tsc"),
        memory_total_mib=512 * 1024.0,
        numa=(
            NumaNode(0, "0-3,8-11", 256 * 1024.0, (10, 21)),
            NumaNode(1, "4-7,12-15", 256 * 1024.0, (21, 10)),
        ),
        limits=Limits("0-15", None, None, 256 * 1024.0, 255 * 1024.0),
        gpus=(
            NodeGpu(Gpu(0, A, "0000:1b:00.0", "NVIDIA H200", 143771.0), 0),
            NodeGpu(Gpu(1, B, "0000:9b:00.0", "NVIDIA H200", 143771.0), 1),
        ),
        gpu_source="nvml",
        gpu_source_reason="NVML answers",
        driver="570.1",
        cuda_driver="12.8",
        python="3.12.1",
        python_executable="python",
        versions={"interlace": "0.1.0", "torch": "2.8.0+cu128", "hydra-core": "1.3.8"},
    ),
    signs=GpuSigns(proc_driver=True, pci_bus_ids=("0000:1b:00.0", "0000:9b:00.0")),
    gate=GateEvidence(
        0.0, (GpuState(0, A, "idle", None, 4.0, 0.0), GpuState(1, B, "idle", None, 5.0, 0.0)), cpu_busy_pct=2.0
    ),
    samples=(
        GpuSample(0.0, A, 4.0, 0.0, 345.0, 31.0, 71.4, 1),
        GpuSample(0.0, B, 5.0, 0.0, 345.0, 33.0, 74.6, 1),
    ),
    placement=Placement(
        "0-15",
        "0-15",
        (
            PlannedRank(0, 0, "bind", 0, "0-3,8-11", whole_node=True),
            PlannedRank(1, 1, "bind", 1, "4-7,12-15", whole_node=True),
        ),
    ),
    load=CpuLoad(0.5, 2.0),
    cpu=CpuSettings(
        "0-15", governors={"performance": 16}, driver="intel_pstate", driver_active=True, smt="on", boost=True
    ),
    memory=Memory(500 * 1024.0, 0.0, 0.0, "madvise"),
    ulimits=Ulimits(1048576, 1048576, None, 8192.0, 0.0),
    output=OutputFolder("outputs", exists=True, nearest="/data/outputs", file_system="ext4", free_gib=900.0),
    software=Software(
        "3.12.1",
        "<3.14,>=3.11",
        (Requirement("hydra-core", "<1.4,>=1.3.8", "1.3.8"), Requirement("torch", ">=2.4", "2.8.0+cu128")),
        TorchBuild("2.8.0+cu128", "12.8"),
        None,
        "2.39.5",
    ),
    surroundings=Surroundings(host_pids=True),
)  # fmt: skip


def facts(**parts: dict[str, Any]) -> NodeFacts:
    """Return the healthy node with some fields of some parts replaced: `facts(cpu={"boost": False})`."""
    return replace(HEALTHY, **{name: replace(getattr(HEALTHY, name), **fields) for name, fields in parts.items()})


def said(rule: Callable[[NodeFacts], Iterator[Finding]], node: NodeFacts) -> dict[str, tuple[str, str]]:
    """Return level and text of each finding of a rule by its name."""
    return {finding.name: (finding.level, finding.what) for finding in rule(node)}


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write a tree of small files, as /proc and /sys are."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root
