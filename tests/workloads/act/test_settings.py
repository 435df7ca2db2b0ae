"""Switches that cannot be used are refused before anything is built, with what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.workloads.act.settings import refuse_what_cannot_work
from tests.workloads.act.small import settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("device", "changes", "said"),
    [
        ("cpu", ["compile.mode=reduce-overhead"], "compile.mode=reduce-overhead captures CUDA graphs"),
        ("cpu", ["capture=step", "losses=device"], "capture=step makes a CUDA graph, and this run is on the CPU"),
        ("cpu", ["model.memory_format=channels_last"], "give memory_format=contiguous"),
        ("cpu", ["model.branches=two"], "model.branches=two needs CUDA streams"),
        ("cuda", ["capture=step"], "give losses=device or losses=late"),
        ("cuda", ["capture=step", "losses=late", "compile.mode=reduce-overhead"], "both make CUDA graphs"),
        ("cuda", ["capture=step", "losses=late"], "ddp.find_unused_parameters"),
        ("cuda", ["model.branches=two", "compile.mode=default"], "give compile.region=parts"),
    ],
)
def test_what_cannot_work_is_refused(device: str, changes: list[str], said: str, tmp_path: Path) -> None:
    chosen = settings(tmp_path, *changes)

    with pytest.raises(SystemExit) as refused:
        refuse_what_cannot_work(chosen, device)

    assert str(refused.value).startswith("workload=act: ")
    assert said in str(refused.value)


def test_a_compiler_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(SystemExit, match="there is no no-such-compiler"):
        refuse_what_cannot_work(settings(tmp_path, "compile.mode=default"), "cpu")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_baseline_can_be_used_anywhere(device: str, tmp_path: Path) -> None:
    refuse_what_cannot_work(settings(tmp_path), device)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("losses=later", "workload.losses=later: choose one of host, device, late"),
        ("model.attention=flash", "workload.model.attention=flash: choose one of weights, sdpa, bmm"),
        ("compile.mode=fast", "workload.compile.mode=fast: choose one of none, default, reduce-overhead"),
    ],
)
def test_a_word_that_is_none_of_a_switch_is_refused_with_those_that_are(change: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        settings(tmp_path, change)

    assert said in str(refused.value)
