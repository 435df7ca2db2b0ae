"""Field failures of Slurm: every shared case of the kinds that `interlace.slurm` and the causes of an end answer."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from interlace.lane.accelerate_own import defaults_used, user_config
from interlace.lane.causes import RETRYABLE, find_cause
from interlace.lane.ends import signal_name
from interlace.slurm.environment import refuse_layout, scrubbed, world_size
from interlace.slurm.outcome import JobFolder, job_outcome
from interlace.slurm.refusals import Refusal, what_sbatch_said
from interlace.slurm.rows import parse_sacct
from interlace.slurm.states import Answer, Answers, judge, newest
from interlace.steplog import Tail

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the folder of shared cases is not beside the repository")


def of_kind(kind: str) -> list[Any]:
    """Return the folders of all cases of a kind, as parameters."""
    paths = sorted(CASES.glob("*/expected.json"))
    found = [path.parent for path in paths if json.loads(path.read_text())["kind"] == kind]
    return [pytest.param(case, id=case.name) for case in found]


def load(case: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = json.loads((case / "expected.json").read_text())
    return facts["expected"], facts["params"]


@pytest.mark.parametrize("case", of_kind("slurm_state"))
def test_slurm_state(case: Path) -> None:
    expected, _ = load(case)
    queue, accounts = (
        Answer(name, said["stdout"], said["stderr"], said["rc"])
        for name, said in ((name, json.loads((case / f"{name}.json").read_text())) for name in ("squeue", "sacct"))
    )
    record = json.loads((case / "run_record.json").read_text())
    own = record.get("state", "COMPLETED") if record["present"] else None

    found = judge("7", Answers(queue, accounts), submitted_at=None, missing_s=0.0, own=own)

    assert (found.state, found.final) == (expected["state"], expected["final"])
    assert len(found.notes) == len(expected["warnings"])
    if "sacct_unavailable" in expected["warnings"]:
        assert found.notes == ("sacct says nothing of jobs: Slurm accounting storage is disabled",)


@pytest.mark.parametrize("case", of_kind("sacct_parse"))
def test_sacct_parse(case: Path) -> None:
    expected, params = load(case)
    rows = parse_sacct((case / "sacct.txt").read_text())
    since = datetime.fromisoformat(params["submitted_at"]).timestamp() if "submitted_at" in params else None
    ids = [params["job_id"]] if "job_id" in params else sorted({row.job_id for row in rows})
    kept = {one: newest([row for row in rows if row.job_id == one], since) for one in ids}
    found = {one: [row.state, row.final] for one, row in kept.items() if row is not None}

    wanted = expected.get("states") or {params["job_id"]: [expected["state"], expected["final"]]}
    assert found == wanted


@pytest.mark.parametrize("case", of_kind("job_outcome"))
def test_job_outcome(case: Path) -> None:
    expected, _ = load(case)
    told = json.loads((case / "job_dir.json").read_text())
    logs = [case / name for name in told["files"] if name.endswith((".out", ".err")) and (case / name).exists()]
    # These logs are in no trainer's format: they are read with a pattern, as a user would give it.
    pattern = r"step (?P<step>\d+) step_s (?P<step_s>[\d.]+)"
    folder = JobFolder(
        files=tuple(told["files"]),
        result=tuple(told["result"]) if "result" in told else None,
        tails={log.name: log.read_text() for log in logs},
        steps_seen=sum(len(re.findall(pattern, log.read_text())) for log in logs),
    )

    found = job_outcome(case.name, folder, told["state"])

    assert (found.status, found.reason) == (expected["status"], expected["reason"])
    assert found.returncode == expected.get("returncode")
    if "steps_parsed" in expected:
        assert found.steps_seen == expected["steps_parsed"]
        assert max(Tail(log, pattern=pattern).steps() for log in logs) > 0
    for text in expected.get("message_contains", ()):
        assert text in (found.sentence or "")


@pytest.mark.parametrize("case", of_kind("sbatch_stderr"))
def test_sbatch_stderr(case: Path) -> None:
    expected, _ = load(case)
    for text, wanted in zip(json.loads((case / "messages.json").read_text()), expected["results"], strict=True):
        said = what_sbatch_said(text)

        if wanted["status"] == "rejected":
            assert isinstance(said, Refusal)
            assert said.code == wanted["code"]
            assert text.splitlines()[0] in said.sentence
        else:
            assert not isinstance(said, Refusal)
            assert said.job_id == wanted["job_id"]


@pytest.mark.parametrize("case", of_kind("env_scrub"))
def test_env_scrub(case: Path) -> None:
    expected, _ = load(case)
    environ = json.loads((case / "env.json").read_text())

    kept = scrubbed(environ)

    assert sorted(environ.keys() - kept.keys()) == sorted(expected["submit_env_removed"])
    assert sorted(kept) == sorted(expected["submit_env_kept"])
    assert all(environ[name] == value for name, value in kept.items())


@pytest.mark.parametrize("case", of_kind("launch_layout"))
def test_launch_layout(case: Path) -> None:
    expected, _ = load(case)
    for layout, wanted in zip(json.loads((case / "layouts.json").read_text()), expected["results"], strict=True):
        environ = {name: value for name, value in layout.items() if name.startswith("SLURM_")}

        refused = refuse_layout(environ, layout["launcher"], layout["nproc"])

        assert (refused is None) == wanted["ok"]
        if wanted["ok"]:
            assert world_size(environ, layout["nproc"]) == wanted["world"]
        elif wanted["code"] == "launcher_started_per_task":
            assert "would be started once per task" in (refused or "")


@pytest.mark.parametrize("case", of_kind("launcher_log"))
def test_launcher_log(case: Path) -> None:
    expected, params = load(case)
    if "results" in expected:
        texts, wanted = json.loads((case / "messages.json").read_text()), expected["results"]
    else:
        texts, wanted = [(case / "stderr.txt").read_text()], [expected]
    for text, one in zip(texts, wanted, strict=True):
        cause = find_cause(text, params.get("returncode", 1))

        assert cause is not None
        assert cause.code == one["code"]
        assert (cause.code in RETRYABLE) == one.get("retryable", False)
        # The port is kept as the launcher wrote it, in its own line.
        assert one.get("port") is None or str(one["port"]) in cause.message
        if "root_cause" in one:
            found = {"rank": cause.rank, "exitcode": cause.exitcode, "signal": signal_name(cause.exitcode)}
            assert found == one["root_cause"]


@pytest.mark.parametrize("case", of_kind("accelerate_env"))
def test_accelerate_env(case: Path, tmp_path: Path) -> None:
    expected, _ = load(case)
    (tmp_path / "accelerate").mkdir()
    shutil.copy(case / "default_config.yaml", tmp_path / "accelerate")
    environ = {"HF_HOME": str(tmp_path)}

    assert defaults_used((case / "launch_stderr.txt").read_text()) == expected["defaults_used"]
    assert (user_config(environ) is not None) == expected["user_config_present"]
