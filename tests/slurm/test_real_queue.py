"""The queue's questions, asked of a real Slurm."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from interlace.errors import UsageError
from interlace.slurm.nodelist import expand
from interlace.slurm.queue import cancel, job_states
from interlace.slurm.refusals import Refusal, what_sbatch_said
from interlace.slurm.waiting import never_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlace.slurm.states import JobState
    from tests.slurm.cluster import SlurmCluster
    from tests.slurm.user import User

pytestmark = pytest.mark.slow

UNKNOWN_ID = "999999"


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The session's cluster, which this process talks to for the length of a test."""
    monkeypatch.setenv("SLURM_CONF", slurm_cluster.env["SLURM_CONF"])
    return slurm_cluster


def state_when(job: str, wanted: Callable[[JobState], bool], timeout_s: float = 120.0) -> JobState:
    """Look until the state is as wanted; the last one seen otherwise."""
    submitted_at, deadline = time.time() - 30, time.monotonic() + timeout_s
    while True:
        state = job_states([job], {job: submitted_at})[job]
        if wanted(state) or time.monotonic() > deadline:
            return state
        time.sleep(0.2)


def test_a_running_job_has_its_node_and_the_time_that_is_left(cluster: SlurmCluster) -> None:
    job = cluster.submit("sleep 60", "--time=5")

    state = state_when(job, lambda state: state.state == "RUNNING")
    cancel([job])

    assert (state.state, state.final, state.source) == ("RUNNING", False, "squeue")
    assert state.node in ("n0", "n1")
    assert state.left_s is not None
    assert 0 < state.left_s <= 300


def test_a_job_of_two_nodes_has_a_list_that_expands(cluster: SlurmCluster) -> None:
    job = cluster.submit("sleep 60", "--nodes=2", "--exclusive")

    state = state_when(job, lambda state: state.state == "RUNNING")
    cancel([job])

    assert expand(state.node or "") == ("n0", "n1")


def test_a_held_job_is_pending_with_slurms_reason_and_no_node(cluster: SlurmCluster) -> None:
    job = cluster.submit("true", "--hold")

    state = state_when(job, lambda state: state.state == "PENDING")
    cancel([job])

    assert (state.state, state.final, state.node, state.reason) == ("PENDING", False, None, "JobHeldUser")


@pytest.mark.parametrize(("script", "wanted"), [("true", "COMPLETED"), ("exit 3", "FAILED")])
def test_the_end_of_a_job_is_seen_without_accounting(cluster: SlurmCluster, script: str, wanted: str) -> None:
    job = cluster.submit(script)

    state = state_when(job, lambda state: state.final)

    assert (state.state, state.final, state.source) == (wanted, True, "squeue")


def test_a_cancelled_job_is_final(cluster: SlurmCluster) -> None:
    job = cluster.submit("sleep 60")
    state_when(job, lambda state: state.state == "RUNNING")

    assert cancel([job]) == ()

    assert state_when(job, lambda state: state.final).state == "CANCELLED"


def test_cancelling_what_has_ended_or_was_never_there_is_no_error(cluster: SlurmCluster) -> None:
    job = cluster.submit("true")
    state_when(job, lambda state: state.final)

    assert cancel([job]) == ()
    assert cancel([UNKNOWN_ID]) == (UNKNOWN_ID,)


def test_jobs_of_an_array_are_told_apart(cluster: SlurmCluster) -> None:
    array = cluster.submit("test $SLURM_ARRAY_TASK_ID = 1 || sleep 60", "--array=1-3%1")
    ids = [f"{array}_{task}" for task in (1, 2, 3)]
    state_when(ids[1], lambda state: state.state == "RUNNING")

    states = job_states(ids, dict.fromkeys(ids, time.time() - 1))
    cancel([array])

    assert [states[one].state for one in ids] == ["COMPLETED", "RUNNING", "PENDING"]


@pytest.mark.usefixtures("clean_env")
def test_a_job_past_its_time_limit_has_timed_out_and_a_lane_ends_its_run_before(
    cluster: SlurmCluster, user: User
) -> None:
    job = cluster.submit("sleep 300", "--time=1", "--nodelist=n0")
    limit = ("launchers.timeout_min=1", "launchers.slurm_signal_delay_s=1", "launchers.slurm_nodelist=n1")
    submitted = user.sweep("rounds=1", "launchers.wait=false", *limit, step_s="9,9.5")
    user.until(lambda: user.sessions() != [] and user.sessions()[0]["ended"] is not None, timeout_s=180.0)
    state = state_when(job, lambda state: state.final, timeout_s=180.0)

    assert (state.state, state.final) == ("TIMEOUT", True)
    assert "note: launchers.timeout_min=1 is too short: " in submitted.stderr
    assert user.sessions()[0]["ended"] == "interrupted"
    (cut,) = (json.loads(path.read_text()) for path in user.lane().glob("runs/*/record.json"))
    assert (cut["status"], cut["cause"]["code"]) == ("interrupted", "interrupted")


def test_a_requeued_job_is_not_at_its_end(cluster: SlurmCluster) -> None:
    job = cluster.submit("sleep 60", "--requeue")
    state_when(job, lambda state: state.state == "RUNNING")

    cluster.run("scontrol", "requeuehold", job)
    state = state_when(job, lambda state: state.state not in ("RUNNING", "COMPLETING"))
    cancel([job])

    assert not state.final


