"""How often the kernel of this node has ended a process for want of memory. Reads only, and without any right."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def kernel_oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Return the count since boot, kills by the limit of a container or a job included; 0 where it is not told.

    `oom_kill` of /proc/vmstat (Linux 4.13): the whole node's, also inside of a container.
    """
    with contextlib.suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", vmstat.read_text(), re.MULTILINE):
            return int(found[1])
    return 0
