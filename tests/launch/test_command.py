from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from interlace.errors import ConfigError
from interlace.launch import Launch, Rendezvous, applied, build_launch, by_hand, command_script, rank_command
from interlace.launch.command import omp_threads
from interlace.schema import Arm
from interlace.settings import NumaConfig, RanksConfig, SourceConfig, SweepConfig, WorkloadConfig

WORKLOAD = WorkloadConfig("w", command="python train.py --lr 1e-4", python="/env/bin/python")
CONFIG = SweepConfig("s", WORKLOAD, RanksConfig("accelerate", nproc_per_node=2))
ARM = Arm("a", "a", (), CONFIG)
RUN_DIR = Path("/out/runs/001-r1-a")
RANK = (sys.executable, "-P", "-m", "interlace.rank", "--", "/env/bin/python", "train.py", "--lr", "1e-4")


def argv(ranks: RanksConfig) -> tuple[str, ...]:
    return build_launch(replace(ARM, config=replace(CONFIG, ranks=ranks)), RUN_DIR, None, {}).argv


def test_accelerate_is_told_everything_explicitly_and_starts_several_processes_without_gpus() -> None:
    assert argv(RanksConfig("accelerate", 2)) == (
        "/env/bin/python", "-m", "accelerate.commands.accelerate_cli", "launch",
        "--config_file=/out/runs/001-r1-a/accelerate.yaml", "--num_machines=1", "--num_processes=2",
        "--main_process_port=0", "--mixed_precision=no", "--dynamo_backend=no", "--multi_gpu", "--no_python", *RANK,
    )  # fmt: skip


def test_a_single_rank_under_accelerate_is_no_multi_gpu() -> None:
    assert "--multi_gpu" not in argv(RanksConfig("accelerate", 1))


def test_the_users_own_accelerate_configuration_is_taken_instead_of_ours() -> None:
    launch = build_launch(
        replace(ARM, config=replace(CONFIG, ranks=RanksConfig("accelerate", 2, config_file="/c/fsdp.yaml"))),
        RUN_DIR, None, {},
    )  # fmt: skip

    assert "--config_file=/c/fsdp.yaml" in launch.argv
    assert launch.files == {}


def test_torchrun_is_standalone() -> None:
    assert argv(RanksConfig("torchrun", 4, args=["--max-restarts=0"])) == (
        "/env/bin/python", "-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc-per-node=4",
        "--max-restarts=0", "--no-python", *RANK,
    )  # fmt: skip


SECOND = Rendezvous(2, "1", "n1", "10.0.0.1", "4711")


def at_second(ranks: RanksConfig) -> Launch:
    return build_launch(replace(ARM, config=replace(CONFIG, ranks=ranks)), RUN_DIR, None, {}, SECOND)


def test_torchrun_meets_at_the_first_node_and_is_told_which_node_it_is() -> None:
    launch = at_second(RanksConfig("torchrun", 4, args=["--max-restarts=0"]))

    assert launch.argv == (
        "/env/bin/python", "-m", "torch.distributed.run", "--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1",
        "--master-port=4711", "--nproc-per-node=4", "--max-restarts=0", "--no-python", *RANK,
    )  # fmt: skip
    assert launch.env["INTERLACE_NODE"] == "n1"


def test_accelerate_counts_the_processes_of_all_nodes() -> None:
    launch = at_second(RanksConfig("accelerate", 1))

    assert launch.argv[4:13] == (
        "--config_file=/out/runs/001-r1-a/accelerate.yaml", "--num_machines=2", "--num_processes=2",
        "--machine_rank=1", "--main_process_ip=10.0.0.1", "--main_process_port=4711", "--same_network",
        "--rdzv_backend=static", "--mixed_precision=no",
    )  # fmt: skip
    assert "--multi_gpu" in launch.argv
    assert "num_machines: 2\nnum_processes: 2\n" in launch.files["accelerate.yaml"]


def test_a_plain_process_of_several_nodes_is_the_rank_of_its_node() -> None:
    env = at_second(RanksConfig("plain", 1)).env

    assert {name: env[name] for name in env if name.startswith(("RANK", "WORLD", "LOCAL", "MASTER", "NODE", "NN"))} == {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "1", "NNODES": "2",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4711",
    }  # fmt: skip


def test_a_plain_launcher_of_several_nodes_is_told_where_it_is_and_starts_its_own_ranks() -> None:
    env = at_second(RanksConfig("plain", 8)).env

    assert (env["NODE_RANK"], env["NNODES"], env["MASTER_ADDR"]) == ("1", "2", "10.0.0.1")
    assert "RANK" not in env


