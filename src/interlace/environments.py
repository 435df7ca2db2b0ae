"""What is installed where an arm's ranks run (`workload.python`): asked of that interpreter, by metadata alone."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOLD = ("torch", "accelerate")
"""What a step time depends on most; the same as the report tells of Interlace's own environment."""

ASK = """
import json, platform, sys
from importlib import metadata
found = [("Python", platform.python_version())]
for name in sys.argv[1:]:
    try:
        found.append((name, metadata.version(name)))
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def versions(python: str, env: Mapping[str, str], packages: Sequence[str] = TOLD, timeout_s: float = 60.0) -> str:
    """Return `Python 3.12.1, torch 2.11.0 ...` of another interpreter, or why that is not known."""
    try:
        asked = subprocess.run(
            [python, "-c", ASK, *packages], env=dict(env), capture_output=True, text=True, check=True,
            timeout=timeout_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return ", ".join(f"{name} {version}" for name, version in json.loads(asked.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return f"an environment whose versions could not be asked for ({type(error).__name__})"
