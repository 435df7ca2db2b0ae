"""Start-up hook for ranks that the measured command starts by itself (`ranks.hook=true`).

Python imports a `sitecustomize` from PYTHONPATH in every process as it starts. This one waits until the process has
been told which rank it is, which may be later than its start (torch elastic tells its workers by setting os.environ),
has it bound and written down as `interlace rank` would, and takes itself away. Processes without a rank, and the
children of ranks, are left alone. Interlace need not be installed in the environment of the command: it is
imported from where this file lies, and its names are removed again. Nothing here can fail the process.
"""

# ruff: noqa: INP001 (a folder on PYTHONPATH is no package)
from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (as in the wrapper: every process pays)
RANK_NAMES = ("LOCAL_RANK", "RANK", "WORLD_SIZE")
BOUND = "INTERLACE_BOUND"


def _next_sitecustomize() -> None:
    """Run the environment's own sitecustomize, which this one stands in front of."""
    others = [path for path in sys.path if os.path.abspath(path) != HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _wait_for_rank() -> None:
    if BOUND in os.environ or "INTERLACE_RUN_DIR" not in os.environ:
        return
    if _known():
        _join()
        return
    environ = type(os.environ)
    set_item = environ.__setitem__

    def watched(self: os._Environ[str], key: str, value: str) -> None:
        set_item(self, key, value)
        if key in RANK_NAMES and _known() and environ.__setitem__ is watched:
            environ.__setitem__ = set_item  # type: ignore[method-assign]
            _join()

    environ.__setitem__ = watched  # type: ignore[method-assign]


def _known() -> bool:
    return all(name in os.environ for name in RANK_NAMES)


def _join() -> None:
    """Bind this rank with Interlace's own code, whatever `interlace` the process itself imports."""
    os.environ[BOUND] = str(os.getpid())
    theirs = {name: sys.modules.pop(name) for name in list(sys.modules) if _ours(name)}
    try:
        package = os.path.dirname(os.path.dirname(HERE))  # noqa: PTH120
        spec = importlib.util.spec_from_file_location(
            "interlace", f"{package}/__init__.py", submodule_search_locations=[package]
        )
        if spec is not None:  # it never is for a path that ends in .py
            sys.modules["interlace"] = importlib.util.module_from_spec(spec)
        from interlace.rank.startup import join  # noqa: PLC0415 (only now is it to be found)

        join()
    except Exception as error:  # noqa: BLE001 (a run must never fail because of its binding)
        print(f"interlace rank: unpinned: start-up hook: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
    finally:
        for name in [name for name in sys.modules if _ours(name)]:
            del sys.modules[name]
        sys.modules.update(theirs)


def _ours(name: str) -> bool:
    return name == "interlace" or name.startswith("interlace.")


_wait_for_rank()
_next_sitecustomize()
