"""Argument lists and environments of a run, as pure functions: what is printed by `plan` is what runs."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.errors import ConfigError
from interlace.launch.nested import own_launcher
from interlace.source import pythonpath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlace.launch.rendezvous import Rendezvous
    from interlace.schema import Arm
    from interlace.settings import Environment, RanksConfig, SweepConfig, WorkloadConfig

WRAPPER = ("-P", "-m", "interlace.rank", "--")
"""Interlace's per-rank wrapper; -P keeps the current folder from shadowing the standard library."""

WORKTREE = "{worktree}"
"""What stands for an arm's checkout in commands, folders and variables."""
HOOK = Path(__file__).parents[1] / "rank" / "hook"
"""Folder of the start-up hook for ranks that do not go through the wrapper."""

SHELL_WORDS = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "&"})


@dataclass(frozen=True)
class Launch:
    """One run as a program: arguments, environment set by us (None: removed), working folder, files to write first.

    `log` is the file that the trainer writes its steps to, where the configuration names one.
    """

    argv: tuple[str, ...]
    env: Environment
    cwd: Path
    files: dict[str, str]
    log: Path | None = None
    at: Rendezvous | None = None


def build_launch(
    arm: Arm, run_dir: Path, worktree: Path | None, environ: Mapping[str, str], at: Rendezvous | None = None
) -> Launch:
    """Build one run of an arm. `environ` is the calling shell's; only what we set on top comes back in `env`.

    `at` says which node of several this is; None where the run has one node.
    """
    config = arm.config
    python = config.workload.python or sys.executable
    places = {"run_dir": str(run_dir)} | ({"worktree": str(worktree)} if worktree else {})
    own = {**config.workload.env, **config.env}
    filled = f"{config.workload.command} {config.workload.cwd} {config.measure.log} {own}"
    if worktree is None and WORKTREE in filled:
        raise ConfigError(f"{WORKTREE} stands for an arm's checkout, and there is none; give source.repo, or a path")
    _refuse_two_pinning_layers(config)
    command = rank_command(config.workload, python, places)
    _refuse_two_launchers(config, command)
    argv, files = STARTERS[config.ranks.kind](config.ranks, python, command, run_dir, at)
    cwd = Path(_fill(config.workload.cwd, places)) if config.workload.cwd else worktree or Path.cwd()
    log = cwd / _fill(config.measure.log, places) if config.measure.log else None
    caches = run_dir.parent.parent / "caches" / arm.slug
    env = {**_run_env(config, run_dir, caches), **_node_env(config.ranks, at), **arm_env(config, worktree, environ)}
    env |= {name: value and _fill(value, places) for name, value in own.items()}
    env["INTERLACE_OMP_BY"] = omp_threads_by(config, environ)
    if config.ranks.hook and config.ranks.nproc_per_node != 1:
        env["PYTHONPATH"] = _hooked(config.ranks, env.get("PYTHONPATH", environ.get("PYTHONPATH")))
    return Launch(argv, env, cwd, files, log, at)


