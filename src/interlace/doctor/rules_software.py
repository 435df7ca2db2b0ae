"""What the facts say about versions: of Python, of what Interlace needs, of torch against the driver, of git."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.doctor.finding import Finding, ok, problem, warning
from interlace.doctor.versions import satisfies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import NodeFacts, Requirement, TorchSees

FOR_TRAINERS = ("torch", "accelerate")
"""Needed inside the ranks only: a workload may have its own environment (workload.python)."""

SHOWN = ("interlace", "torch", "accelerate", "hydra-core", "submitit")


def python(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether this Python is one that Interlace supports."""
    version, wanted = facts.software.python, facts.software.requires_python
    if wanted is not None and not satisfies(version, wanted):
        yield problem(
            "Python", f"{version}, and Interlace needs {wanted}", "make an environment with a Python in that range"
        )
    else:
        yield ok("Python", version)


def packages(facts: NodeFacts) -> Iterator[Finding]:
    """Say which packages are missing or outside the range that Interlace declares."""
    software = facts.software
    if not software.requirements:
        yield warning(
            "packages", "Interlace's own metadata is not found", "install it: `pip install -e .` in its checkout"
        )
        return
    wrong = [one for one in software.requirements if one.installed is None or not satisfies(one.installed, one.wanted)]
    for one in wrong:
        yield _wrong(one)
    versions = facts.node.versions
    good = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
    if not wrong:
        yield ok("packages", f"{good}; all {len(software.requirements)} as declared")


def _wrong(one: Requirement) -> Finding:
    what = f"{one.installed or 'missing'}, and Interlace declares {one.name}{one.wanted}"
    todo = f"`pip install '{one.name}{one.wanted}'`"
    if one.name in FOR_TRAINERS:
        return warning(one.name, what, f"{todo}: the quickstart needs it, and so does training from this environment")
    return problem(one.name, what, todo)


def torch(facts: NodeFacts) -> Iterator[Finding]:
    """Say what torch was built for, against the driver that is here; what it sees, where it was asked."""
    build, here = facts.software.torch, facts.node.gpus
    if build is not None:
        built = f"{build.version} built for {f'CUDA {build.cuda}' if build.cuda else 'the CPU alone'}"
        newest = facts.node.cuda_driver
        if here and build.cuda is None:
            yield warning(
                "torch build", f"{built}, on a node with GPUs", "install the build that fits the driver (pytorch.org)"
            )
        elif build.cuda is not None and newest is not None and _major(build.cuda) > _major(newest):
            yield warning(
                "torch build", f"{built}; the driver supports CUDA {newest}",
                "update the driver, install cuda-compat, or take a torch for an older CUDA; --torch asks torch itself",
            )  # fmt: skip
        else:
            yield ok("torch build", built)
    if facts.software.torch_sees is not None:
        yield _asked(facts.software.torch_sees, len(facts.placement.ranks))


def _asked(sees: TorchSees, visible: int) -> Finding:
    name = "torch asked"
    if sees.failure is not None:
        return problem(name, f"{sees.python}: {sees.failure}", "mend this environment until `import torch` works in it")
    gpus = "1 GPU" if sees.gpus == 1 else f"{sees.gpus} GPUs"
    what = f"{sees.version} sees {gpus} of {visible} visible; {f'NCCL {sees.nccl}' if sees.nccl else 'no NCCL'}"
    if (sees.gpus or 0) < visible:
        return problem(
            name, what, "see whether its CUDA fits the driver (nvidia-smi), and what `import torch` warns of"
        )
    if visible and sees.nccl is None:
        return warning(name, what, "install a torch with NCCL: ranks on GPUs cannot talk without it")
    return ok(name, what)


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def git(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether commits can be checked out."""
    if facts.software.git is None:
        yield warning("git", "not found, or it does not answer", "install git: commits are checked out with it")
    else:
        yield ok("git", facts.software.git)
