"""Ranks and loader workers read back while they run, on real processes; and what is doubtful about a placement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from interlace.lane.proof import Proof, doubts, running, world_below
from interlace.monitor.foreign import Sighting
from interlace.placements import grouped, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RANK = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(2):
    if os.fork() == 0:
        with open("/proc/self/comm", "w") as name:
            name.write("pt_data_worker")
        input()
        os._exit(0)
if os.fork() == 0:
    input()  # another child, which is no loader worker
    os._exit(0)
time.sleep(0.3)
print("ready", flush=True)
input()
"""


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[str]]:
    """A process that bound itself to its first CPU and has two loader workers."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", RANK], text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def test_a_rank_is_read_back_with_its_workers(rank: subprocess.Popen[str]) -> None:
    first = str(min(os.sched_getaffinity(0)))

    found = running(rank.pid, 7)

    assert (found.pid, found.step, found.cpus_allowed, found.workers) == (rank.pid, 7, first, 2)
    assert found.worker_cpus_allowed == (first,)
    assert found.threads == 1


@pytest.mark.skipif(shutil.which("numactl") is None, reason="numactl is not installed")
@pytest.mark.parametrize(("option", "policy"), [("--membind=0", "bind:0"), ("--preferred=0", "prefer:0")])
def test_the_memory_policy_is_the_kernels_word(option: str, policy: str) -> None:
    started = subprocess.run(["numactl", option, "true"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        pytest.skip(f"numactl may not set a policy here: {started.stderr.strip()}")
    with subprocess.Popen(["numactl", option, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.read(1)  # numactl has become cat

        found = running(process.pid, 1).memory_policy
        process.stdin.close()

    assert found in (policy, policy.replace("prefer", "prefer (many)"))


def placed(folder: Path, pid: int) -> Path:
    (folder / "ranks").mkdir(parents=True)
    facts = {"rank": 0, "pid": pid, "cpus_allowed": "0-63", "binding": {"action": "noop", "reason": "one node"}}
    (folder / "ranks" / "rank-0.json").write_text(json.dumps(facts))
    return folder


def test_the_proof_looks_at_the_first_step_and_past_the_middle_of_the_window(
    tmp_path: Path, rank: subprocess.Popen[str]
) -> None:
    proof = Proof(placed(tmp_path, rank.pid), (51, 300))
    steps = []
    for step in (0, 3, 100, 174, 180, 250):
        proof.at(step)
        (placement,) = proof.placements([Sighting(rank.pid, "GPU-7", None, "own", 0.0, 1.0, 2, 5.0)])
        steps.append(placement["running"] and placement["running"]["step"])

    assert steps == [None, 3, 3, 3, 180, 180]
    assert placement["running"]["gpu_uuid"] == "GPU-7"


def test_workers_that_have_handed_out_their_last_batch_are_not_forgotten(tmp_path: Path) -> None:
    """A step of milliseconds is past its last batch before anybody looks a second time."""
    proc = tmp_path / "proc"
    for pid, name in ((7, b"python\n"), (8, b"pt_data_worker\n"), (9, "訓練読込器".encode()[:14])):
        (proc / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "status").write_text("Cpus_allowed_list:\t0-3\n")
        (proc / str(pid) / "comm").write_bytes(name)
    children = proc / "7" / "task" / "7" / "children"
    children.write_text("8 9 ")
    proof = Proof(placed(tmp_path, 7), (51, 150), proc)

    proof.at(1)
    children.write_text("")
    proof.at(149)

    seen = proof.placements([])[0]["running"]
    assert (seen["step"], seen["workers"], seen["worker_cpus_allowed"]) == (149, 1, ("0-3",))


@pytest.mark.parametrize(
    ("told", "world"),
    [
        ("RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_PORT=12355", None),
        ("PATH=/bin", None),
        ("RANK=1 LOCAL_RANK=1 WORLD_SIZE=4", 4),
        ("RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0", 2),
    ],
    ids=["a worker of a rank that set its port", "a helper", "another launcher's rank", "a rank of mpirun"],
)
def test_ranks_of_another_launcher_below_a_rank_are_seen(tmp_path: Path, told: str, world: int | None) -> None:
    proc = tmp_path / "proc"
    environs = {7: "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2", 8: "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2", 9: told}
    for pid, environ in environs.items():
        (proc / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "status").write_text("Cpus_allowed_list:\t0-3\n")
        (proc / str(pid) / "environ").write_text(environ.replace(" ", "\0"))
        (proc / str(pid) / "task" / str(pid) / "children").write_text(f"{pid + 1}" if pid < 9 else "")
    proof = Proof(placed(tmp_path, 7), (51, 150), proc)

    proof.at(1)
    (proc / "7" / "task" / "7" / "children").write_text("")
    proof.at(149)

    assert world_below(proof.placements([])) == world


@pytest.mark.parametrize(
    ("below", "world"),
    [((2, 2), 2), ((2, None), None), ((1, 1), None), ((), None)],
    ids=["a launcher in the command", "a server beside one rank", "an engine of its own in each", "no rank"],
)
def test_only_ranks_below_each_of_ours_are_trainings_of_their_own(
    below: tuple[int | None, ...], world: int | None
) -> None:
    assert world_below([rank_of(k, world_below=size) for k, size in enumerate(below)]) == world


def test_a_rank_that_has_ended_is_told_as_not_read_back(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    proof = Proof(placed(tmp_path, ended.pid), (1, 20))

    proof.at(20)

    assert doubts(proof.placements([]))[0].startswith("rank 0: not read back while it ran")


def rank_of(number: int = 0, **running: Any) -> dict[str, Any]:
    seen = {"cpus_allowed": "0-31", "workers": 0, "worker_cpus_allowed": [], "gpu_uuid": None, **running}
    binding = {"action": "bind", "how": "numactl", "cpus": "0-31", "numa_node": 0, "gpu": {"uuid": "GPU-1"}}
    return {"rank": number, "cpus_allowed": "0-31", "binding": binding, "running": seen, "omp_num_threads": "4"}


def test_a_binding_that_stayed_leaves_no_doubt() -> None:
    assert doubts([rank_of(gpu_uuid="GPU-1", workers=4, worker_cpus_allowed=["0-31"])]) == []


@pytest.mark.parametrize(
    ("running", "doubt"),
    [
        ({"cpus_allowed": "32-63"}, "bound to CPUs 0-31, but runs on 32-63: the binding did not stay"),
        ({"gpu_uuid": "GPU-5"}, "computes on GPU GPU-5, its visible devices say GPU-1"),
        ({"workers": 4, "worker_cpus_allowed": ["3"]}, "its loader workers run on CPUs 3, it on 0-31"),
    ],
)
def test_what_speaks_against_a_placement_is_said_with_its_ranks(running: dict[str, Any], doubt: str) -> None:
    (said,) = doubts([rank_of(0, **running), rank_of(1, **running), rank_of(2)])

    assert said.startswith(f"rank 0, rank 1: {doubt}")


def test_ranks_that_share_fewer_cpus_than_they_and_their_workers_are_told() -> None:
    crowd = [rank_of(number, workers=8, worker_cpus_allowed=["0-31"]) for number in range(4)]
    crowd[0]["binding"]["scope"] = "node"

    (said,) = doubts(crowd)
    assert said.startswith("rank 0, rank 1, rank 2, rank 3: 36 processes (32 loader workers) share 32 CPUs (0-31)")
    assert said.endswith("fewer workers, or a wider numa.scope")
    assert doubts(crowd[:3]) == []


def test_a_memory_policy_that_did_not_stay_is_a_doubt() -> None:
    stayed, gone = rank_of(0, memory_policy="bind:0"), rank_of(1, memory_policy="default")
    for rank in (stayed, gone):
        rank["binding"] |= {"memory_asked": "bind", "memory": "bind"}

    assert doubts([stayed, gone]) == ["rank 1: memory was bound (bind), and its policy is default now: it did not stay"]


def test_another_layer_that_put_a_rank_away_from_its_gpu_is_named() -> None:
    rank = rank_of(cpus_allowed="64-95")
    rank |= {"cpus_intended": "0-31", "binding": {"action": "noop", "other_layer": "srun (--cpu-bind)"}}

    assert doubts([rank]) == ["rank 0: srun (--cpu-bind) put it on CPUs 64-95; its GPU is near CPUs 0-31"]


def test_a_policy_or_a_scope_that_was_not_applied_is_a_doubt() -> None:
    rank = rank_of()
    rank["binding"] |= {"memory_asked": "bind", "memory": "off", "memory_reason": "one NUMA node has memory"}
    rank["binding"] |= {"scope_asked": "cores", "scope": "node", "reason": "fewer cores than ranks"}

    assert doubts([rank]) == [
        "rank 0: numa.memory=bind is not applied: one NUMA node has memory",
        "rank 0: numa.scope=cores is not applied: fewer cores than ranks",
    ]


def test_a_program_that_bound_itself_is_told() -> None:
    free = {**rank_of(cpus_allowed="0-15"), "binding": {"action": "unpinned", "reason": "off"}}

    assert doubts([free]) == ["rank 0: started on CPUs 0-31, runs on 0-15: the program bound itself"]


def test_placements_that_are_the_same_are_one_line() -> None:
    two = [rank_of(0, gpu_uuid="GPU-1"), rank_of(1, gpu_uuid="GPU-1")]
    found = grouped([("a", two), ("a", two), ("b", two)])

    assert [(one.arm, one.ranks, one.runs) for one in found] == [("a", (0, 1), 2), ("b", (0, 1), 1)]
    assert lines(found) == [
        "ranks 0, 1, GPU GPU-1, NUMA node 0, CPUs 0-31, numactl, 0 loader workers, OMP_NUM_THREADS=4: a (2), b (1)"
    ]


def test_ranks_of_another_node_are_another_line_and_share_no_cpus() -> None:
    busy = {"workers": 15, "worker_cpus_allowed": ["0-31"]}
    ranks = [{**rank_of(number, **busy), "node": f"n{number}"} for number in (0, 1)]

    assert doubts([*ranks]) == []
    assert [text.partition(", GPU")[0] for text in lines(grouped([("a", ranks)]))] == [
        "rank 0, node n0", "rank 1, node n1",
    ]  # fmt: skip


def test_a_rank_of_one_of_several_nodes_is_looked_for_on_its_own_only(tmp_path: Path) -> None:
    folder = placed(tmp_path, os.getpid())
    path = folder / "ranks" / "rank-0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "node": "n1"}))
    here, there = Proof(folder, (1, 20), node="n1"), Proof(folder, (1, 20), node="n2")
    for proof in (here, there):
        proof.at(1)

    assert [rank["running"]["pid"] for rank in here.placements([])] == [os.getpid()]
    assert there.placements([]) == []
