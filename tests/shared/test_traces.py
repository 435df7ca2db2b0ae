"""Traces of public repositories, from PyTorch 1.8 to 2.13, against numbers that three tools agree on."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from interlace.trace.columns import read_trace
from interlace.trace.metrics import RankMetrics, measure
from interlace.trace.verdict import diagnose

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
pytestmark = [
    pytest.mark.costly,
    pytest.mark.skipif(not TRACES.is_dir(), reason="the shared folder with real traces is not here"),
]
TRUTH: dict[str, dict[str, Any]] = (
    json.loads((TRACES / "ground_truth.json").read_text()) if (TRACES / "ground_truth.json").is_file() else {}
)
DLRM = "B/"


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RankMetrics]:
    folder = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(next(TRACES.glob("B_*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"{DLRM}{path.name.split('.')[0]}": measure(read_trace(path)) for path in files}


@pytest.mark.parametrize("name", TRUTH)
def test_counts_are_exact_and_times_agree(name: str, dlrm: dict[str, RankMetrics]) -> None:
    found = dlrm[name] if name.startswith(DLRM) else measure(read_trace(TRACES / name))
    truth = TRUTH[name]

    assert (len(found.steps), found.orphans) == (truth["steps"], truth["orphan_gpu"])
    for one, true in zip(found.steps, truth["per_step"], strict=True):
        counts = {
            "step": one.step, "kernels": one.kernels, "copies": one.copies, "launch_calls": one.launches,
            "graph_launches": one.graph_launches, "syncs": one.syncs, "aten": one.operators,
            "comm": len(one.collectives),
        }  # fmt: skip
        times = {
            "host_ms": one.host_ms, "win_ms": one.window_ms, "busy_ms": one.busy_ms, "comm_ms": one.comm_ms,
            "exposed_comm_ms": one.parts_ms["exposed_comm"], "mean_kernel_us": one.mean_kernel_us,
            "sync_ms": one.sync_ms,
        }  # fmt: skip
        assert counts == {key: true[key] for key in counts}
        assert times == pytest.approx({key: true[key] for key in times}, rel=1e-5, abs=1e-6)
        shares = {key: 100.0 * value / one.window_ms for key, value in one.parts_ms.items()}
        assert shares == pytest.approx(true["buckets"], abs=0.1)
        assert sum(one.parts_ms.values()) == pytest.approx(one.window_ms, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "verdict"), [("A_", "launch-bound"), ("C_", "launch-bound"), ("D_", "comm-bound"), ("E_", "data-bound")]
)
def test_verdicts_are_those_of_who_looked_at_them(name: str, verdict: str) -> None:
    (path,) = TRACES.glob(f"{name}*")

    assert diagnose(path.name, [measure(read_trace(path))]).verdict == verdict


def test_eight_ranks_wait_for_the_last(dlrm: dict[str, RankMetrics]) -> None:
    found = diagnose("dlrm", list(dlrm.values()))

    assert found.meeting is not None
    assert (found.judged, found.meeting.last) == (7, 7)
    assert found.meeting.wait_share == pytest.approx(0.96, abs=0.005)
    assert {"launch-bound", "skew-bound"} <= {one.kind for one in found.findings}