def rank_command(workload: WorkloadConfig, python: str, places: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program of one rank. Raises ConfigError for shell syntax, which no shell would run here."""
    if workload.module is not None and workload.command is None:
        # Our own workloads do not look into the current folder; a module of the user's does, as with python -m.
        safe = ("-P",) if workload.module.startswith("interlace.") else ()
        return (python, *safe, "-m", workload.module)
    try:
        words = shlex.split(workload.command or "")
    except ValueError as error:
        raise ConfigError(f"workload.command={workload.command} cannot be split into words: {error}") from error
    if not words:
        raise ConfigError('workload.command is empty; give the training command, as in "python train.py"')
    if shell := sorted(SHELL_WORDS.intersection(words)):
        raise ConfigError(
            f"workload.command has the shell word '{shell[0]}', and no shell runs it; "
            "put it into a script, or write bash -c '...'"
        )
    words[0] = python if words[0] in ("python", "python3") else words[0]
    return tuple(_fill(word, places) for word in words)


def _fill(word: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _run_env(config: SweepConfig, run_dir: Path, caches: Path) -> dict[str, str]:
    """Return what ties a rank to its run. Compile caches are an arm's own: shared ones would make one arm warm."""
    return {
        "INTERLACE_RUN_DIR": str(run_dir),
        "INTERLACE_STEP_DIR": str(run_dir / "steps"),
        "INTERLACE_CONFIG": str(run_dir / "config.json"),
        "INTERLACE_NUMA_BIND": config.numa.bind,
        "INTERLACE_NUMA_SCOPE": config.numa.scope,
        "INTERLACE_NUMA_MEMORY": config.numa.memory,
        "INTERLACE_NPROC_PER_NODE": str(config.ranks.nproc_per_node),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }


def _node_env(ranks: RanksConfig, at: Rendezvous | None) -> dict[str, str]:
    """Return what tells the ranks on which of several nodes they are; launchers work out the rest themselves.

    Under `plain` the command runs once on each node and is told what it needs to start its own ranks there; a single
    process is a rank itself.
    """
    if at is None:
        return {}
    env = {"INTERLACE_NODE": at.name}
    if ranks.kind == "plain":
        env |= {"NNODES": str(at.nodes), "NODE_RANK": at.node, "MASTER_ADDR": at.address, "MASTER_PORT": at.port}
        if ranks.nproc_per_node == 1:
            env |= {"RANK": at.node, "WORLD_SIZE": str(at.nodes), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return env


def _hooked(ranks: RanksConfig, pythonpath: str | None) -> str:
    """Put the start-up hook in front of PYTHONPATH. Raises ConfigError where ranks go through the wrapper anyway."""
    if ranks.kind != "plain":
        raise ConfigError(
            f"ranks.hook=true with launchers={ranks.kind}: its ranks are bound by the wrapper; "
            "the hook is for launchers=plain and a command that starts several ranks by itself"
        )
    return os.pathsep.join([str(HOOK), *([pythonpath] if pythonpath else [])])


def arm_env(config: SweepConfig, worktree: Path | None, environ: Mapping[str, str]) -> Environment:
    """Return what an arm sets on top of the shell's environment: the same for its ranks, its set-up and its proof."""
    python = config.workload.python or sys.executable
    path = environ.get("PATH", os.defpath)
    ours = {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "CUDA_DEVICE_ORDER": environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        "PATH": os.pathsep.join([str(Path(python).parent), path]) if os.sep in python else path,
    }
    if threads := omp_threads(config.ranks, environ):
        ours["OMP_NUM_THREADS"] = threads
    if worktree is not None:
        ours["PYTHONPATH"] = pythonpath(worktree, config.source.pythonpath, environ.get("PYTHONPATH"))
    return {**ours, **config.workload.env, **config.env}


def applied(environ: Mapping[str, str], env: Environment) -> dict[str, str]:
    """Return the shell's environment with ours on top; what ours has as None is not in it."""
    return {name: value for name, value in {**environ, **env}.items() if value is not None}


def omp_threads(ranks: RanksConfig, environ: Mapping[str, str]) -> str | None:
    """Return OMP_NUM_THREADS to set: the configured one, the shell's, else the launchers' own silent 1."""
    if ranks.omp_num_threads is not None:
        return str(ranks.omp_num_threads)
    return environ.get("OMP_NUM_THREADS") or (None if ranks.kind == "plain" else "1")


def omp_threads_by(config: SweepConfig, environ: Mapping[str, str]) -> str:
    """Name what decided OMP_NUM_THREADS of the ranks, in the order in which arm_env lets one replace another."""
    if "OMP_NUM_THREADS" in config.env:
        return "env.OMP_NUM_THREADS"
    if "OMP_NUM_THREADS" in config.workload.env:
        return "workload.env.OMP_NUM_THREADS"
    if config.ranks.omp_num_threads is not None:
        return "ranks.omp_num_threads"
    return "the shell" if environ.get("OMP_NUM_THREADS") else f"the default of ranks={config.ranks.kind}"


def _refuse_two_pinning_layers(config: SweepConfig) -> None:
    """Raise ConfigError for a launcher's own binding beside ours: the ranks would run where neither meant."""
    if config.numa.bind == "off" or config.ranks.kind == "plain":  # plain has no launcher to give arguments to
        return
    for word in config.ranks.args:
        option = word.partition("=")[0].replace("_", "-")
        # Launchers take an option cut short, too; --no-... and values of other options do not match.
        if any(full.startswith(option) and len(option) >= PINNING_OPTION_MIN for full in PINNING_OPTIONS):
            raise ConfigError(
                f"ranks.args has {word}, by which the launcher binds the ranks, and numa.bind=auto binds them too; "
                "drop the argument, or set numa.bind=off"
            )


def _refuse_two_launchers(config: SweepConfig, command: tuple[str, ...]) -> None:
    """Raise ConfigError for a launcher inside ours: every rank would start a whole training, all of them at once."""
    ranks, times = config.ranks, config.ranks.nproc_per_node * config.launchers.nodes
    own = own_launcher(command) if ranks.kind != "plain" and times > 1 else None
    if own is not None:
        raise ConfigError(
            f"workload.command starts its ranks itself ({own}), and launchers={ranks.kind} would start it {times} "
            "times, each a training of its own; give launchers=plain and, as ranks.nproc_per_node, how many ranks it "
            f"starts, or leave {own} and its options out of the command"
        )


PINNING_OPTIONS = ("--numa-binding", "--enable-cpu-affinity")
PINNING_OPTION_MIN = len("--numa")

# ---------------------------------------------------------------- launchers


def _tool(python: str, script: str, module: str) -> tuple[str, ...]:
    """Return a launcher of the same environment as `python`.

    Its own script where there is one: with `python -m` a file of the current folder (a random.py, say) would
    shadow the standard library.
    """
    beside = Path(python).parent / script
    return (str(beside),) if os.sep in python and beside.is_file() else (python, "-m", module)


def _accelerate(
    ranks: RanksConfig, python: str, command: tuple[str, ...], run_dir: Path, at: Rendezvous | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """`accelerate launch`, with a configuration file of ours so that the user's default one cannot leak in.

    --multi_gpu is what starts several processes, also without GPUs (--cpu silently starts one); port 0 lets
    accelerate pick a free one, which the nodes of several could not know of each other.
    """
    nodes = at.nodes if at else 1
    world = ranks.nproc_per_node * nodes
    several = world > 1
    own = run_dir / "accelerate.yaml"
    kind = "MULTI_GPU" if several else "NO"
    text = (
        f"compute_environment: LOCAL_MACHINE\ndistributed_type: '{kind}'\nnum_machines: {nodes}\n"
        f"num_processes: {world}\nmixed_precision: '{ranks.mixed_precision}'\n"
    )
    explicit = [f"--num_machines={nodes}", f"--num_processes={world}"]
    if at is None:
        explicit += ["--main_process_port=0"]
    else:
        explicit += [f"--machine_rank={at.node}", f"--main_process_ip={at.address}", f"--main_process_port={at.port}"]
        explicit += ["--same_network", "--rdzv_backend=static"]
    if ranks.config_file is None:
        explicit += [f"--mixed_precision={ranks.mixed_precision}", "--dynamo_backend=no"]
        explicit += ["--multi_gpu"] if several else []
    argv = (
        *_tool(python, "accelerate", "accelerate.commands.accelerate_cli"), "launch",
        f"--config_file={ranks.config_file or own}", *explicit,
        *ranks.args, "--no_python", sys.executable, *WRAPPER, *command,
    )  # fmt: skip
    return argv, {} if ranks.config_file else {own.name: text}


def _torchrun(
    ranks: RanksConfig, python: str, command: tuple[str, ...], _run_dir: Path, at: Rendezvous | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """`torchrun --standalone` finds a free port itself; --master-port=0 would hang.

    Several nodes meet statically: c10d would number them in the order in which they come.
    """
    where = ("--standalone", "--nnodes=1") if at is None else (
        f"--nnodes={at.nodes}", f"--node-rank={at.node}", f"--master-addr={at.address}", f"--master-port={at.port}",
    )  # fmt: skip
    argv = (
        *_tool(python, "torchrun", "torch.distributed.run"), *where,
        f"--nproc-per-node={ranks.nproc_per_node}", *ranks.args, "--no-python",
        sys.executable, *WRAPPER, *command,
    )  # fmt: skip
    return argv, {}


def _plain(
    ranks: RanksConfig, _python: str, command: tuple[str, ...], _run_dir: Path, _at: Rendezvous | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command itself; as a single process it goes through the wrapper like any rank."""
    if ranks.nproc_per_node == 1:
        return (sys.executable, *WRAPPER, *command), {}
    return command, {}


STARTERS: dict[str, Callable[..., tuple[tuple[str, ...], dict[str, str]]]] = {
    "accelerate": _accelerate,
    "torchrun": _torchrun,
    "plain": _plain,
}
