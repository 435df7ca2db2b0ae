from __future__ import annotations

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
        ("No NUMA support available on this system.", "no_numa"),
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