def test_command_sh_of_several_nodes_takes_its_place_from_the_job_or_from_its_caller(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    code = "import sys; print(sys.argv[1:])"
    built = build_launch(ARM, tmp_path, None, {}, by_hand(2))
    words = [word for word in built.argv if word.startswith(("--num_m", "--machine", "--main"))]
    launch = replace(built, argv=(sys.executable, "-c", code, *words), cwd=tmp_path, files={})
    script = tmp_path / "command.sh"
    script.write_text(command_script(launch))
    places = {"SLURM_NODEID": "1", "MASTER_ADDR": "n0", "PATH": os.environ["PATH"]}

    told = subprocess.run(["bash", str(script)], env=places, capture_output=True, text=True, check=True)
    untold = subprocess.run(
        ["bash", str(script)], env={"PATH": places["PATH"]}, capture_output=True, text=True, check=False
    )

    assert told.stdout == (
        "['--num_machines=2', '--machine_rank=1', '--main_process_ip=n0', '--main_process_port=29400']\n"
    )
    assert untold.returncode != 0
    assert "which node is this? set NODE_RANK" in untold.stderr


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("torchrun", "--numa-binding=node"),
        ("torchrun", "--numa_binding"),
        ("torchrun", "--numa-b=socket"),
        ("accelerate", "--enable_cpu_affinity"),
        ("accelerate", "--enable-cpu-affinity"),
    ],
)
def test_a_launcher_that_binds_the_ranks_too_is_refused_before_anything_runs(
    kind: Literal["torchrun", "accelerate"], argument: str
) -> None:
    ranks = RanksConfig(kind, 2, args=["--max-restarts=0", argument])
    both = replace(CONFIG, ranks=ranks)

    with pytest.raises(ConfigError) as caught:
        build_launch(replace(ARM, config=both), RUN_DIR, None, {})

    assert str(caught.value) == (
        f"ranks.args has {argument}, by which the launcher binds the ranks, and numa.bind=auto binds them too; "
        "drop the argument, or set numa.bind=off"
    )
    alone = replace(both, numa=NumaConfig(bind="off"))
    assert argument in build_launch(replace(ARM, config=alone), RUN_DIR, None, {}).argv


def test_other_arguments_of_a_launcher_are_no_binding() -> None:
    assert "--nproc" in argv(RanksConfig("torchrun", 2, args=["--nproc", "--n", "-x", "--numactl-log"]))


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("torchrun --standalone --nproc-per-node=2 train.py", "torchrun"),
        ("/envs/a/bin/torchrun train.py", "torchrun"),
        ("accelerate launch train.py", "accelerate launch"),
        ("python -u -m torch.distributed.run train.py", "torch.distributed.run"),
        (
            "python -X dev -m accelerate.commands.accelerate_cli launch t.py",
            "accelerate.commands.accelerate_cli launch",
        ),
        ("python /envs/a/bin/accelerate launch train.py", "accelerate launch"),
        ("deepspeed --num_gpus 2 train.py", "deepspeed"),
        ("env OMP_NUM_THREADS=4 numactl -N 0 mpirun -n 2 python train.py", "mpirun"),
        ("uv run --frozen torchrun train.py", "torchrun"),
        ("srun python train.py", "srun"),
        ("bash -ec 'cd x && exec torchrun train.py'", "torchrun"),
    ],
)
@pytest.mark.parametrize("kind", ["accelerate", "torchrun"])
def test_a_command_that_starts_its_own_ranks_is_refused_under_a_launcher_of_ours(
    kind: Literal["torchrun", "accelerate"], command: str, own: str
) -> None:
    arm = replace(ARM, config=replace(CONFIG, workload=replace(WORKLOAD, command=command), ranks=RanksConfig(kind, 2)))

    with pytest.raises(ConfigError) as caught:
        build_launch(arm, RUN_DIR, None, {})

    assert str(caught.value) == (
        f"workload.command starts its ranks itself ({own}), and launchers={kind} would start it 2 times, each a "
        "training of its own; give launchers=plain and, as ranks.nproc_per_node, how many ranks it starts, "
        f"or leave {own} and its options out of the command"
    )
    for ranks in (RanksConfig("plain", 2), RanksConfig(kind, 1)):
        build_launch(replace(arm, config=replace(arm.config, ranks=ranks)), RUN_DIR, None, {})


