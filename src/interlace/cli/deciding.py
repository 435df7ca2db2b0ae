"""From a request to a decided sweep: arms composed, paths made absolute, commits pinned, mistakes told.

Runs nothing and writes nothing. Whatever can be known to be wrong before the first run is refused here.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace.arms import build_sweep
from interlace.checkout import range_axis, resolve_commits
from interlace.errors import ConfigError, UsageError
from interlace.launch import WORKTREE, build_launch
from interlace.slurm.environment import inside_job, on_node_of_job, refuse_layout, refuse_several_tasks
from interlace.slurm.steps import nodes_of, other_nodes
from interlace.steplog import Tail
from interlace.working_tree import refuse_working_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.schema import Arm, Request, Sweep
    from interlace.settings import SweepConfig


def decide(request: Request) -> Sweep:
    """Compose the arms and pin their commits. Raises ConfigError or SourceError for what cannot be measured."""
    sweep = build_sweep(request, lambda config: range_axis(absolute(config)))
    arms = tuple(replace(arm, config=absolute(arm.config)) for arm in sweep.arms)
    command = shlex.join(["interlace", *sys.argv[1:]])
    sweep = resolve_commits(replace(sweep, arms=arms, config=absolute(sweep.config), command=command))
    _check_launchers(sweep.config)
    for arm in sweep.arms:
        _check(arm)
    told = (*_allocation(sweep.config), *_time_of_job(sweep.config), *_twins(sweep), *_rounds_hints(sweep.config))
    return replace(sweep, notes=(*sweep.notes, *told))


def absolute(config: SweepConfig) -> SweepConfig:
    """Make every path absolute, once: a sweep may be resumed from another folder."""
    workload, source = config.workload, config.source
    here = None if source.repo else str(Path.cwd())
    cwd = workload.cwd if workload.cwd and workload.cwd.startswith(WORKTREE) else _full(workload.cwd) or here
    return replace(
        config,
        output_dir=_full(config.output_dir) or config.output_dir,
        workload=replace(workload, cwd=cwd, python=_full_program(workload.python)),
        source=replace(source, repo=_full(source.repo), cache_dir=_full(source.cache_dir)),
        ranks=replace(config.ranks, config_file=_full(config.ranks.config_file)),
    )


def _full(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _full_program(program: str | None) -> str | None:
    """Make a path to a program absolute; a bare name is looked up on PATH by whoever starts it, as in a shell."""
    if program is None or (os.sep not in program and not program.startswith("~")):
        return program
    found = _full(program)
    if found is None or not os.access(found, os.X_OK):
        raise ConfigError(f"workload.python={program}: there is no such program ({found})")
    if Path(found).is_dir():
        raise ConfigError(f"workload.python={program} is a folder; give the program in it, as in {program}/bin/python")
    return found


def _check(arm: Arm) -> None:
    """Refuse an unknown reader, a pattern that is none, and a command that cannot be built."""
    measure = arm.config.measure
    Tail(Path(), measure.reader, measure.pattern, measure.unit)
    build_launch(arm, Path("runs") / arm.slug, Path("worktree") if arm.config.source.repo else None, os.environ)
    cwd = arm.config.workload.cwd
    if cwd is not None and not cwd.startswith(WORKTREE) and not Path(cwd).is_dir():
        raise ConfigError(f"workload.cwd={cwd}: there is no such folder")
    refuse_working_tree(arm)


def _check_launchers(config: SweepConfig) -> None:
    """Refuse what would be asked for and silently not be had."""
    launchers = config.launchers
    if launchers.slurm_srun_args and launchers.nodes == 1:
        raise ConfigError(
            f"launchers.slurm_srun_args={launchers.slurm_srun_args}: nothing is started by srun in a lane of one node; "
            "they are for launchers.nodes=2 and more (options of sbatch: launchers.slurm_additional_parameters)"
        )
    if launchers.nodes > 1 and launchers.kind == "local" and inside_job(os.environ) is None:
        raise ConfigError(
            f"launchers.nodes={launchers.nodes} is for launchers=slurm, or for a job of so many nodes that you hold: "
            "this machine is one node"
        )


def _allocation(config: SweepConfig) -> list[str]:
    """Say that an allocation which this shell holds is the lane; refuse to measure a login node beside it."""
    job = inside_job(os.environ)
    if job is None or config.launchers.kind != "local":
        return []
    if not on_node_of_job(os.environ, platform.node()):
        raise UsageError(
            f"this shell holds SLURM job {job}, but is not on a node of it: this machine ({platform.node()}) would be "
            "measured; start it there (srun --nodes=1 --ntasks=1 --cpus-per-task=N --pty interlace sweep ...), or "
            "give launchers=slurm"
        )
    ranks, nodes = config.ranks, config.launchers.nodes
    why = refuse_several_tasks(os.environ)
    if nodes == 1:
        why = why or refuse_layout(os.environ, ranks.kind, ranks.nproc_per_node)
    if why:
        raise UsageError(why)
    if nodes > 1:
        other_nodes(os.environ, nodes)  # refuses more than there are
    return [f"measured inside SLURM job {job}, which is the lane{_idle_nodes(nodes_of(os.environ), nodes)}"]


def _idle_nodes(names: Sequence[str], used: int) -> str:
    """Say how many nodes of an allocation are left idle, and how they would be used."""
    if len(names) <= used:
        return ""
    return f": {used} of its {len(names)} nodes (launchers.nodes={len(names)} trains over all of them)"


def _time_of_job(config: SweepConfig) -> list[str]:
    """Say where a job would be warned of its end at its start: no run could be finished in it."""
    launchers = config.launchers
    if launchers.kind != "slurm" or launchers.timeout_min * 60 > launchers.slurm_signal_delay_s + 60:
        return []
    warned = f"SLURM warns a lane launchers.slurm_signal_delay_s={launchers.slurm_signal_delay_s} before its end"
    return [f"launchers.timeout_min={launchers.timeout_min} is too short: {warned}, and up to a minute earlier"]


def _rounds_hints(config: SweepConfig) -> list[str]:
    """Say what another number of rounds would do better (methodology 4.1)."""
    if config.order == "mirrored" and config.rounds > 1 and config.rounds % 2:
        return [f"rounds={config.rounds} is odd: an even number takes the whole of a steady drift out of the ratios"]
    if config.order == "random" and config.rounds < FEWEST_RANDOM:
        return [f"order=random with rounds={config.rounds}: under {FEWEST_RANDOM} rounds, mirrored balances better"]
    return []


FEWEST_RANDOM = 6


def _twins(sweep: Sweep) -> list[str]:
    """Say which arms are the same in all that is measured: meant as a check of the harness, or a mistake."""
    seen: dict[object, str] = {}
    notes = []
    for arm in (arm for arm in sweep.arms if arm.measure):
        same = (arm.sha, repr(replace(arm.config, commit=None)))
        if same in seen:
            notes.append(f"{arm.name} is the same as {seen[same]} in all that is measured (an A/A pair)")
        seen.setdefault(same, arm.name)
    return notes
