"""The profiler hook: the steps that were asked for, as a trace in the run's folder."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
import torch

from interlace.trace.columns import read_trace
from interlace.trace.metrics import measure
from interlace.workloads.profiling import profiled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # torch


def test_the_steps_that_were_asked_for_are_in_the_trace(tmp_path: Path) -> None:
    with profiled(tmp_path / "traces", 3, first=4, steps=2) as step:
        for _ in range(8):
            torch.ones(4) @ torch.ones(4)
            step()

    with gzip.open(tmp_path / "traces" / "rank-3.json.gz") as file:
        events = json.load(file)["traceEvents"]
    spans = {event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep#")}
    assert len(spans) == 2
    assert sum(event.get("name") == "aten::dot" for event in events) == 2


def test_without_a_first_step_nothing_is_recorded(tmp_path: Path) -> None:
    with profiled(tmp_path / "traces", 0, first=0, steps=3) as step:
        step()

    assert not (tmp_path / "traces").exists()


def test_what_the_hook_writes_is_what_interlace_trace_reads(tmp_path: Path) -> None:
    with profiled(tmp_path / "traces", 3, first=4, steps=2) as step:
        for _ in range(8):
            torch.ones(4) @ torch.ones(4)
            torch.ones(1).item()
            step()

    found = measure(read_trace(tmp_path / "traces" / "rank-3.json.gz"))

    assert (found.rank, len(found.steps), found.remarks) == (3, 2, ())
    with gzip.open(tmp_path / "traces" / "rank-3.json.gz") as file:
        events = json.load(file)["traceEvents"]
    ours = sum(event.get("cat") == "cpu_op" and event["name"].startswith("aten::") for event in events)
    assert sum(one.operators for one in found.steps) == ours > 0
    assert [one.syncs for one in found.steps] == [0, 0]  # .item() on a CPU waits for no device
