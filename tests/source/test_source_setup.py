from __future__ import annotations

import multiprocessing
import os
import time
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import add_worktree, resolve_commit, run_setup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


@pytest.fixture
def worktree(repo: Repo, cache: Path) -> Path:
    repo.commit("one", {"a.py": "a = 1\n"})
    return add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "sweep" / "setup.log"


def setup(worktree: Path, command: str, log: Path, timeout_s: float = 30.0) -> tuple[str, ...]:
    return run_setup(worktree, command, dict(os.environ), timeout_s, log)


def test_the_command_runs_in_the_worktree_with_its_output_in_the_log(worktree: Path, log: Path) -> None:
    assert setup(worktree, "pwd; echo to stderr >&2", log) == ()

    assert log.read_text() == f"$ pwd; echo to stderr >&2\n{worktree}\nto stderr\n"


def test_a_command_runs_once_per_commit_and_command(worktree: Path, log: Path) -> None:
    setup(worktree, "echo x >> count", log)
    setup(worktree, "echo x >> count", log)
    setup(worktree, "echo x  >> count", log)

    assert (worktree / "count").read_text() == "x\nx\n"


def test_another_python_needs_the_command_again(worktree: Path, log: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").symlink_to("/bin/true")
        env = {**os.environ, "PATH": f"{tmp_path / name}:{os.environ['PATH']}"}
        run_setup(worktree, "echo x >> count", env, 30.0, log)

    assert (worktree / "count").read_text() == "x\nx\n"


def test_the_stamp_keeps_the_tree_clean_and_goes_with_the_worktree(worktree: Path, log: Path, repo: Repo) -> None:
    setup(worktree, "true", log)

    assert repo.at(worktree).git("status", "--porcelain", "--ignored") == ""


def test_a_failure_shows_exit_code_last_lines_and_log(worktree: Path, log: Path) -> None:
    with pytest.raises(SourceError) as caught:
        setup(worktree, "for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 3", log)

    message = str(caught.value)
    assert "failed with exit code 3" in message
    assert "line 3 | line 4 | line 5 | line 6 | line 7" in message
    assert "line 2" not in message.partition("failed")[2]
    assert str(log) in message


def test_a_command_that_failed_runs_again(worktree: Path, log: Path) -> None:
    command = "echo x >> count; test $(wc -l < count) -ge 2"

    with pytest.raises(SourceError, match="exit code 1"):
        setup(worktree, command, log)
    setup(worktree, command, log)
    setup(worktree, command, log)

    assert (worktree / "count").read_text() == "x\nx\n"


@pytest.mark.parametrize("command", ["false\ntrue", "false | cat"])
def test_a_failure_in_the_middle_is_a_failure(worktree: Path, log: Path, command: str) -> None:
    with pytest.raises(SourceError, match="exit code 1"):
        setup(worktree, command, log)


def test_a_command_ended_by_a_signal_says_so(worktree: Path, log: Path) -> None:
    with pytest.raises(SourceError, match="failed with signal 9"):
        setup(worktree, "kill -9 $$", log)


def test_a_time_out_ends_the_whole_process_group(worktree: Path, log: Path) -> None:
    with pytest.raises(SourceError, match=r"did not end within 0\.5 s .* raise source\.setup_timeout_s"):
        setup(worktree, "sleep 300 & echo $! > pid; wait", log, timeout_s=0.5)

    pid = int((worktree / "pid").read_text())
    _wait_until(lambda: not _is_alive(pid))


def test_a_set_up_command_that_a_killed_sweep_left_running_is_ended_first(worktree: Path, log: Path) -> None:
    fork = multiprocessing.get_context("fork")
    sweep = fork.Process(target=setup, args=(worktree, "echo $$ > pid; sleep 300", log))
    sweep.start()
    _wait_until(lambda: (worktree / "pid").is_file() and (worktree / "pid").read_text() != "")
    pid = int((worktree / "pid").read_text())
    sweep.kill()
    sweep.join()
    assert _is_alive(pid)

    setup(worktree, "true", log)

    assert not _is_alive(pid)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123 (a test of /proc)
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_does_not_wait_for_input(worktree: Path, log: Path) -> None:
    setup(worktree, "cat; echo done", log)

    assert log.read_text().endswith("done\n")


def test_the_environment_is_the_arms_own_without_a_hooks_git_variables(worktree: Path, log: Path) -> None:
    env = {**os.environ, "ARM": "x", "GIT_DIR": "/nowhere"}

    run_setup(worktree, 'echo "$ARM"; git rev-parse --show-toplevel', env, 30.0, log)

    assert log.read_text().splitlines()[1:] == ["x", str(worktree)]


def test_tracked_files_that_the_command_changes_are_noted_and_accepted(
    worktree: Path, log: Path, repo: Repo, cache: Path
) -> None:
    notes = setup(worktree, "echo '# generated' >> a.py", log)

    assert notes == ("set-up commands changed files that the commit tracks: a.py",)
    assert add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache) == worktree
    (worktree / "a.py").write_text("edited by hand\n")
    with pytest.raises(SourceError, match=r"were changed: a\.py"):
        add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache)


def test_a_worktree_whose_set_up_was_cut_short_is_made_again(
    worktree: Path, log: Path, repo: Repo, cache: Path
) -> None:
    with pytest.raises(SourceError, match="exit code 1"):
        setup(worktree, "echo half >> a.py; touch half; false", log)

    assert add_worktree(repo.path, resolve_commit(repo.path, "HEAD"), cache) == worktree
    assert (worktree / "a.py").read_text() == "a = 1\n"
    assert not (worktree / "half").exists()


def test_a_shell_is_found_without_bash(worktree: Path, log: Path, tmp_path: Path) -> None:
    run_setup(worktree, "echo $0", {"PATH": str(tmp_path)}, 30.0, log)

    assert log.read_text().endswith("/bin/sh\n")