@pytest.mark.parametrize(
    "command",
    [
        "python torchrun_config.py",
        "python train.py --launcher torchrun",
        "python -m train torchrun",
        "python -m deepspeed_train --deepspeed ds.json",
        "python deepspeed/train.py",
        "python deepspeed",
        "python run accelerate launch",
        "python -c 'import torchrun'",
        "accelerate config",
        "env LAUNCHER=deepspeed python train.py deepspeed",
        "bash -c 'cd srun; python train.py --with torchrun'",
        'bash -c "echo \'a;"',
        "bash train.sh torchrun",
        "bash",
        "train",
    ],
)
def test_a_launchers_name_elsewhere_in_a_command_is_no_launcher(command: str) -> None:
    build_launch(replace(ARM, config=replace(CONFIG, workload=replace(WORKLOAD, command=command))), RUN_DIR, None, {})


def test_the_wrapper_is_told_what_is_wanted_of_it() -> None:
    config = replace(CONFIG, numa=NumaConfig(scope="cores", memory="bind"))

    env = build_launch(replace(ARM, config=config), RUN_DIR, None, {}).env

    assert {name: env[name] for name in env if "NUMA" in name or "NPROC" in name} == {
        "INTERLACE_NUMA_BIND": "auto",
        "INTERLACE_NUMA_SCOPE": "cores",
        "INTERLACE_NUMA_MEMORY": "bind",
        "INTERLACE_NPROC_PER_NODE": "2",
    }


@pytest.mark.parametrize(
    ("config", "environ", "by"),
    [
        (CONFIG, {}, "the default of ranks=accelerate"),
        (CONFIG, {"OMP_NUM_THREADS": "3"}, "the shell"),
        (
            replace(CONFIG, ranks=RanksConfig("plain", omp_num_threads=2)), {"OMP_NUM_THREADS": "3"},
            "ranks.omp_num_threads",
        ),
        (replace(CONFIG, env={"OMP_NUM_THREADS": "4"}), {}, "env.OMP_NUM_THREADS"),
        (
            replace(CONFIG, workload=replace(WORKLOAD, env={"OMP_NUM_THREADS": "4"})), {},
            "workload.env.OMP_NUM_THREADS",
        ),
    ],
)  # fmt: skip
def test_who_decided_the_threads_goes_with_them(config: SweepConfig, environ: dict[str, str], by: str) -> None:
    assert build_launch(replace(ARM, config=config), RUN_DIR, None, environ).env["INTERLACE_OMP_BY"] == by


def test_a_plain_single_process_goes_through_the_wrapper_and_a_plain_launcher_does_not() -> None:
    assert argv(RanksConfig("plain", 1)) == RANK
    assert argv(RanksConfig("plain", 8)) == RANK[5:]


def test_a_launchers_own_script_is_preferred_so_that_the_current_folder_shadows_nothing(
    tmp_path: Path,
) -> None:
    for name in ("python", "accelerate"):
        (tmp_path / name).touch()
    workload = replace(WORKLOAD, python=str(tmp_path / "python"))

    launch = build_launch(replace(ARM, config=replace(CONFIG, workload=workload)), RUN_DIR, None, {})

    assert launch.argv[:2] == (str(tmp_path / "accelerate"), "launch")


def test_placeholders_of_the_command_are_filled_and_other_braces_kept() -> None:
    workload = replace(WORKLOAD, command="train --out={run_dir}/x --cfg='{a: 1}' {worktree}/t.py")

    assert rank_command(workload, "python", {"run_dir": "/r", "worktree": "/w"}) == (
        "train", "--out=/r/x", "--cfg={a: 1}", "/w/t.py",
    )  # fmt: skip


@pytest.mark.parametrize("command", ["cd x && python t.py", "python t.py > log", "python t.py | tee log"])
def test_shell_syntax_is_refused_because_no_shell_runs_the_command(command: str) -> None:
    with pytest.raises(ConfigError, match="no shell runs it"):
        rank_command(replace(WORKLOAD, command=command), "python", {})


def test_an_unclosed_quote_and_an_empty_command_are_refused() -> None:
    for command in ("python 't.py", "", "   "):
        with pytest.raises(ConfigError, match=r"workload\.command"):
            rank_command(replace(WORKLOAD, command=command), "python", {})


