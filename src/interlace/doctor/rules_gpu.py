"""What the facts say about the GPUs: there or not, alike or not, and each of them empty, cool and unthrottled."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.doctor.finding import Finding, ok, problem, warning
from interlace.gate import judge
from interlace.monitor.cells import brakes, throttle_names
from interlace.settings import GateConfig
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import NodeFacts
    from interlace.monitor.occupancy import GpuState
    from interlace.monitor.readings import Gpu, GpuSample
    from interlace.node import NodeGpu

HOT_C = 65.0
"""Warmer than this an idle GPU has just worked, or is badly cooled; data-centre GPUs idle at 25 to 45."""

SHOWN_GPUS = 4

_GONE = r"gpu is lost|fallen off the bus|reset"
_LOST = "see `dmesg | grep -i xid`; reset the GPU, or reboot the node"
# A driver that says one of these is there, and broken: first match gives the remedy.
_BROKEN = (
    (r"version mismatch", "the driver was updated under a running kernel: reboot the node, or reload nvidia's modules"),
    (r"did not answer|hung", "nvidia-smi hangs, so a GPU or the driver is stuck: see `dmesg | grep -i xid`, reboot"),
    (_GONE, _LOST),
    (r"insufficient permissions|blocked by the operating system", "get access to /dev/nvidia* (group, container)"),
)
_SILENT = "load the driver (`modprobe nvidia`, `nvidia-smi` says more); in a container start it with --gpus all"
_NOT_GIVEN = "ask SLURM for GPUs (--gpus-per-node=N, --gres=gpu:N): this job was given none"

_WHO_IS_HERE = {
    "foreign_process": "ask its owner to end it (`ps -o user,etime,args -p PID`), or wait, as a sweep does",
    "process_unknown_pid": "look from the host, outside this container, for who it is, or wait, as a sweep does",
}
_SOMEBODY = "find who holds it: `nvidia-smi` on the host, `sudo fuser -v /dev/nvidia*`; or wait, as a sweep does"


def gpus(facts: NodeFacts) -> Iterator[Finding]:
    """Say which GPUs there are, and what each of them does."""
    yield _there(facts)
    yield from _alike([one.gpu for one in facts.node.gpus])
    yield from _slices([one.gpu for one in facts.node.gpus])
    known = {one.gpu.uuid: one.gpu for one in facts.node.gpus}
    samples = {sample.uuid: sample for sample in facts.samples}
    if facts.gate.unreadable and known:
        yield problem("GPU state", facts.gate.unreadable, "see `nvidia-smi` and `dmesg | grep -i xid`")
    for state in facts.gate.gpus:
        yield _one(state, known.get(state.uuid), samples.get(state.uuid), facts)


def _there(facts: NodeFacts) -> Finding:
    node = facts.node
    if node.gpu_source == "none":
        return _none(facts)
    if refused := node.missing.get("gpus"):
        return problem("GPUs", refused, _remedy(refused, facts))
    models = Counter("lost" if "gpu" in one.gpu.reasons else _model(one.gpu) for one in node.gpus)
    what = ", ".join(f"{number} x {model}" for model, number in models.items())
    versions = f"driver {node.driver or 'unknown'}, CUDA {node.cuda_driver or 'unknown'}"
    if node.gpu_source == "nvidia-smi":
        return warning(
            "GPUs", f"{what}; {versions}; {node.gpu_source_reason}",
            "make NVML answer (the driver's libnvidia-ml.so): nvidia-smi is asked only once a second, and costs CPU",
        )  # fmt: skip
    return ok("GPUs", f"{what}; {versions}; {node.gpu_source_reason}")


def _model(gpu: Gpu) -> str:
    size = f" {gpu.memory_total_mib:.0f} MiB" if gpu.memory_total_mib is not None else ""
    return f"{gpu.name or 'a GPU without a name'}{size}"


def _none(facts: NodeFacts) -> Finding:
    """Tell a machine without GPUs from one whose GPUs do not answer."""
    reason = facts.node.gpu_source_reason
    signs = facts.signs
    broken = any(re.search(pattern, reason, re.IGNORECASE) for pattern, _ in _BROKEN)
    garbled = "nvidia-smi" in reason and "cannot start nvidia-smi" not in reason
    if not (signs.proc_driver or signs.pci_bus_ids or broken or garbled):
        return ok("GPUs", f"none ({reason}): the quickstart and other CPU ranks work")
    seen = "the driver is in /proc" if signs.proc_driver else "the driver does not answer"
    if signs.pci_bus_ids:
        seen = f"NVIDIA devices on the bus ({first_of(signs.pci_bus_ids, SHOWN_GPUS)})"
    return problem("GPUs", f"{seen}, but: {reason}", _remedy(reason, facts))


def _remedy(reason: str, facts: NodeFacts) -> str:
    known = next((remedy for pattern, remedy in _BROKEN if re.search(pattern, reason, re.IGNORECASE)), None)
    if known is None and facts.surroundings.slurm and "SLURM_GPUS_ON_NODE" not in facts.surroundings.slurm:
        return _NOT_GIVEN
    return known or _SILENT


def _alike(inventory: list[Gpu]) -> Iterator[Finding]:
    models = Counter(gpu.name for gpu in inventory if gpu.name)
    if len(models) > 1:
        what = ", ".join(f"{number} x {name}" for name, number in models.items())
        yield warning(
            "models", f"not alike: {what}",
            "measure on GPUs of one model (CUDA_VISIBLE_DEVICES); their order is nvidia-smi's, because Interlace sets "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID; CUDA by itself takes the fastest first",
        )  # fmt: skip


def _slices(inventory: list[Gpu]) -> Iterator[Finding]:
    sliced = [f"GPU {gpu.index} ({len(gpu.mig)} slices)" for gpu in inventory if gpu.mig]
    if sliced:
        yield warning(
            "MIG", f"on: {first_of(sliced, SHOWN_GPUS)}",
            "measure on whole GPUs (`sudo nvidia-smi -i N -mig 0`): slices share power and clocks with others",
        )  # fmt: skip


def _one(state: GpuState, gpu: Gpu | None, sample: GpuSample | None, facts: NodeFacts) -> Finding:
    name = _name(state, gpu)
    silent = sample is None and bool(facts.samples)
    if gpu is not None and ("gpu" in gpu.reasons or silent):
        return problem(name, gpu.reasons.get("gpu", "it is there, and does not answer"), _LOST)
    values = _values(state, sample, facts)
    cool = replace(state, temperature_c=None)
    alone = replace(facts.gate, gpus=(cool,), cpu_busy_pct=None, mem_available_mib=None, unreadable=None)
    if busy := judge(alone, GateConfig()):
        reasons = "; ".join(reason.partition(": ")[2] for reason in busy)
        return problem(name, f"in use: {reasons} [{values}]", _WHO_IS_HERE.get(state.reason or "", _SOMEBODY))
    if held := _brakes(sample):
        return _held_back(name, held, values)
    if sample is not None and sample.temperature_c is not None and sample.temperature_c > HOT_C:
        hot = problem if sample.temperature_c > GateConfig().gpu_temperature_c else warning
        return hot(name, f"idle and hot: {values}", "let it cool down; if it stays hot, see to fans and air flow")
    if state.verdict == "unknown":
        return _half_known(name, state, values)
    return ok(name, f"{'idle' if state.verdict == 'idle' else state.verdict}: {values}{_chosen_clocks(sample)}")


def _name(state: GpuState, gpu: Gpu | None) -> str:
    if state.index is not None:
        return f"GPU {state.index}"
    return f"GPU {gpu.bus_id if gpu is not None and gpu.bus_id else state.uuid[:12]}"


def _values(state: GpuState, sample: GpuSample | None, facts: NodeFacts) -> str:
    """Write what is known of a GPU in one line; what is not known is left out, never 0."""
    parts = [
        _value(state.used_mib, "MiB"),
        _value(state.utilization_pct, "% busy"),
        _value(sample.temperature_c if sample else None, "C"),
        _value(sample.power_w if sample else None, "W"),
        _value(sample.sm_clock_mhz if sample else None, "MHz"),
        next((_place(one) for one in facts.node.gpus if one.gpu.uuid == state.uuid), ""),
    ]
    return ", ".join(part for part in parts if part) or "nothing can be read"


def _place(one: NodeGpu) -> str:
    node = "" if one.numa_node is None else f" on NUMA node {one.numa_node}"
    return f"{one.gpu.bus_id}{node}" if one.gpu.bus_id else ""


def _value(number: float | None, unit: str) -> str:
    return "" if number is None else f"{number:.0f} {unit}"


def _brakes(sample: GpuSample | None) -> tuple[str, ...]:
    """Name what holds the clocks down, idleness and chosen clocks left out."""
    return brakes(sample.throttle or 0) if sample else ()


def _held_back(name: str, held: tuple[str, ...], values: str) -> Finding:
    what = f"idle and held back by {', '.join(held)}: {values}"
    if any(word in reason for reason in held for word in ("thermal", "hw_slowdown", "brake")):
        return problem(name, what, "see to cooling and power supply (`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`)")
    return warning(name, what, "compare the power limit with its default: `nvidia-smi -q -d POWER,CLOCK`")


def _half_known(name: str, state: GpuState, values: str) -> Finding:
    if state.reason == "memory_unavailable":
        what = f"memory cannot be read ({state.why.get('memory_used_mib', 'no sample')}): {values}"
        if re.search(_GONE, what, re.IGNORECASE):
            return problem(name, what, _LOST)
        return warning(
            name, what,
            "usual for GPUs that share main memory: peaks of memory will be missing, load and processes still count",
        )  # fmt: skip
    return warning(
        name, f"processes cannot be listed ({state.why.get('processes', 'no reason given')}): {values}",
        "make sure that nobody else computes here: only memory and load can tell",
    )  # fmt: skip


def _chosen_clocks(sample: GpuSample | None) -> str:
    chosen = sample is not None and "applications_clocks_setting" in (throttle_names(sample.throttle) or ())
    return ", clocks chosen by hand" if chosen else ""
