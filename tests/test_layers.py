"""The direction of the data, held by reading the imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "interlace"

LAYERS = [
    {"errors", "wording"},
    {"settings"},
    {"schema"},
    {"files", "process", "typed", "order", "steplog", "stats", "trace"},
    {"monitor", "source", "history"},
    {"rank", "config", "sweepfile", "records", "lanes", "arms", "plan", "compare"},
    {"gate", "node", "launch", "slurm", "environments"},
    {"checkout", "working_tree", "doctor", "submission"},
    {"lane", "loaded", "placements"},
    {"analyse", "pool", "traced"},
    {"extend", "report"},
    {"cli"},
]
"""From the bottom up: a module imports from layers below its own, or from inside its own package."""

RANK_SIDE = {"recorder", "workloads"}
HEAVY = {"torch", "accelerate"}


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def level(module: str) -> int:
    return next(index for index, names in enumerate(LAYERS) if module in names)


FILES = sorted(path for path in SOURCE.rglob("*.py") if "_tree" not in path.parts)
ORCHESTRATOR = [p for p in FILES if module_of(p) not in RANK_SIDE | {"__init__", "__main__"}]


@pytest.mark.parametrize("path", ORCHESTRATOR, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down_only(path: Path) -> None:
    own = module_of(path)
    inside = {name.split(".")[1] for name in imports_of(path) if name.startswith("interlace.")}

    upward = {name for name in inside - {own, "__version__"} if name in known() and level(name) >= level(own)}

    assert upward <= EXCUSED.get(own, set()), f"{own} imports {upward}"


EXCUSED = {"loaded": {"analyse"}}
"""A notebook's `load(dir).analysis` is the one convenience that looks up, at call time."""


def known() -> set[str]:
    return {name for names in LAYERS for name in names}


def test_every_module_has_its_layer() -> None:
    assert {module_of(path) for path in ORCHESTRATOR} - known() == set()


@pytest.mark.parametrize("path", ORCHESTRATOR, ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_orchestrator_never_imports_torch(path: Path) -> None:
    assert {name.split(".")[0] for name in imports_of(path)} & HEAVY == set()


def test_only_one_module_and_the_plugin_know_hydra() -> None:
    users = {module_of(path) for path in FILES if {n.split(".")[0] for n in imports_of(path)} & {"hydra", "omegaconf"}}

    assert users == {"config"}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["report", "--help"], ["status", "--help"], ["resume", "--help"], ["doctor", "--help"], ["--version"]],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom interlace.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'hydra', 'omegaconf', 'torch', 'accelerate', 'pandas', 'numpy', 'scipy', 'submitit', 'rich'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )

    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)

    assert ended.stderr.strip() == "[]"