def test_a_job_that_slurm_does_not_know_is_unknown_and_then_lost(cluster: SlurmCluster) -> None:
    del cluster
    young = job_states([UNKNOWN_ID], {UNKNOWN_ID: time.time()})[UNKNOWN_ID]
    old = job_states([UNKNOWN_ID], {UNKNOWN_ID: time.time() - 3600})[UNKNOWN_ID]

    assert (young.state, young.final, young.source) == ("unknown", False, "none")
    assert (old.state, old.final, old.source) == ("lost", True, "none")
    assert young.notes == ("sacct says nothing of jobs: Slurm accounting storage is disabled",)


def test_an_unknown_job_does_not_hide_the_known_ones(cluster: SlurmCluster) -> None:
    job = cluster.submit("true", "--hold")

    states = job_states([UNKNOWN_ID, job], {job: time.time() - 1, UNKNOWN_ID: time.time()})
    cancel([job])

    assert (states[job].state, states[UNKNOWN_ID].state) == ("PENDING", "unknown")


def test_a_job_older_than_our_submission_is_another_job_of_the_same_id(cluster: SlurmCluster) -> None:
    job = cluster.submit("true", "--hold")

    state = job_states([job], {job: time.time() + 3600})[job]
    cancel([job])

    assert state.state == "unknown"
    assert state.notes[0].startswith(f"squeue knows only an older job {job} (submitted ")


def test_a_controller_that_does_not_answer_loses_no_job(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = cluster.path / "nobody.conf"
    conf.write_text((cluster.path / "slurm.conf").read_text().replace("SlurmctldPort=", "SlurmctldPort=1#"))
    monkeypatch.setenv("SLURM_CONF", str(conf))

    state = job_states(["7"], {"7": 0.0}, timeout_s=3.0)["7"]
    with pytest.raises(UsageError, match="cannot cancel job 7: "):
        cancel(["7"], timeout_s=3.0)

    assert (state.state, state.final) == ("unknown", False)
    assert any(note.startswith("squeue says nothing of jobs: ") for note in state.notes)


@pytest.mark.parametrize("options", [["--partition=short", "--time=60"], ["--nodes=9"], ["--hold"]])
def test_a_job_that_can_never_start_is_told_from_one_that_waits(cluster: SlurmCluster, options: list[str]) -> None:
    job = cluster.submit("true", *options)

    state = state_when(job, lambda state: never_starts(state.reason) is not None, timeout_s=30.0)
    cancel([job])

    assert state.state == "PENDING"
    assert never_starts(state.reason) is not None, state.reason


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--partition=nowhere"], "invalid_partition"),
        (["--gres=gpu:9"], "node_config_unavailable"),
        (["--gres=fpga:1"], "invalid_gres"),
        (["--mem=900G"], "node_config_unavailable"),
        (["--constraint=a100"], "invalid_constraint"),
        (["--reservation=tomorrow"], "invalid_reservation"),
        (["--nodelist=n7"], "node_not_available"),
        (["--array=1-99999999"], "array_too_large"),
        (["--mem=1G", "--mem-per-cpu=1G"], "conflicting_memory_flags"),
        (["--time=soon"], "invalid_time_limit"),
        (["--no-such-option"], "unrecognized_option"),
        (["--licenses=matlab:1"], "invalid_license"),
    ],
)
def test_what_a_real_sbatch_refuses_gets_its_code(cluster: SlurmCluster, options: list[str], code: str) -> None:
    done = cluster.run("sbatch", *options, "--wrap", "true")

    said = what_sbatch_said(done.stdout + done.stderr, done.returncode)

    assert isinstance(said, Refusal), done.stdout + done.stderr
    assert (said.code, said.todo != "") == (code, True), done.stderr


@pytest.mark.parametrize("text", ["n0", "n[0-1]", "n[08-11]", "a[1-2]b[3-4]", "rack[1-2]-n[01-03],x"])
def test_node_lists_expand_as_slurm_expands_them(cluster: SlurmCluster, text: str) -> None:
    told = cluster.run("scontrol", "show", "hostnames", text)

    assert expand(text) == tuple(told.stdout.split()), told.stderr


def test_accounts_answer_for_a_job_that_left_the_queue(
    slurm_cluster_with_accounts: SlurmCluster, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = slurm_cluster_with_accounts
    monkeypatch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
    job = cluster.submit("exit 3")
    state_when(job, lambda state: state.final)
    # An empty queue, as it is some minutes later.
    programs = tmp_path_factory.mktemp("bin")
    (programs / "squeue").write_text("#!/bin/sh\nexit 0\n")
    (programs / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{cluster.env['PATH']}")

    state = state_when(job, lambda state: state.final)
    reused = job_states([job], {job: time.time() + 3600})[job]

    assert (state.state, state.source, state.exit_code) == ("FAILED", "sacct", "3:0")
    assert (reused.state, reused.final) == ("unknown", False)
    assert reused.notes[0].startswith(f"sacct knows only an older job {job} (submitted ")
