"""From facts to findings: the list of all topics, in the order of the screen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from interlace.doctor import rules_cpu, rules_gpu, rules_memory, rules_placement, rules_software, rules_surroundings
from interlace.doctor.facts import NodeFacts
from interlace.doctor.finding import Finding, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

Rule = Callable[[NodeFacts], Iterator[Finding]]

TOPICS: dict[str, Sequence[Rule]] = {
    "GPUs": (rules_gpu.gpus,),
    "placement": (rules_placement.numa_map, rules_placement.binding, rules_placement.allowed_cpus),
    "CPUs": (rules_cpu.load, rules_cpu.speed, rules_cpu.clock),
    "memory and disk": (
        rules_memory.memory,
        rules_memory.shared_memory,
        rules_memory.limits,
        rules_memory.output,
    ),
    "software": (rules_software.python, rules_software.packages, rules_software.torch, rules_software.git),
    "surroundings": (
        rules_surroundings.slurm,
        rules_surroundings.container,
        rules_surroundings.environment,
    ),
}


def examine(facts: NodeFacts) -> tuple[Section, ...]:
    """Return what every rule says about a node."""
    return tuple(
        Section(title, tuple(finding for rule in rules for finding in rule(facts))) for title, rules in TOPICS.items()
    )
