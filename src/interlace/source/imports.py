"""The only place that proves which code an arm imports: its own interpreter is asked, the answer checked."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.errors import SourceError
from interlace.source.child import run_child
from interlace.source.git import without_git_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.source.child import Ended

PROOF_TIMEOUT_S = 300.0
"""Parent packages of a dotted name are imported, and some take a minute from a network folder."""

_MARK = "INTERLACE-IMPORT "
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_ENTRIES = (".", "src", "*", "src/*", "*/src", "*/*")

# The empty first entry of `python -c` is the working folder; a run's script does not get it, so it proves
# nothing. A spec is found without executing the module itself. Old syntax: the arm's Python is not ours.
_ASK = f"""
import json, sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
answer = {{}}
try:
    import importlib.util
    spec = importlib.util.find_spec(sys.argv[1])
    if spec is not None:
        answer["origin"] = spec.origin if spec.has_location else None
        answer["kind"] = spec.origin
        answer["folders"] = list(spec.submodule_search_locations or [])
    answer["found"] = spec is not None
except BaseException as error:
    answer["error"] = type(error).__name__ + ": " + str(error)
    answer["missing"] = getattr(error, "name", None) or ""
sys.stdout.write("\\n{_MARK}" + json.dumps(answer) + "\\n")
sys.stdout.flush()
"""


def pythonpath(worktree: Path, entries: Sequence[str], inherited: str | None) -> str:
    """Return the arm's PYTHONPATH: entries in the worktree (absolute ones as they are), then the inherited.

    Empty parts are dropped: to Python they mean the working folder. Raises `SourceError` for an entry that
    leads out of the worktree or holds a `:`.
    """
    parts = [_entry(worktree, entry) for entry in entries]
    parts += [part for part in (inherited or "").split(os.pathsep) if part]
    return os.pathsep.join(parts)


def prove_import(python: str, module: str, worktree: Path, env: Mapping[str, str], cwd: Path) -> str:
    """Return the file that the arm's interpreter imports `module` from; it lies in the worktree.

    The module itself is not executed, the packages around a dotted name are. A namespace package gives its
    first folder. Raises `SourceError` when it is missing or comes from elsewhere (case: an editable install).
    """
    if not _MODULE.fullmatch(module):
        raise SourceError(f"source.module={module} is not a module name; give one as in `import`: package.module")
    if not cwd.is_dir():
        raise SourceError(f"the folder to run in is not in the worktree: {cwd}; mend workload.cwd")
    answer = _ask(python, module, env, cwd)
    found = _location(answer)
    if found and _is_inside(found, worktree):
        return found
    raise SourceError(_refusal(python, module, worktree, answer, found))


def _entry(worktree: Path, entry: str) -> str:
    if os.pathsep in entry:
        raise SourceError(f"source.pythonpath entry {entry!r} holds a ':', which separates entries; make it a list")
    if Path(entry).is_absolute():
        return entry
    path = os.path.normpath(worktree / entry)
    if not Path(path).is_relative_to(worktree):
        raise SourceError(f"source.pythonpath entry {entry!r} leads out of the worktree; give a folder inside it")
    return path


def _ask(python: str, module: str, env: Mapping[str, str], cwd: Path) -> dict[str, Any]:
    # No byte code: a parent package may lie in the user's own repository, which stays as it is.
    asking = {**without_git_variables(env), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = run_child([python, "-c", _ASK, module], cwd=cwd, env=asking, timeout_s=PROOF_TIMEOUT_S)
    except OSError as error:
        raise SourceError(f"workload.python={python} cannot be started: {error}; give the path of a Python") from error
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    answers = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    if not answers:
        raise SourceError(f"{python} could not say where {module} comes from: {_how_it_ended(ended)}")
    answer: dict[str, Any] = json.loads(answers[-1])
    return answer


def _how_it_ended(ended: Ended) -> str:
    if ended.timed_out:
        return f"it did not end within {PROOF_TIMEOUT_S:g} s"
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"exit code {ended.returncode}, {' | '.join(lines[-3:]) or 'no output'}"


def _location(answer: Mapping[str, Any]) -> str:
    folders = answer.get("folders") or [""]
    return str(answer.get("origin") or folders[0])


def _is_inside(found: str, worktree: Path) -> bool:
    return Path(os.path.realpath(found)).is_relative_to(os.path.realpath(worktree))


def _refusal(python: str, module: str, worktree: Path, answer: Mapping[str, Any], found: str) -> str:
    entries = _entries_with(worktree, module)
    if "error" in answer and not _is_part(answer["missing"], module):
        return f"source.module={module}: importing the packages around it fails in {python}: {answer['error']}"
    if not entries:
        where = f"; {python} has {found}" if found else ""
        return (
            f"source.module={module} is not in the worktree {worktree}{where}; "
            "name a module that this commit has (or build it with source.setup)"
        )
    hint = f"set source.pythonpath=[{entries[0]}]"
    if not found:
        return f"source.module={module} is not found by {python} although {worktree} has it; {hint}"
    return (
        f"source.module={module} is imported from {found}, not from the worktree {worktree}: "
        f"an editable install or PYTHONPATH shadows the commit; {hint} or uninstall it from {python}"
    )


def _is_part(missing: str, module: str) -> bool:
    """Tell the module itself (or a package around it) from something that one of these packages imports."""
    return bool(missing) and f"{module}.".startswith(f"{missing}.")


def _entries_with(worktree: Path, module: str) -> list[str]:
    """Folders of the worktree that would make the module importable, the likeliest first."""
    relative = module.replace(".", "/")
    folders = [folder for pattern in _ENTRIES for folder in _matching(worktree, pattern)]
    holders = [f for f in folders if (f / relative).is_dir() or (f / f"{relative}.py").is_file()]
    return list(dict.fromkeys(str(folder.relative_to(worktree)) for folder in holders))


def _matching(worktree: Path, pattern: str) -> list[Path]:
    return [worktree] if pattern == "." else sorted(worktree.glob(pattern))
