"""Commits of the arms: resolved before anything runs, checked out and proven before the first run."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlace import source
from interlace.environments import versions
from interlace.errors import ConfigError, SourceError
from interlace.files import write_json
from interlace.launch import applied, arm_env
from interlace.schema import Axis
from interlace.wording import first_of, sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlace.schema import Arm, Sweep
    from interlace.settings import SweepConfig

SHOWN_SHA = 9
"""Characters of a commit that people read."""


def range_axis(config: SweepConfig) -> Axis | None:
    """Turn `commits=A..B` into an axis: A, the ladder's baseline, then every commit up to B."""
    if config.commits is None:
        return None
    if config.commit is not None:
        raise ConfigError("commit= and commits= are both given; one says single revisions, the other a range")
    commits = source.expand_range(_repo(config), config.commits)
    return Axis(
        "commit",
        tuple(f"commit={commit.sha}" for commit in commits),
        tuple(commit.sha[:SHOWN_SHA] for commit in commits),
    )


def _repo(config: SweepConfig) -> Path:
    if config.source.repo is None:
        raise ConfigError("commits are given but source.repo is not; say which repository: source.repo=PATH")
    return Path(config.source.repo).expanduser()


def resolve_commits(sweep: Sweep) -> Sweep:
    """Pin each arm's revision to its full SHA, and refuse what would measure something else than it says."""
    arms = tuple(_resolve(arm) for arm in sweep.arms)
    notes: list[str] = []
    for repo in sorted({arm.config.source.repo for arm in arms if arm.sha and arm.config.source.repo}):
        here = [arm for arm in arms if arm.config.source.repo == repo and arm.config.commit]
        trees = [arm for arm in arms if arm.config.source.repo == repo and not arm.config.commit]
        if not here or trees:  # with an arm that is the working tree, edits are measured and said
            continue
        commits = [source.resolve_commit(Path(repo).expanduser(), arm.sha or "") for arm in here]
        notes += source.refuse_dirty(Path(repo).expanduser(), commits, sweep.config.source.dirty)
    return replace(sweep, arms=arms, notes=(*sweep.notes, *notes))


def _resolve(arm: Arm) -> Arm:
    if arm.config.commit is None:
        return _working_tree(arm)
    commit = source.resolve_commit(_repo(arm.config), arm.config.commit)
    return replace(arm, sha=commit.sha, subject=commit.subject)


def _working_tree(arm: Arm) -> Arm:
    """Describe an arm without a commit: it is the repository's working tree, edits and all."""
    if arm.config.source.repo is None:
        return arm
    commit = source.resolve_commit(_repo(arm.config), "HEAD")
    changed = source.check_dirty(_repo(arm.config)).tracked
    edits = f" with {len(changed)} changed files" if changed else ""
    return replace(arm, sha=commit.sha, subject=f"the working tree at {commit.sha[:SHOWN_SHA]}{edits}")


@contextlib.contextmanager
def checked_out(sweep: Sweep, log_dir: Path, say: Callable[[str], None]) -> Iterator[dict[str, Path | None]]:
    """Make every arm runnable (worktree, set-up command, proof of import) and keep it so for the sweep's life.

    Gives arm slug -> checkout, None without a repository; sources.json in `log_dir` keeps them, the proofs and what
    set-up commands changed. Raises SourceError before anything is measured.
    """
    with contextlib.ExitStack() as held:
        for repo, cache in sorted({_shelf(arm) for arm in sweep.arms if arm.config.source.repo}, key=str):
            held.enter_context(source.hold_worktrees(repo, cache))
        notes = own_environments(sweep)
        trees = {arm.slug: _check_out(arm, log_dir, say, notes) for arm in sweep.arms if arm.measure}
        write_json(log_dir / "sources.json", {"trees": trees, "notes": notes})
        yield trees


def own_environments(sweep: Sweep) -> list[str]:
    """Say what is installed where ranks do not run under Interlace's own interpreter, once per environment."""
    told: list[tuple[str, str]] = []
    found: dict[str, str] = {}
    for arm in sweep.arms:
        if arm.measure and (python := arm.config.workload.python):
            if python not in found:
                env = applied(os.environ, arm_env(arm.config, None, os.environ))
                found[python] = versions(python, env)
            told.append((arm.name, found[python]))
    every = len(told) == sum(arm.measure for arm in sweep.arms)
    shared = sharing(told)
    if every and len(shared) == 1:
        return [f"ranks ran under {next(iter(shared))}"]
    return [f"ranks of {first_of(arms, len(arms))} ran under {text}" for text, arms in shared.items()]


def _shelf(arm: Arm) -> tuple[Path, Path | None]:
    cache = arm.config.source.cache_dir
    return _repo(arm.config), Path(cache).expanduser() if cache else None


def _check_out(arm: Arm, log_dir: Path, say: Callable[[str], None], notes: list[str]) -> Path | None:
    config = arm.config
    if config.source.repo is None:
        return None
    tree = _repo(config).resolve() if config.commit is None else _worktree(arm, log_dir, say, notes)
    if config.source.module:
        python = config.workload.python or sys.executable
        env = _environ(config, tree)
        found = source.prove_import(python, config.source.module, tree, env, tree)
        say(f"{arm.name} imports {config.source.module} from {found}")
        notes.append(f"{arm.name} imports {config.source.module} from {found}")
    return tree


def _worktree(arm: Arm, log_dir: Path, say: Callable[[str], None], notes: list[str]) -> Path:
    config = arm.config
    say(f"checking out {arm.name} ({(arm.sha or '')[:SHOWN_SHA]})")
    repo, cache = _shelf(arm)
    tree = source.add_worktree(repo, source.resolve_commit(repo, arm.sha or ""), cache, pointers=config.source.lfs)
    if config.source.setup:
        env = _environ(config, tree)
        log = log_dir / f"setup-{arm.slug}.log"
        changes = source.run_setup(tree, config.source.setup, env, config.source.setup_timeout_s, log)
        notes += [f"{arm.name}: {note}" for note in changes]
        for note in changes:
            say(f"note: {arm.name}: {note}")
    elif changes := source.changed_by_setup(tree):
        raise SourceError(
            f"the worktree of {arm.name} ({tree}) is not what was committed: {changes[0]}, in an earlier sweep; "
            "give the same source.setup, or remove it with: interlace clean --yes"
        )
    return tree


def _environ(config: SweepConfig, tree: Path) -> dict[str, str]:
    """Return the environment in which an arm is set up and proven: the one that its ranks will have."""
    clean = source.without_git_variables(os.environ)
    return applied(clean, arm_env(config, tree, clean))
