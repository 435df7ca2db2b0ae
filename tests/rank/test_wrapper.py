from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from interlace.rank import numa

if TYPE_CHECKING:
    from pathlib import Path

SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"
HERE = sorted(os.sched_getaffinity(0))
GPU_MAP = json.dumps(
    [
        {"index": 0, "uuid": "GPU-1", "bus_id": "0000:1b:00.0", "name": "NVIDIA H200"},
        {"index": 1, "uuid": "GPU-2", "bus_id": "0000:9b:00.0", "name": "NVIDIA H200"},
    ]
)
needs_two_cpus = pytest.mark.skipif(len(HERE) < 2, reason="two CPUs are needed to tell two nodes apart")


def clean_env(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "HOME")}
    return kept | more


def rank(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "interlace.rank", *argv],
        env=clean_env(**env), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def rank_on(sysfs: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the wrapper on a tree in place of /sys."""
    call = f"main(sys.argv[1:], sysfs_root={str(sysfs)!r})"
    code = f"import sys; from interlace.rank.wrapper import main; sys.exit({call})"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *argv],
        env=clean_env(**env), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def recorded(run_dir: Path, number: int = 0) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((run_dir / f"ranks/rank-{number}.json").read_text())
    return facts


def two_nodes(root: Path, first: str, second: str) -> Path:
    """Make a machine whose two nodes have these CPUs and a GPU each."""
    for name, content in {
        "devices/system/node/online": "0-1",
        "devices/system/node/node0/cpulist": first,
        "devices/system/node/node1/cpulist": second,
        "bus/pci/devices/0000:1b:00.0/numa_node": "0",
        "bus/pci/devices/0000:9b:00.0/numa_node": "1",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


# ---------------------------------------------------------------- becoming the command


def test_the_wrapper_becomes_the_command_and_passes_its_arguments_and_exit_code() -> None:
    done = rank("--", sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(7)", "a b", "--", "-x")

    assert (done.returncode, done.stdout) == (7, "['a b', '--', '-x']\n")


def test_without_a_command_the_usage_is_shown() -> None:
    done = rank("--")

    assert done.returncode == 2
    assert done.stderr.startswith("interlace rank: error: CMD is missing\nusage: interlace rank -- CMD")


def test_a_command_that_is_not_there_is_127_and_one_that_may_not_run_126(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("no program\n")

    missing, refused = rank("--", "no-such-command"), rank("--", str(tmp_path / "script"))

    assert missing.returncode == 127
    assert missing.stderr.endswith("interlace rank: error: command not found: no-such-command\n")
    assert refused.returncode == 126
    assert refused.stderr.endswith(f"interlace rank: error: cannot start {tmp_path}/script: Permission denied\n")


def test_help_goes_to_stdout() -> None:
    done = rank("--help")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "usage: interlace rank -- CMD [ARG...]")


def test_without_a_run_folder_nothing_is_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "interlace.rank", "--", "true"],
        env=clean_env(), cwd=tmp_path, check=False,
    )  # fmt: skip

    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])


def test_a_run_folder_that_cannot_be_written_does_not_fail_the_rank(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = rank("--", "echo", "ran", INTERLACE_RUN_DIR=str(tmp_path / "file"))

    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "interlace rank: note: cannot write" in done.stderr


def test_the_record_tells_what_is_running_under_the_pid_that_runs_it(tmp_path: Path) -> None:
    done = rank(
        "--", sys.executable, "-c", "import os; print(os.getpid())",
        INTERLACE_RUN_DIR=str(tmp_path), RANK="3", LOCAL_RANK="1", WORLD_SIZE="4", OMP_NUM_THREADS="2",
    )  # fmt: skip

    facts = recorded(tmp_path, 3)
    assert facts["pid"] == int(done.stdout)
    assert (facts["rank"], facts["local_rank"], facts["world_size"], facts["launcher"]) == (
        3,
        1,
        4,
        "torchrun",
    )
    assert facts["argv"] == [sys.executable, "-c", "import os; print(os.getpid())"]
    assert facts["executable"] == sys.executable
    assert facts["cpus_allowed"] == numa.format_cpulist(HERE)
    assert (facts["omp_num_threads"], facts["cuda_device_order"]) == ("2", "PCI_BUS_ID")
    assert [path.name for path in (tmp_path / "ranks").iterdir()] == ["rank-3.json"]


def test_a_device_order_that_somebody_chose_is_kept() -> None:
    show = "import os; print(os.environ['CUDA_DEVICE_ORDER'])"

    assert rank("--", sys.executable, "-c", show).stdout == "PCI_BUS_ID\n"
    assert rank("--", sys.executable, "-c", show, CUDA_DEVICE_ORDER="FASTEST_FIRST").stdout == "FASTEST_FIRST\n"


# ---------------------------------------------------------------- binding


def test_why_ranks_are_not_bound_is_said_once_per_node() -> None:
    first, second = rank("--", "true", LOCAL_RANK="0"), rank("--", "true", LOCAL_RANK="1")

    assert first.stderr.startswith("interlace rank: unpinned: ")
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""


def test_switched_off_leaves_the_rank_where_it_is(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path, str(HERE[0]), str(HERE[-1]))

    done = rank_on(sysfs, "--", sys.executable, "-c", SHOW, INTERLACE_NUMA_BIND="off", INTERLACE_GPU_MAP=GPU_MAP)

    assert (done.stdout, done.stderr) == (f"{HERE}\n", "interlace rank: unpinned: numa.bind=off\n")


@needs_two_cpus
@pytest.mark.parametrize(("local_rank", "cpu"), [("0", HERE[0]), ("1", HERE[1])])
def test_a_rank_runs_on_the_cpus_of_its_gpu_and_reads_them_back(tmp_path: Path, local_rank: str, cpu: int) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))

    done = rank_on(
        sysfs, "--", sys.executable, "-c", SHOW,
        LOCAL_RANK=local_rank, RANK=local_rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
        INTERLACE_GPU_MAP=GPU_MAP, INTERLACE_RUN_DIR=str(tmp_path),
    )  # fmt: skip

    facts = recorded(tmp_path, int(local_rank))
    assert done.stdout == f"[{cpu}]\n"
    assert facts["cpus_allowed"] == str(cpu)
    # This machine's real node is not the one on the tree, so numactl is asked, and the way without it taken.
    assert facts["binding"]["how"] == "sched_setaffinity"
    assert facts["binding"]["numa_node"] == int(local_rank)
    assert facts["binding"]["gpu"]["uuid"] == ("GPU-1", "GPU-2")[int(local_rank)]


def test_a_whole_node_is_bound_by_numactl_where_numactl_agrees(tmp_path: Path) -> None:
    cpus = numa.format_cpulist(numa.cpus_of_node(0))
    sysfs = two_nodes(tmp_path / "sys", cpus, "4094-4095")

    done = rank_on(
        sysfs, "--", sys.executable, "-c", SHOW,
        LOCAL_RANK="0", INTERLACE_GPU_MAP=GPU_MAP, INTERLACE_RUN_DIR=str(tmp_path),
    )  # fmt: skip

    binding = recorded(tmp_path)["binding"]
    if binding["how"] != "numactl":
        pytest.skip(f"numactl cannot bind to node 0 here: {binding}")
    assert done.stdout == f"{sorted(numa.cpus_of_node(0))}\n"
    assert done.stderr == ""


TWO_RANKS = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "INTERLACE_GPU_MAP": GPU_MAP}


@needs_two_cpus
def test_ranks_share_the_cores_of_one_node_and_none_has_another_ones(tmp_path: Path) -> None:
    for number in ("0", "1"):
        rank(
            "--", "true", LOCAL_RANK=number, RANK=number, LOCAL_WORLD_SIZE="2",
            INTERLACE_NUMA_SCOPE="cores", INTERLACE_RUN_DIR=str(tmp_path),
        )  # fmt: skip

    first, second = (numa.parse_cpulist(recorded(tmp_path, number)["cpus_allowed"]) for number in (0, 1))
    if recorded(tmp_path)["binding"]["how"] is None:
        pytest.skip(f"cores are not divided here: {recorded(tmp_path)['binding']}")
    assert (first & second, first | second) == (frozenset(), frozenset(HERE))
    assert recorded(tmp_path, 1)["cpus_intended"] == numa.format_cpulist(second)
    assert recorded(tmp_path)["binding"]["scope"] == "cores"


def test_more_ranks_than_cores_are_left_undivided_and_the_first_says_so() -> None:
    env = {"LOCAL_WORLD_SIZE": "4096", "INTERLACE_NUMA_SCOPE": "cores"}

    first, second = (rank("--", sys.executable, "-c", SHOW, LOCAL_RANK=number, **env) for number in ("0", "1"))

    assert (first.stdout, second.stdout) == (f"{HERE}\n", f"{HERE}\n")
    assert "note: numa.scope=cores: fewer cores than ranks on a NUMA node; nothing is divided\n" in first.stderr
    assert second.stderr == ""


def test_an_unknown_scope_or_policy_is_said_and_the_default_taken(tmp_path: Path) -> None:
    done = rank(
        "--", "true", INTERLACE_NUMA_SCOPE="core", INTERLACE_NUMA_MEMORY="all", INTERLACE_RUN_DIR=str(tmp_path)
    )  # fmt: skip

    binding = recorded(tmp_path)["binding"]
    assert (binding["scope_asked"], binding["memory_asked"]) == ("node", "off")
    assert "INTERLACE_NUMA_SCOPE=core is none of node, socket, cores; node is taken\n" in done.stderr
    assert "INTERLACE_NUMA_MEMORY=all is none of off, preferred, bind; off is taken\n" in done.stderr


# ---------------------------------------------------------------- memory


NUMA_MAPS = "print(open('/proc/self/numa_maps').readline().split()[1])"


@pytest.mark.parametrize(("policy", "words"), [("bind", {"bind:0"}), ("preferred", {"prefer:0", "prefer (many):0"})])
def test_the_command_inherits_the_memory_policy_under_the_pid_that_was_recorded(
    tmp_path: Path, policy: str, words: set[str]
) -> None:
    sysfs = two_nodes(tmp_path / "sys", numa.format_cpulist(numa.cpus_of_node(0)), "4094-4095")

    done = rank_on(
        sysfs, "--", sys.executable, "-c", f"import os; print(os.getpid()); {NUMA_MAPS}",
        LOCAL_RANK="0", INTERLACE_GPU_MAP=GPU_MAP, INTERLACE_NUMA_MEMORY=policy, INTERLACE_RUN_DIR=str(tmp_path),
    )  # fmt: skip

    facts = recorded(tmp_path)
    if facts["binding"]["memory"] == "off":
        assert f"note: numa.memory={policy} is not applied, CPUs alone are bound: " in done.stderr
        pytest.skip(f"numactl cannot set a memory policy here: {facts['binding']['memory_reason']}")
    pid, reported = done.stdout.split("\n", 1)
    assert facts["pid"] == int(pid)
    assert reported.strip() in words | {"prefer"}
    assert facts["binding"]["memory_reported"] in words
    assert (facts["binding"]["memory"], facts["binding"]["memory_nodes"]) == (policy, "0")


@needs_two_cpus
def test_a_policy_that_one_rank_is_refused_leaves_every_rank_with_its_cpus_alone(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))  # there is no node 1 here to numactl

    for number in ("0", "1"):
        done = rank_on(
            sysfs, "--", sys.executable, "-c", NUMA_MAPS, LOCAL_RANK=number, RANK=number,
            INTERLACE_NUMA_MEMORY="bind", INTERLACE_RUN_DIR=str(tmp_path), **TWO_RANKS,
        )  # fmt: skip
        binding = recorded(tmp_path, int(number))["binding"]
        assert (done.returncode, binding["how"], binding["memory"]) == (0, "sched_setaffinity", "off")
        assert binding["memory_reason"].startswith("numactl ")
        assert done.stderr.count("numa.memory=bind is not applied") == (1 if number == "0" else 0)


def test_memory_is_never_bound_to_a_node_without_any(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", numa.format_cpulist(HERE), "4094-4095")
    for name, content in (("has_memory", "1-2"), ("online", "0-2")):
        (sysfs / "devices/system/node" / name).write_text(f"{content}\n")

    done = rank_on(
        sysfs, "--", sys.executable, "-c", SHOW,
        INTERLACE_GPU_MAP=GPU_MAP, INTERLACE_NUMA_MEMORY="bind", INTERLACE_RUN_DIR=str(tmp_path),
    )  # fmt: skip

    binding = recorded(tmp_path)["binding"]
    assert (done.stdout, binding["memory"]) == (f"{HERE}\n", "off")
    assert binding["memory_reason"] == "the NUMA node of a rank has no memory of its own, or is not known"


def test_one_node_with_memory_leaves_no_choice_and_that_is_written(tmp_path: Path) -> None:
    rank("--", "true", INTERLACE_NUMA_MEMORY="bind", INTERLACE_RUN_DIR=str(tmp_path))

    binding = recorded(tmp_path)["binding"]
    if len(numa.online_nodes()) > 1:
        pytest.skip("this machine has several NUMA nodes")
    assert (binding["memory_asked"], binding["memory"], binding["memory_reason"]) == (
        "bind", "off", "this rank is not bound",
    )  # fmt: skip


# ---------------------------------------------------------------- others who bind


@needs_two_cpus
def test_a_rank_that_another_layer_binds_is_left_as_it_is_and_both_places_are_written(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))

    done = rank_on(
        sysfs, "--", sys.executable, "-c", SHOW, LOCAL_RANK="0", RANK="0",
        ACCELERATE_CPU_AFFINITY="1", INTERLACE_RUN_DIR=str(tmp_path), **TWO_RANKS,
    )  # fmt: skip

    facts = recorded(tmp_path)
    layer = "accelerate (ACCELERATE_CPU_AFFINITY)"
    assert (done.stdout, done.stderr) == (f"{HERE}\n", f"interlace rank: left as it is: bound by {layer}\n")
    assert (facts["binding"]["code"], facts["binding"]["other_layer"]) == ("other_layer", layer)
    assert (facts["cpus_allowed"], facts["cpus_intended"]) == (numa.format_cpulist(HERE), str(HERE[0]))


@needs_two_cpus
def test_a_mask_that_the_launcher_made_for_a_rank_is_kept(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))
    code = f"import sys; from interlace.rank.wrapper import main; main(sys.argv[1:], sysfs_root={str(sysfs)!r})"

    done = subprocess.run(
        ["taskset", "-c", str(HERE[0]), sys.executable, "-P", "-c", code, "--", sys.executable, "-c", SHOW],
        env=clean_env(LOCAL_RANK="1", RANK="1", INTERLACE_RUN_DIR=str(tmp_path), **TWO_RANKS),
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"[{HERE[0]}]\n"
    assert recorded(tmp_path, 1)["binding"]["other_layer"].startswith("the launcher ")


# ---------------------------------------------------------------- too few CPUs


@needs_two_cpus
def test_too_few_cpus_for_threads_and_workers_are_said(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))

    done = rank_on(
        sysfs, "--", "true", LOCAL_RANK="0", RANK="0", OMP_NUM_THREADS="4", INTERLACE_WORKERS="2",
        INTERLACE_OMP_BY="the shell", INTERLACE_RUN_DIR=str(tmp_path), **TWO_RANKS,
    )  # fmt: skip

    facts = recorded(tmp_path)
    assert facts["binding"]["warnings"][-3:] == ["few_cpus", "fewer_cpus_than_threads", "node_oversubscribed"]
    assert (facts["omp_num_threads"], facts["omp_num_threads_by"]) == ("4", "the shell")
    assert "note: a rank may use fewer CPUs than OMP_NUM_THREADS\n" in done.stderr


def test_enough_cpus_are_no_warning(tmp_path: Path) -> None:
    rank("--", "true", INTERLACE_RUN_DIR=str(tmp_path), OMP_NUM_THREADS="1", INTERLACE_WORKERS="0")

    assert set(recorded(tmp_path)["binding"]["warnings"]) <= {"few_cpus"}


@needs_two_cpus
def test_a_parents_narrow_mask_does_not_keep_a_rank_from_its_node(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))
    call = f"wrapper.main(['--', sys.executable, '-c', {SHOW!r}], sysfs_root={str(sysfs)!r})"
    parent = (
        "import os, subprocess, sys; os.sched_setaffinity(0, [int(sys.argv[1])]); "
        "subprocess.run([sys.executable, '-P', '-c', sys.argv[2]])"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", parent, str(HERE[0]), f"import sys; from interlace.rank import wrapper; {call}"],
        env=clean_env(LOCAL_RANK="1", INTERLACE_GPU_MAP=GPU_MAP), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"[{HERE[1]}]\n"


def test_a_tree_that_makes_no_sense_leaves_the_rank_unpinned_and_running(tmp_path: Path) -> None:
    sysfs = two_nodes(tmp_path / "sys", "4000-4001", "4002-4003")

    done = rank_on(sysfs, "--", sys.executable, "-c", SHOW, INTERLACE_GPU_MAP=GPU_MAP)

    assert (done.returncode, done.stdout) == (0, f"{HERE}\n")
    assert done.stderr.startswith("interlace rank: unpinned: no CPU of NUMA node 0 is allowed here")


def test_the_wrapper_imports_the_standard_library_alone() -> None:
    code = (
        "import sys, interlace.rank.wrapper, interlace.rank.cores, interlace.rank.numactl; "
        "heavy = {'dataclasses', 'subprocess', 'pathlib', 'argparse', 'psutil', 'msgspec', 'pandas', 'ctypes'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env=clean_env(PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "[]\n"
