"""The start-up hook: ranks that the measured command starts by itself, with real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlace.launch.command import HOOK
from interlace.rank import numa
from tests.rank.test_wrapper import GPU_MAP, HERE, clean_env, needs_two_cpus, recorded, two_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

IDENTITY = {"RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"}
TELL = f"import os; os.environ.update({IDENTITY!r})\n"
"""How torch elastic tells a worker which rank it is: after the interpreter has started."""


def python(code: str, run_dir: Path | None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that finds the hook."""
    path = os.pathsep.join([str(HOOK), env.pop("PYTHONPATH", "")]).rstrip(os.pathsep)
    told = {"INTERLACE_RUN_DIR": str(run_dir)} if run_dir else {}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean_env(**told, **env, PYTHONPATH=path), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip


def names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "ranks").iterdir()) if (run_dir / "ranks").exists() else []


@pytest.mark.parametrize(("code", "env"), [(TELL, {}), ("", IDENTITY)], ids=["told later", "told at its start"])
def test_a_process_that_learns_its_rank_writes_down_where_it_runs(
    tmp_path: Path, code: str, env: Mapping[str, str]
) -> None:
    done = python(f"{code}\nimport os; print(os.getpid())", tmp_path, **env)

    facts = recorded(tmp_path, 1)
    assert facts["pid"] == int(done.stdout)
    assert (facts["rank"], facts["local_rank"], facts["world_size"]) == (1, 1, 2)
    assert facts["cpus_allowed"] == numa.format_cpulist(HERE)
    assert facts["executable"] == sys.executable


def test_a_process_without_a_rank_or_outside_a_run_is_left_alone(tmp_path: Path) -> None:
    assert python("import os; os.environ['RANK'] = '0'", tmp_path).stderr == ""
    assert python(TELL, None).stderr == ""
    assert names(tmp_path) == []


def test_the_children_of_a_rank_are_no_ranks(tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'], check=True); print(os.getpid())"

    done = python(f"{TELL}\n{child}", tmp_path)

    assert names(tmp_path) == ["rank-1.json"]
    assert recorded(tmp_path, 1)["pid"] == int(done.stdout)


def test_setting_variables_is_as_it_was_once_the_rank_is_known(tmp_path: Path) -> None:
    code = f"import os\nwatched = type(os.environ).__setitem__\n{TELL}print(watched is type(os.environ).__setitem__)"

    assert python(code, tmp_path).stdout == "False\n"


def test_the_rank_keeps_what_it_imports_itself_and_gains_nothing(tmp_path: Path) -> None:
    (tmp_path / "interlace").mkdir()
    (tmp_path / "interlace" / "__init__.py").write_text("mine = True\n")
    code = (
        f"import interlace, sys\npath = list(sys.path)\n{TELL}import interlace\nprint(interlace.mine, path == sys.path)"
    )
    code += "\nprint([name for name in sys.modules if name.startswith('interlace.')])"

    done = python(code, tmp_path, PYTHONPATH=str(tmp_path))

    assert done.stdout == "True True\n[]\n"
    assert names(tmp_path) == ["rank-1.json"]


def test_the_environments_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = 'ran'\n")

    done = python("import sys; print(sys.mine)", tmp_path, PYTHONPATH=str(tmp_path))

    assert done.stdout == "ran\n"


def test_trouble_of_the_hook_is_told_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = python(f"{TELL}print('ran')", tmp_path / "file")

    assert done.stdout == "ran\n"
    assert "interlace rank: note: cannot write" in done.stderr


@needs_two_cpus
def test_all_threads_of_the_rank_go_to_the_node_of_its_gpu_without_numactl(tmp_path: Path) -> None:
    """On a tree in place of /sys, so the hook's own function is called and not the hook."""
    sysfs = two_nodes(tmp_path / "sys", str(HERE[0]), str(HERE[1]))
    code = (
        "import os, threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        f"from interlace.rank.startup import join\njoin({str(sysfs)!r})\n"
        "print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')])"
    )
    env = {**IDENTITY, "INTERLACE_GPU_MAP": GPU_MAP, "INTERLACE_NUMA_MEMORY": "bind"}

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_env(**env, INTERLACE_RUN_DIR=str(tmp_path)), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == f"{[[HERE[1]]] * 2}\n"
    binding = recorded(tmp_path, 1)["binding"]
    assert (binding["how"], binding["numa_node"], binding["gpu"]["uuid"]) == ("sched_setaffinity", 1, "GPU-2")
    assert (binding["memory_asked"], binding["memory"]) == ("bind", "off")
    assert "numactl sets a policy before a program starts" in binding["memory_reason"]


ELASTIC = """
import os, sys
def work():
    return os.getpid()
if __name__ == "__main__":
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", max_restarts=0, rdzv_endpoint="localhost:0"
    )
    print(sorted(elastic_launch(config, work)().items()))
"""


@pytest.mark.slow
def test_ranks_that_a_program_starts_through_torch_elastic_are_bound_and_written_down(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ELASTIC)

    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env=clean_env(INTERLACE_RUN_DIR=str(tmp_path), PYTHONPATH=str(HOOK)), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip

    facts = [recorded(tmp_path, number) for number in (0, 1)]
    assert [(one["rank"], one["world_size"], one["launcher"]) for one in facts] == [
        (0, 2, "torchrun"),
        (1, 2, "torchrun"),
    ]
    assert done.stdout == f"{[(one['rank'], one['pid']) for one in facts]}\n"
