"""The only module that starts numactl: to ask whether it may bind here, and what its refusals mean.

Standard library only, without `subprocess`: every rank that is bound imports this before it starts.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from interlace.rank.numa import Cpus, format_cpulist, parse_cpulist

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROBE_TIMEOUT_S = 5.0


class Refusal(NamedTuple):
    """What a message of numactl, libnuma or SLURM means, and the weaker way that may still work."""

    code: str
    retry: str | None
    fatal: bool
    message: str


# First match wins. Texts: numactl 2.0.x sources and manual, srun(1).
_REFUSALS = tuple(
    (re.compile(pattern, re.IGNORECASE), code, retry, fatal)
    for pattern, code, retry, fatal in (
        (r"no numa support|does not support numa policy", "no_numa", "unpinned", True),
        (
            # as shells, env, Python and the dynamic linker say it
            r"numactl\W{0,3}(command )?(not found|no such|permission|error|\S*libnuma)|(found|directory): \W?numactl",
            "numactl_missing",
            "sched_setaffinity",
            True,
        ),
        (r"cpu binding outside of job step|unable to satisfy cpu bind", "slurm_cpu_bind", None, True),
        (r"node \S+ not allowed|node \S+ is not allowed", "node_not_allowed", "intersect", True),
        (r"cpu argument \S+ (is )?(out of range|not allowed)", "bad_cpu", "intersect", True),
        (r"node argument \S+ (is )?out of range", "bad_node", "unpinned", True),
        (r"set_mempolicy: |setting (membind|[\w ]+(node|mask)): |mbind: ", "mempolicy_denied", "cpu_only", True),
        (r"setaffinity\S*( failed)?: |setaffinity\S* failed|pid \d+'s affinity", "affinity_rejected", "unpinned", True),
        (r"get_mempolicy: ", "mempolicy_query_denied", None, False),
        (r"<\S+> is invalid", "bad_node", "unpinned", True),
    )
)


def refusal(text: str) -> Refusal | None:
    """Recognise a refusal in what was printed on either stream; None where there is none known."""
    for pattern, code, retry, fatal in _REFUSALS:
        match = pattern.search(text)
        if match:
            start = text.rfind("\n", 0, match.start()) + 1
            return Refusal(code, retry, fatal, text[start:].partition("\n")[0].strip())
    return None


class Probe(NamedTuple):
    """What numactl did for a small program: nothing (`refused`), or the CPUs asked for and this memory policy."""

    refused: str | None = None
    policy: str | None = None


MEMORY_OPTIONS = {"preferred": "--preferred", "bind": "--membind"}
MEMORY_WORDS = {"preferred": ("prefer", "prefer (many)"), "bind": ("bind",)}
"""What the kernel calls these policies in /proc/PID/numa_maps (numa(7); newer libnuma asks for `many`)."""


def arguments(nodes: Sequence[int], policy: str | None = None, memory_nodes: Sequence[int] = ()) -> list[str]:
    """Return the command that binds to whole nodes, and memory by a policy; it stands before the program it starts."""
    cpu_part = [f"--cpunodebind={format_cpulist(nodes)}"] if nodes else []
    memory_part = [f"{MEMORY_OPTIONS[policy]}={format_cpulist(memory_nodes)}"] if policy else []
    return ["numactl", *cpu_part, *memory_part]


def why_not(nodes: Iterable[int], cpus: Cpus) -> str | None:
    """Try numactl once on a program that prints its own CPUs; None when they are exactly `cpus`."""
    return probe(tuple(nodes), cpus).refused


def probe(nodes: tuple[int, ...], cpus: Cpus, policy: str | None = None, memory_nodes: tuple[int, ...] = ()) -> Probe:
    """Try numactl on a program that prints what the kernel says of it: its CPUs, and its memory policy if one is asked.

    Without `nodes` the CPUs are left alone, so `cpus` is what this process has.
    """
    shown = ["/proc/self/status", *(["/proc/self/numa_maps"] if policy else [])]
    try:
        rc, text = _output([*arguments(nodes, policy, memory_nodes), "cat", *shown])
    except OSError as error:
        return Probe(f"numactl cannot be started ({error.strerror})")
    got = re.search(r"^Cpus_allowed_list:\s*(\S+)", text, re.MULTILINE)
    if got is None or (rc != 0 and policy is None):  # with a policy it may be `cat` that lacks numa_maps
        known = refusal(text)
        first = text.strip().partition("\n")[0] or f"exit code {rc}"
        return Probe(f"numactl refuses: {known.message if known else first}")
    if parse_cpulist(got[1]) != cpus:
        return Probe(f"numactl gives CPUs {got[1]} for node {format_cpulist(nodes)}, not {format_cpulist(cpus)}")
    return _with_policy(text, policy, memory_nodes) if policy else Probe()


def _with_policy(text: str, policy: str, nodes: tuple[int, ...]) -> Probe:
    """Compare the memory policy that the kernel reports, in the first line of numa_maps, with what was asked."""
    got = re.search(r"^[0-9a-f]{6,} ((?:prefer \(many\)|[a-z ]+?)(?:=[^: ]*)?(?::[\d,-]+)?)(?: |$)", text, re.MULTILINE)
    if got is None:
        return Probe("the kernel does not report memory policies")
    word, _, where = got[1].partition(":")
    if word.partition("=")[0] not in MEMORY_WORDS[policy] or where != format_cpulist(nodes):
        asked = f"{policy} on node {format_cpulist(nodes)}"
        return Probe(f"numactl gives the memory policy {got[1]}, not {asked}")
    return Probe(policy=got[1])


def _output(argv: list[str]) -> tuple[int, str]:
    """Run a small program to its end; returns its exit code and both its streams, mixed."""
    read_end, write_end = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_DUP2, write_end, 2)]
    try:
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        text = _read_until(read_end, time.monotonic() + PROBE_TIMEOUT_S)
        if text is None:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(read_end)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), f"no answer in {PROBE_TIMEOUT_S:g} s" if text is None else text


def _read_until(descriptor: int, deadline_s: float) -> str | None:
    """Read to the end; None when that has not come by the deadline."""
    parts: list[bytes] = []
    while select.select([descriptor], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
        part = os.read(descriptor, 65536)
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)
    return None
