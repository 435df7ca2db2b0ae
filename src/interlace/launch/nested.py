"""Whether a command starts ranks by a launcher of its own; under ours, each rank would be a whole training. Pure."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = frozenset(
    {
        "torchrun",
        "accelerate-launch",
        "deepspeed",
        "horovodrun",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "srun",
    }
)
MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
WITH_LAUNCH = frozenset({"accelerate", "accelerate.commands.accelerate_cli"})
"""These start ranks only as `accelerate launch`."""

IN_FRONT = frozenset(
    {"chrt", "conda", "env", "exec", "ionice", "nice", "nohup", "numactl", "poetry", "run", "setsid", "stdbuf"}
    | {"taskset", "time", "timeout", "uv"}
)
"""These start the program behind them."""

SHELLS = frozenset({"bash", "dash", "sh", "zsh"})

_PYTHON = re.compile(r"python[\d.]*$")
_NO_PROGRAM = re.compile(r"-|\w+=|[\d.,:-]+[smhd]?$")
"""What stands between these and that program: options, assignments, numbers."""


def own_launcher(words: Sequence[str]) -> str | None:
    """Return the launcher that these words start, as they name it; None where they start none that can be seen.

    Only what stands where a program does counts: a script, an argument, a folder of such a name does not.
    """
    for place, word in enumerate(words):
        name, rest = PurePath(word).name, words[place + 1 :]
        if _PYTHON.match(name):
            return _under_python(rest)
        if name in SHELLS:
            return _in_shell(rest)
        if found := _launcher(name, PROGRAMS, rest):
            return found
        if name not in IN_FRONT and not _NO_PROGRAM.match(word):
            return None
    return None


def _launcher(name: str, known: frozenset[str], rest: Sequence[str]) -> str | None:
    if name in WITH_LAUNCH and list(rest[:1]) == ["launch"]:
        return f"{name} launch"
    return name if name in known else None


def _under_python(words: Sequence[str]) -> str | None:
    """Look at what an interpreter is to run: a module, or a launcher's own script by its path."""
    for place, word in enumerate(words):
        before, rest = words[place - 1] if place else "", words[place + 1 :]
        if before == "-m":
            return _launcher(word, MODULES, rest)
        if not word.startswith("-") and before not in ("-X", "-W"):
            return _launcher(PurePath(word).name, PROGRAMS, rest) if "/" in word else None
    return None


def _in_shell(words: Sequence[str]) -> str | None:
    """Look into the text of `bash -c`, command by command; a script of the user's is not opened."""
    text = next((words[at + 1] for at, word in enumerate(words[:-1]) if re.match(r"-\w*c$", word)), "")
    for command in re.split(r"[;|&\n]+", text):
        try:
            found = own_launcher(shlex.split(command))
        except ValueError:  # a quote that was cut in two
            continue
        if found:
            return found
    return None
