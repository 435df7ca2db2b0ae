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
    from collections.abc import Iterable

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
        (r"no numa support", "no_numa", "unpinned", True),
        (
            r"numactl: (command )?not found|numactl: no such file",
            "numactl_missing",
            "sched_setaffinity",
            True,
        ),
        (r"cpu binding outside of job step", "slurm_cpu_bind", None, True),
        (r"node \S+ not allowed|node \S+ is not allowed", "node_not_allowed", "intersect", True),
        (r"cpu argument \S+ (is )?(out of range|not allowed)", "bad_cpu", "intersect", True),
        (r"node argument \S+ (is )?out of range", "bad_node", "unpinned", True),
        (r"set_mempolicy: |setting membind: |mbind: ", "mempolicy_denied", "cpu_only", True),
        (r"sched_setaffinity\S*( failed)?: |setaffinity\S* failed", "affinity_rejected", "unpinned", True),
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


def arguments(nodes: Iterable[int]) -> list[str]:
    """Return the command that binds to whole nodes; it stands before the program it starts."""
    return ["numactl", f"--cpunodebind={format_cpulist(nodes)}"]


def why_not(nodes: Iterable[int], cpus: Cpus) -> str | None:
    """Try numactl once on a program that prints its own CPUs; None when they are exactly `cpus`."""
    nodes = tuple(nodes)
    try:
        rc, text = _output([*arguments(nodes), "cat", "/proc/self/status"])
    except OSError as error:
        return f"numactl cannot be started ({error.strerror})"
    got = re.search(r"^Cpus_allowed_list:\s*(\S+)", text, re.MULTILINE)
    if rc != 0 or got is None:
        known = refusal(text)
        first = text.strip().partition("\n")[0] or f"exit code {rc}"
        return f"numactl refuses: {known.message if known else first}"
    if parse_cpulist(got[1]) != cpus:
        return f"numactl gives CPUs {got[1]} for node {format_cpulist(nodes)}, not {format_cpulist(cpus)}"
    return None


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
