from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlace.rank import numactl
from interlace.rank.numa import cpus_of_node

if TYPE_CHECKING:
    from pathlib import Path


def test_real_numactl_binds_to_the_node_that_is_here_or_says_why_not() -> None:
    cpus = cpus_of_node(0) or frozenset({0})
    reason = numactl.why_not([0], cpus)

    if reason is not None:
        pytest.skip(f"numactl cannot bind to node 0 here: {reason}")
    assert numactl.why_not([0], cpus | {4095}) is not None


@pytest.mark.parametrize(("policy", "words"), [("bind", {"bind:0"}), ("preferred", {"prefer:0", "prefer (many):0"})])
@pytest.mark.parametrize("nodes", [(), (0,)])
def test_real_numactl_sets_a_memory_policy_that_the_kernel_reports(
    policy: str, words: set[str], nodes: tuple[int, ...]
) -> None:
    cpus = (cpus_of_node(0) if nodes else frozenset(os.sched_getaffinity(0))) or frozenset({0})

    probe = numactl.probe(nodes, cpus, policy, (0,))

    if probe.refused is not None:
        pytest.skip(f"numactl cannot set a memory policy here: {probe.refused}")
    assert probe.policy in words


def test_the_command_binds_cpus_and_memory_or_either() -> None:
    assert numactl.arguments([0, 1]) == ["numactl", "--cpunodebind=0-1"]
    assert numactl.arguments([0, 1], "bind", [0, 1]) == ["numactl", "--cpunodebind=0-1", "--membind=0-1"]
    assert numactl.arguments([], "preferred", [1]) == ["numactl", "--preferred=1"]


def answering(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a numactl on PATH that answers with this shell script."""
    (folder / "numactl").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "numactl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("printed", "refused"),
    [
        ("7f00aa000000 bind:0-1 file=/usr/bin/cat mapped=2", None),
        ("7f00aa000000 bind=static:0-1 file=/usr/bin/cat", None),
        ("7f00aa000000 default file=/usr/bin/cat", "numactl gives the memory policy default, not bind on node 0-1"),
        ("7f00aa000000 bind:0 heap", "numactl gives the memory policy bind:0, not bind on node 0-1"),
        ("cat: /proc/self/numa_maps: No such file or directory", "the kernel does not report memory policies"),
    ],
)
def test_a_memory_policy_counts_when_the_kernel_reports_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, refused: str | None
) -> None:
    answering(tmp_path, monkeypatch, f"echo 'Cpus_allowed_list:\t0-3'; echo '{printed}'")

    assert numactl.probe((0, 1), frozenset(range(4)), "bind", (0, 1)).refused == refused


def test_a_container_that_forbids_memory_policies_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(tmp_path, monkeypatch, "echo 'set_mempolicy: Operation not permitted' >&2; exit 1")

    probe = numactl.probe((), frozenset({0}), "bind", (0,))

    assert probe.refused == "numactl refuses: set_mempolicy: Operation not permitted"


def test_a_node_that_is_not_there_is_refused_in_numactls_words() -> None:
    reason = numactl.why_not([77], frozenset({0}))

    assert reason is not None
    assert reason.startswith("numactl ")


def test_a_numactl_that_hangs_or_is_missing_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numactl, "PROBE_TIMEOUT_S", 0.1)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = numactl.why_not([0], frozenset({0}))
    (tmp_path / "numactl").write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    (tmp_path / "numactl").chmod(0o755)

    hanging = numactl.why_not([0], frozenset({0}))

    assert missing == "numactl cannot be started (No such file or directory)"
    assert hanging == "numactl refuses: no answer in 0.1 s"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("libnuma: Warning: node argument 3 is out of range\n\n<3> is invalid", "bad_node"),
        ("<-1> is invalid\nusage: numactl", "bad_node"),
        ("libnuma: Warning: cpu argument 0-63 is out of range", "bad_cpu"),
        ("setting membind: Operation not permitted", "mempolicy_denied"),
        ("numactl: command not found", "numactl_missing"),
        ("zsh: command not found: numactl", "numactl_missing"),
        ("env: 'numactl': No such file or directory", "numactl_missing"),
        ("[Errno 2] No such file or directory: 'numactl'", "numactl_missing"),
        ("numactl: error while loading shared libraries: libnuma.so.1: cannot open", "numactl_missing"),
        ("setting preferred node: Operation not permitted", "mempolicy_denied"),
        ("taskset: failed to set pid 7's affinity: Invalid argument", "affinity_rejected"),
        ("srun: error: Task launch failed on node n1: Unable to satisfy cpu bind request", "slurm_cpu_bind"),
        ("No NUMA support available on this system.", "no_numa"),
        ("numactl: This system does not support NUMA policy", "no_numa"),
    ],
)
def test_a_refusal_is_recognised(text: str, code: str) -> None:
    found = numactl.refusal(text)

    assert found is not None
    assert found.code == code


def test_a_memory_policy_that_cannot_be_read_is_no_harm() -> None:
    assert numactl.refusal("get_mempolicy: Operation not permitted") == (
        "mempolicy_query_denied", None, False, "get_mempolicy: Operation not permitted",
    )  # fmt: skip
    assert numactl.refusal("hello") is None
