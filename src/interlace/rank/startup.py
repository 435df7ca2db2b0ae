"""Binds a process that has started already and has just learnt its rank; for the hook in `hook/`.

Standard library only and light. What the wrapper does before a program starts is done here inside it: the CPUs of all
its threads are set, and no numactl is started, so a memory policy cannot be set and is said not to be.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from interlace.rank import numa
from interlace.rank.binding import Memory, bind, wanted_from
from interlace.rank.identity import identity
from interlace.rank.wrapper import record, with_cpu_warnings

if TYPE_CHECKING:
    from interlace.rank.binding import Outcome

NO_MEMORY = "the rank was bound by the start-up hook, and numactl sets a policy before a program starts"


def join(sysfs_root: str = numa.SYSFS) -> None:
    """Bind this process as `interlace rank` would, and write ranks/rank-N.json."""
    who = identity(os.environ)
    env = {**os.environ, "INTERLACE_NUMACTL": "off", "INTERLACE_NUMA_MEMORY": "off"}
    outcome = bind(who, env, sysfs_root)
    if outcome.how is not None:
        _all_threads()
    record(who, with_cpu_warnings(_without_memory(outcome), os.environ), sys.orig_argv, sys.executable)


def _all_threads() -> None:
    """Give the threads that libraries have started at their import the CPUs of the main thread."""
    cpus = os.sched_getaffinity(0)
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 (pathlib costs 10 ms)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), cpus)


def _without_memory(outcome: Outcome) -> Outcome:
    asked = wanted_from(os.environ).memory
    if asked == "off":
        return outcome
    return outcome._replace(wanted=outcome.wanted._replace(memory=asked), memory=Memory(reason=NO_MEMORY))