@pytest.mark.parametrize(
    ("ranks", "environ", "threads"),
    [
        (RanksConfig("accelerate", 2), {}, "1"),
        (RanksConfig("torchrun", 2), {"OMP_NUM_THREADS": "4"}, "4"),
        (RanksConfig("torchrun", 2, omp_num_threads=8), {"OMP_NUM_THREADS": "4"}, "8"),
        (RanksConfig("plain", 1), {}, None),
    ],
)
def test_omp_threads_are_set_and_not_left_to_the_launcher(
    ranks: RanksConfig, environ: dict[str, str], threads: str | None
) -> None:
    assert omp_threads(ranks, environ) == threads


def test_the_arms_environment_wins_over_ours_and_compile_caches_are_the_arms_own() -> None:
    config = replace(CONFIG, env={"OMP_NUM_THREADS": "3", "X": "1"})

    env = build_launch(replace(ARM, config=config), RUN_DIR, None, {"PATH": "/bin"}).env

    assert (env["OMP_NUM_THREADS"], env["X"]) == ("3", "1")
    assert env["TORCHINDUCTOR_CACHE_DIR"] == "/out/caches/a/inductor"
    assert env["PATH"] == "/env/bin:/bin"


def test_a_variable_that_is_set_to_nothing_is_taken_from_what_ranks_inherit() -> None:
    workload = replace(WORKLOAD, env={"GONE": None, "BACK": None, "OWN": "w"})
    config = replace(CONFIG, workload=workload, env={"BACK": "1", "OWN": None})
    shell = {"PATH": "/bin", "GONE": "x", "OWN": "x", "KEPT": "x"}

    env = applied(shell, build_launch(replace(ARM, config=config), RUN_DIR, None, shell).env)

    assert {name: env.get(name) for name in ("GONE", "BACK", "OWN", "KEPT")} == {
        "GONE": None, "BACK": "1", "OWN": None, "KEPT": "x",
    }  # fmt: skip


def test_an_arm_with_a_checkout_runs_in_it_with_its_folders_on_pythonpath(tmp_path: Path) -> None:
    config = replace(CONFIG, source=SourceConfig(repo="/r", pythonpath=["src", "."]))

    launch = build_launch(replace(ARM, config=config), RUN_DIR, tmp_path, {"PYTHONPATH": "/own"})

    assert launch.cwd == tmp_path
    assert launch.env["PYTHONPATH"] == f"{tmp_path / 'src'}:{tmp_path}:/own"


def test_command_sh_repeats_the_run_with_awkward_values_intact_and_into_a_new_folder(tmp_path: Path) -> None:
    run_dir = tmp_path / "it's a run"
    run_dir.mkdir()
    (run_dir / "config.json").write_text("{}")
    code = (
        "import os, sys; print(os.environ['INTERLACE_X'], sys.argv[1:], os.getcwd(), os.environ['INTERLACE_RUN_DIR'])"
    )
    launch = replace(
        build_launch(ARM, run_dir, None, {}),
        argv=(sys.executable, "-c", code, "a b", "$HOME", "it's", f"--out={run_dir}/x y", ""),
        env={"INTERLACE_X": "x 'y' $z", "INTERLACE_RUN_DIR": str(run_dir)}, cwd=tmp_path, files={},
    )  # fmt: skip
    script = tmp_path / "command.sh"
    script.write_text(command_script(launch))

    ended = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True)

    new = ended.stderr.split("step logs go to ")[1].strip().removesuffix("/steps")
    words = ["a b", "$HOME", "it's", f"--out={new}/x y", ""]
    assert ended.stdout == f"x 'y' $z {words} {tmp_path} {new}\n"
    assert (Path(new) / "config.json").read_text() == "{}"


def test_command_sh_takes_away_what_the_run_did_not_have(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    launch = replace(
        build_launch(ARM, tmp_path, None, {}), argv=("env",), cwd=tmp_path, files={},
        env={"INTERLACE_RUN_DIR": str(tmp_path), "GONE": None, "KEPT": "1"},
    )  # fmt: skip
    script = tmp_path / "command.sh"
    script.write_text(command_script(launch))

    ended = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, check=True, env={**os.environ, "GONE": "x"}
    )

    assert "\nKEPT=1\n" in f"\n{ended.stdout}"
    assert "GONE=" not in ended.stdout


def test_a_worktree_is_named_only_where_there_is_one() -> None:
    config = replace(CONFIG, workload=replace(WORKLOAD, command="python {worktree}/train.py"))

    with pytest.raises(ConfigError, match=r"there is none; give source\.repo"):
        build_launch(replace(ARM, config=config), RUN_DIR, None, {})
