"""Field failures of the node: every shared case of the kinds that monitor, gate and binding answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlace.gate import wait_until_idle
from interlace.monitor.cells import is_throttled, mask, number, parse_table, sysfs_bus_id, throttle_names
from interlace.monitor.fake import FakeGpus
from interlace.monitor.occupancy import Limits, occupancy, overall, own_contexts
from interlace.monitor.readings import Gpu, GpuReadError, GpuSample
from interlace.monitor.smi import run_bounded
from interlace.monitor.smi_text import (
    failure,
    parse_gpus,
    parse_list,
    parse_processes,
    parse_samples,
    parse_topo,
)
from interlace.rank import numa, numactl
from interlace.rank.binding import memory_nodes
from interlace.rank.visible import GpuRef, gpu_of_rank
from interlace.settings import GateConfig
from tests.clock import FakeClock

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the folder of shared cases is not beside the repository")


def of_kind(kind: str) -> list[Any]:
    """Return the folders of all cases of a kind, as parameters."""
    paths = sorted(CASES.glob("[AB]*/expected.json"))
    found = [path.parent for path in paths if json.loads(path.read_text())["kind"] == kind]
    return [pytest.param(case, id=case.name) for case in found]


def load(case: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = json.loads((case / "expected.json").read_text())
    return facts["expected"], facts["params"]


@pytest.mark.parametrize("case", of_kind("gpu_query"))
def test_gpu_query(case: Path) -> None:
    expected, params = load(case)
    text = (case / "gpus.csv").read_text()
    if "values" in expected:
        rows = parse_table(text, [params["query"]]).rows
        assert [number(row[params["query"]]).value for row in rows] == expected["values"]
        return
    gpus, samples = parse_gpus(text), parse_samples(text, 0.0)
    found = [
        {
            "index": gpu.index,
            "name": gpu.name,
            "pci_sysfs": gpu.bus_id,
            "memory_total_mib": gpu.memory_total_mib,
            "memory_used_mib": sample.memory_used_mib,
            "utilization_pct": sample.utilization_pct,
        }
        for gpu, sample in zip(gpus, samples, strict=True)
    ]
    assert len(found) == len(expected["rows"])
    for row, wanted in zip(found, expected["rows"], strict=True):
        assert {name: row[name] for name in wanted} == wanted
    for sample in samples:
        assert (sample.memory_used_mib is None) == ("memory_used_mib" in sample.reasons)


@pytest.mark.parametrize("case", of_kind("gpu_occupancy"))
def test_gpu_occupancy(case: Path) -> None:
    expected, params = load(case)
    text = (case / "gpus.csv").read_text()
    pids = json.loads((case / "pids.json").read_text()) if (case / "pids.json").exists() else {}
    gpus = parse_gpus(text)
    states = occupancy(
        gpus,
        parse_samples(text, 0.0),
        parse_processes((case / "apps.csv").read_text()),
        own_pids=pids.get("own_process_tree", ()),
        living_pids=pids.get("pids_in_proc"),
        limits=Limits(memory_mib=params["idle_threshold_mib"]),
    )

    assert overall(states) == expected["verdict"]
    for index, wanted in expected.get("gpus", {}).items():
        (state,) = [state for state in states if state.index == int(index)]
        assert (state.verdict, state.reason) == (wanted["verdict"], wanted["reason"])
    if "processes" in expected:
        found = [
            {"pid": one.pid, "owner": one.owner, "used_mib": one.used_mib}
            for state in states
            for one in state.processes
        ]
        assert found == expected["processes"]
    if "contexts_per_gpu" in expected:
        place = {gpu.uuid: str(gpu.index) for gpu in gpus}
        contexts = {place[uuid]: count for uuid, count in own_contexts(states).items()}
        assert contexts == expected["contexts_per_gpu"]


@pytest.mark.parametrize("case", of_kind("gpu_error_text"))
def test_gpu_error_text(case: Path) -> None:
    expected, _ = load(case)
    outputs = json.loads((case / "outputs.json").read_text())
    for output, wanted in zip(outputs, expected["results"], strict=True):
        problem = failure(output["stdout"], rc=output["rc"])
        assert problem.code == wanted["code"]
        assert problem.bus_id == wanted.get("pci_sysfs")


@pytest.mark.parametrize("case", of_kind("subprocess_timeout"))
def test_subprocess_timeout(case: Path) -> None:
    _, params = load(case)

    with pytest.raises(GpuReadError) as caught:
        run_bounded(["sh", str(case / "fake_nvidia_smi.sh")], min(0.3, params["timeout_s"]))

    assert caught.value.code == "timeout"
    left = subprocess.run(["pgrep", "-f", str(case)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.parametrize("case", of_kind("device_order"))
def test_device_order(case: Path) -> None:
    expected, _ = load(case)
    env = json.loads((case / "env.json").read_text())
    gpus = as_refs((case / "gpus.csv").read_text())

    bare = gpu_of_rank(0, env, gpus)
    ordered, _, _ = gpu_of_rank(0, env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, gpus)

    assert (bare[0] is None) == expected["ambiguous_without_order"]
    assert ordered is not None
    assert ordered.uuid == expected["rank0_uuid_with_pci_order"]


@pytest.mark.parametrize("case", of_kind("gpu_list"))
def test_gpu_list(case: Path) -> None:
    expected, _ = load(case)
    found = [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "mig": [{"profile": one.profile, "device": one.device, "uuid": one.uuid} for one in gpu.mig],
        }
        for gpu in parse_list((case / "list.txt").read_text())
    ]
    assert found == expected["gpus"]


@pytest.mark.parametrize("case", of_kind("drain_wait"))
def test_drain_wait(case: Path) -> None:
    expected, params = load(case)
    for name, wanted in expected.items():
        rows = parse_table((case / f"{name}.csv").read_text()).rows
        script = [[GpuSample(0.0, "GPU-1", float(row["used_mib"]), 0.0)] for row in rows]
        clock = FakeClock()
        result = wait_until_idle(
            GateConfig(
                timeout_s=params["timeout_s"], poll_s=1.0, gpu_memory_mib=params["idle_threshold_mib"]
            ),
            FakeGpus([Gpu(0, "GPU-1")], script),
            cpu=lambda: 0.0, clock=clock, stable_s=params["stable_s"],
        )  # fmt: skip
        assert result.ok == (wanted["verdict"] == "idle")
        assert result.waited_s == wanted.get("ready_at_s", wanted.get("gave_up_at_s"))


@pytest.mark.parametrize("case", of_kind("throttle_field"))
def test_throttle_field(case: Path) -> None:
    expected, params = load(case)
    rows = parse_table((case / "gpus.csv").read_text(), params["requested"].split(",")).rows
    found = []
    for row in rows:
        bits, _ = mask(row["clocks_event_reasons.active"])
        names = throttle_names(bits)
        found.append(
            {
                "index": int(row["index"]),
                "reasons": None if names is None else list(names),
                "throttled": is_throttled(bits),
            }
        )
    assert found == expected["rows"]


@pytest.mark.parametrize("case", of_kind("gpu_cell"))
def test_gpu_cell(case: Path) -> None:
    expected, _ = load(case)
    cells = json.loads((case / "cells.json").read_text())
    assert [number(cell).value for cell in cells] == expected["values"]


@pytest.mark.parametrize("case", of_kind("gpu_identity"))
def test_gpu_identity(case: Path) -> None:
    expected, _ = load(case)
    (inside,) = parse_list((case / "inside_job.txt").read_text())
    host = (case / "host_view.csv").read_text()
    used = {sample.uuid: sample.memory_used_mib for sample in parse_samples(host, 0.0)}
    index = {gpu.uuid: gpu.index for gpu in parse_gpus(host)}

    assert inside.uuid == expected["job_gpu_uuid"]
    assert used[inside.uuid] == expected["memory_used_mib"]
    assert index[inside.uuid] == expected["host_index"]


@pytest.mark.parametrize("case", of_kind("numa_resolve"))
def test_numa_resolve(case: Path, tmp_path: Path) -> None:
    expected, _ = load(case)
    env = json.loads((case / "env.json").read_text())
    cpus = json.loads((case / "cpus.json").read_text())
    sysfs = materialised(case, tmp_path)
    binding = numa.plan_binding(
        int(env["LOCAL_RANK"]),
        env,
        as_refs((case / "gpus.csv").read_text()),
        affinity=numa.parse_cpulist(cpus["sched_affinity"]),
        cpuset=numa.parse_cpulist(cpus["cpuset_effective"]),
        sysfs_root=sysfs,
    )

    assert binding.gpu is not None
    assert binding.gpu.bus_id == expected["pci_sysfs"]
    assert (binding.action, binding.node) == (expected["action"], expected["numa_node"])
    codes = [binding.code] if binding.action == "unpinned" else []
    assert [*codes, *binding.warnings] == expected["warnings"]
    if "cpus" in expected:
        assert numa.format_cpulist(binding.cpus) == expected["cpus"]
    if "physical_index" in expected:
        assert binding.gpu.ordinal == expected["physical_index"]
    if expected.get("prefer_physcpubind"):
        assert not binding.whole_node
    if "membind" in expected:
        nodes = memory_nodes(binding, "bind", sysfs)
        assert bool(nodes) == expected["membind"]


@pytest.mark.parametrize("case", of_kind("numa_capacity"))
def test_numa_capacity(case: Path, tmp_path: Path) -> None:
    expected, params = load(case)
    sysfs = materialised(case, tmp_path)
    (node,) = {numa.node_of_gpu(gpu.bus_id, sysfs) for gpu in as_refs((case / "gpus.csv").read_text())}
    assert node is not None

    found = numa.capacity(
        node,
        ranks=params["ranks_on_node"],
        workers=params["dataloader_workers_per_rank"],
        sysfs_root=sysfs,
    )

    assert {**found._asdict(), "warnings": list(found.warnings)} == expected


@pytest.mark.parametrize("case", of_kind("binding_stderr"))
def test_binding_stderr(case: Path) -> None:
    expected, _ = load(case)
    messages = json.loads((case / "messages.json").read_text())
    for message, wanted in zip(messages, expected["results"], strict=True):
        found = numactl.refusal(message)
        assert found is not None, message
        assert (found.code, found.retry) == (wanted["code"], wanted["retry"])
        assert found.fatal == wanted.get("fatal", True)


@pytest.mark.parametrize("case", of_kind("numa_topo"))
def test_numa_topo(case: Path) -> None:
    expected, _ = load(case)
    wanted = {gpu["index"]: tuple(gpu["numa_nodes"]) for gpu in expected["gpus"]}
    assert parse_topo((case / "topo.txt").read_text()) == wanted


def as_refs(text: str) -> tuple[GpuRef, ...]:
    return tuple(
        GpuRef(
            int(row["index"]),
            row.get("uuid", row["index"]),
            sysfs_bus_id(row["pci.bus_id"]) or "",
            row.get("name", ""),
        )
        for row in parse_table(text).rows
    )


def materialised(case: Path, root: Path) -> str:
    for name, content in json.loads((case / "sysfs.json").read_text()).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    packages = root / "package_of_node.json"  # the cases' short form of cpuN/topology/physical_package_id
    for node, package in json.loads(packages.read_text()).items() if packages.exists() else ():
        for cpu in numa.cpus_of_node(int(node), str(root)):
            topology = root / f"devices/system/cpu/cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "physical_package_id").write_text(f"{package}\n")
    return str(root)
