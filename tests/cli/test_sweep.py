"""The commands as a user types them, on a trainer without torch under the plain launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from interlace import process
from interlace.cli import main
from tests.conftest import interlace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("clean_env")]

QUICK = [
    "launchers=plain",
    "gate=off",
    "measure.window=[2,6]",
    "workload.steps=6",
    "burn_in=false",
    "rounds=2",
]


def git(repo: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    ended = subprocess.run(["git", *identity, *arguments], cwd=repo, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits of a trainer: 40 ms a step, 20 ms a step, and a change of a comment."""
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    trainer = (
        "import time\nfrom interlace.recorder import StepRecorder\nimport speed\n"
        "with StepRecorder() as recorder:\n    for _ in range(6):\n        time.sleep(speed.STEP_S)\n"
        "        recorder.step()\n"
    )
    (folder / "train.py").write_text(trainer)
    for message, text in (
        ("slow", "STEP_S = 0.04\n"),
        ("fast", "STEP_S = 0.02\n"),
        ("comment", "STEP_S = 0.02  #\n"),
    ):
        (folder / "src" / "speed.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", message)
    return folder


def swept(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return interlace("sweep", "workload=command", *QUICK, *arguments, cwd=tmp_path)


def folder_of(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "outputs" / "command").iterdir()
    return path


def commits(tmp_path: Path, repo: Path) -> list[str]:
    return [
        "workload.command=python train.py", f"source.repo={repo}", "source.pythonpath=[src]",
        "source.module=speed", f"source.cache_dir={tmp_path / 'cache'}",
    ]  # fmt: skip


@pytest.mark.slow
def test_commits_of_a_repository_are_measured_each_from_its_own_checkout(tmp_path: Path, repo: Path) -> None:
    before = (
        git(repo, "status", "--porcelain=v2", "--branch"),
        git(repo, "stash", "list"),
        git(repo, "branch", "-a"),
    )

    ended = swept(tmp_path, *commits(tmp_path, repo), "commit=HEAD~2,HEAD")

    assert ended.returncode == 0, ended.stderr
    report = json.loads((folder_of(tmp_path) / "report.json").read_text())
    baseline, candidate = report["arms"]
    assert (baseline["name"], baseline["subject"]) == ("HEAD~2", "slow")
    assert (candidate["name"], candidate["subject"]) == ("HEAD", "comment")
    assert candidate["comparison"]["verdict"] == "faster"
    assert 0.4 < candidate["comparison"]["ratio"] < 0.7
    assert "imports speed from" in ended.stderr
    after = (
        git(repo, "status", "--porcelain=v2", "--branch"),
        git(repo, "stash", "list"),
        git(repo, "branch", "-a"),
    )
    assert after == before


def test_a_range_is_a_ladder_with_its_start_as_the_baseline(tmp_path: Path, repo: Path) -> None:
    ended = interlace(
        "plan", "workload=command", *QUICK, *commits(tmp_path, repo), "commits=HEAD~2..HEAD", cwd=tmp_path
    )

    assert ended.returncode == 0, ended.stderr
    rows = [line.split() for line in ended.stdout.splitlines()[1:4]]
    assert [row[-1] for row in rows] == ["slow", "fast", "comment"]
    assert "(baseline)" in ended.stdout.splitlines()[1]
    assert not (tmp_path / "outputs").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["workload.cwd={repo}"], "runs train.py in workload.cwd={repo}, a file of the working tree of source.repo"),
        (["workload.command=python {repo}/train.py"], "give {{worktree}}/train.py, or its path from the top"),
        (["workload.command=python {link}/train.py"], "give {{worktree}}/train.py, or its path from the top"),
        (["workload.command=python -m train", "workload.cwd={repo}"], "runs train.py in workload.cwd={repo}"),
    ],
)
def test_commits_are_not_measured_from_the_working_tree(
    tmp_path: Path, repo: Path, more: list[str], message: str
) -> None:
    link = tmp_path / "link"
    link.symlink_to(repo)
    more = [argument.format(repo=repo, link=link) for argument in more]

    ended = interlace("sweep", "workload=command", *commits(tmp_path, repo), "commit=HEAD~2,HEAD", *more, cwd=tmp_path)

    assert ended.returncode == 2
    assert message.format(repo=repo) in ended.stderr
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    "more",
    [
        ["workload.command=python {{worktree}}/train.py", "workload.cwd={repo}/src"],
        ["workload.command=python {repo}/harness.py"],
    ],
)
def test_what_no_commit_has_may_lie_in_the_working_tree(tmp_path: Path, repo: Path, more: list[str]) -> None:
    (repo / "harness.py").write_text("")
    more = [argument.format(repo=repo) for argument in more]

    ended = interlace("plan", "workload=command", *commits(tmp_path, repo), "commit=HEAD~2,HEAD", *more, cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_a_command_runs_in_a_folder_of_each_checkout(tmp_path: Path, repo: Path) -> None:
    command = ["workload.command=python ../train.py", "workload.cwd={worktree}/src"]

    ended = swept(tmp_path, *commits(tmp_path, repo), "commit=HEAD~2,HEAD", *command)

    assert ended.returncode == 0, ended.stderr
    scripts = sorted(folder_of(tmp_path).glob("runs/*/command.sh"))
    folders = {line for path in scripts for line in path.read_text().splitlines() if line.startswith("cd ")}
    assert len(folders) == 2
    assert all(folder.endswith("/src") and str(tmp_path / "cache") in folder for folder in folders)


@pytest.mark.slow
def test_named_arms_with_settings_environment_and_commits_are_mixed_in_a_file(tmp_path: Path, repo: Path) -> None:
    sweeps = tmp_path / "mine" / "sweeps"
    sweeps.mkdir(parents=True)
    (sweeps / "ladder.yaml").write_text(
        "# @package _global_\nname: ladder\ncumulative: true\narms:\n"
        "  - {name: main, commit: HEAD~2}\n  - {name: fast, commit: HEAD}\n"
        "  - {name: threads, set: [ranks.omp_num_threads=3], env: {MARK: 'on', N: 7}}\n"
    )
    ended = interlace(
        "sweep", "--config-dir", str(tmp_path / "mine"), "sweeps=ladder", "workload=command", *QUICK,
        *commits(tmp_path, repo), cwd=tmp_path,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    (sweep,) = (tmp_path / "outputs" / "ladder").iterdir()
    (run,) = (sweep / "runs").glob("*-r1-threads")
    env = json.loads((run / "env.json").read_text())
    assert (env["MARK"], env["N"], env["OMP_NUM_THREADS"]) == ("on", "7", "3")
    assert str(tmp_path / "cache") in env["PYTHONPATH"]


@pytest.mark.slow
def test_a_screen_ranks_its_candidates_and_goes_on_past_a_failed_one(tmp_path: Path, trainer: Path) -> None:
    commands = ",".join(f"'python {trainer} {rest}'" for rest in ("6 0.03", "6 0.06", "oops", "6 0.02"))
    screened = ["workload=command", *QUICK[:-1], "sweeps=screen", f"workload.command={commands}"]

    ended = interlace("sweep", *screened, cwd=tmp_path)

    assert ended.returncode == 1, ended.stderr
    (sweep,) = (tmp_path / "outputs" / "screen").iterdir()
    report = json.loads((sweep / "report.json").read_text())
    names = [arm["name"].removeprefix(f"command=python {trainer} ") for arm in report["arms"]]
    assert names == ["6 0.03", "6 0.02", "6 0.06", "oops"]
    assert [arm["runs"] for arm in report["arms"]] == [3, 1, 1, 0]
    assert "rank 1 of 2 in a screen" in report["arms"][1]["comparison"]["sentence"]
    assert "the baseline's own runs took" in ended.stdout


@pytest.mark.slow
def test_a_failed_arm_is_told_at_the_end_and_by_the_exit_code(tmp_path: Path, trainer: Path) -> None:
    ended = swept(tmp_path, f"workload.command='python {trainer} 6 0.01','python {trainer} oops'")

    assert ended.returncode == 1
    assert "ValueError" in ended.stdout
    assert "not judged" in ended.stdout


@pytest.mark.slow
def test_a_sweep_killed_at_any_moment_is_resumed_without_repeating_what_was_finished(
    tmp_path: Path, trainer: Path
) -> None:
    argv = [sys.executable, "-m", "interlace", "sweep", "workload=command", *QUICK]
    argv += [f"workload.command=python {trainer} 6 0.1", "env.A=1,2"]
    orchestrator = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("outputs/*/*/runs/*/started.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    orchestrator.send_signal(signal.SIGKILL)
    orchestrator.wait()
    sweep = folder_of(tmp_path)
    first = next((sweep / "runs").glob("000-*/record.json")).read_bytes()
    stopped = interlace("status", str(sweep), "--json", cwd=tmp_path)
    assert json.loads(stopped.stdout)["state"] == "stopped"

    ended = interlace("resume", str(sweep), cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert "was cut; it is measured again" in ended.stderr
    assert next((sweep / "runs").glob("000-*/record.json")).read_bytes() == first
    assert sorted(path.name for path in (sweep / "runs").glob("*.2")) == [next((sweep / "runs").glob("001-*.2")).name]
    assert [arm["runs"] for arm in json.loads((sweep / "report.json").read_text())["arms"]] == [2, 2]
    again = interlace("status", str(sweep), "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["state"] == "finished"


@pytest.mark.slow
def test_ctrl_c_ends_the_running_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "interlace", "sweep", "workload=command", *QUICK]
    argv += ["workload.command=sleep 60", "+env.A=1,2"]
    orchestrator = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("outputs/*/*/runs/*/started.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)

    orchestrator.send_signal(signal.SIGINT)
    stdout, stderr = orchestrator.communicate(timeout=60)

    assert orchestrator.returncode == 130
    assert "interlace resume" in stdout
    assert "what was measured is kept" in stderr
    assert process.members(None, f"{folder_of(tmp_path)}/runs/") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rouns=3"], "unknown key 'rouns' in the configuration; did you mean 'rounds'?"),
        (["rounds=0"], "rounds=0: at least one round is needed"),
        (["workload=command", "workload.command=x"], "there is one arm only"),
        (
            ["workload=command", "workload.command=python a.py,python b.py"],
            """quote each: workload.command="'python a.py','python b.py'\"""",
        ),
        (["workload=nope"], "Could not find 'workload/nope'"),
        (["measure.window=[51,400]"], "ends after the last step of a run (workload.steps=300)"),
        (
            ["baseline=nope"],
            (
                "baseline=nope is not an arm (or only= leaves it out); "
                "the arms are baseline, fused-adamw, copy-of-baseline"
            ),
        ),
        (["measure.reader=nope"], "nope"),
        (["workload.python=/usr"], "workload.python=/usr is a folder; give the program in it, as in /usr/bin/python"),
        (["numa.scope=core"], "numa.scope=core: invalid value 'core'; choose one of node, socket, cores"),
        (["ranks.args=[--enable_cpu_affinity]"], "drop the argument, or set numa.bind=off"),
        (["workload=command", "workload.command=x", "commit=a,b"], "source.repo is not"),
        (
            ["workload=command", "workload.command=x", "commit=a,b", "source.repo=/nonexistent"],
            "/nonexistent",
        ),
    ],
)
def test_a_mistake_costs_one_clear_message_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["sweep", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("interlace: error: ")
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_leaves_no_rank_behind_and_the_sweep_goes_on_from_any_folder(
    tmp_path: Path, trainer: Path, number: signal.Signals
) -> None:
    argv = [sys.executable, "-m", "interlace", "sweep", "workload=command", *QUICK]
    argv += [f"workload.command=python {trainer.name} 6 0.2", "env.A=1,2"]
    orchestrator = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("outputs/*/*/runs/*/started.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    orchestrator.send_signal(number)
    assert orchestrator.wait(timeout=60) == 130
    sweep = folder_of(tmp_path)
    assert process.members(None, f"{sweep}/runs/") == []
    (tmp_path / "elsewhere").mkdir()

    ended = interlace("resume", str(sweep), cwd=tmp_path / "elsewhere")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "interlace sweep workload=command" in (sweep / "report.md").read_text()
    again = interlace("resume", str(sweep), cwd=tmp_path / "elsewhere")
    assert "nothing is left to measure" in again.stderr


@pytest.mark.slow
def test_awkward_subjects_and_a_calling_git_hooks_variables_do_no_harm(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "src" / "speed.py").write_text("STEP_S = 0.02\n")
    git(repo, "commit", "-qam", "[core] [/foo] quick | [bold]")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))

    ended = swept(tmp_path, *commits(tmp_path, repo), "commit=HEAD~3,HEAD", "rounds=1")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "[core] [/foo] quick | [bold]" in ended.stdout


@pytest.mark.slow
def test_a_sweep_of_runs_shorter_than_the_window_is_saved_by_another_window(tmp_path: Path, trainer: Path) -> None:
    arms = f"workload.command='python {trainer} 12 0.01','python {trainer} 12 0.02'"
    ended = swept(tmp_path, "workload.steps=null", "measure.window=[51,300]", arms)
    assert ended.returncode == 1
    sweep = folder_of(tmp_path)
    assert f"interlace report {sweep.relative_to(tmp_path)} --window 2:12" in ended.stdout

    saved = interlace("report", str(sweep), "--window", "3:12", "--json", cwd=tmp_path)

    assert [arm["runs"] for arm in json.loads(saved.stdout)["arms"]] == [2, 2]
    assert json.loads(saved.stdout)["window"] == [3, 12]


@pytest.mark.slow
def test_fail_if_turns_a_verdict_into_an_exit_code(tmp_path: Path, repo: Path) -> None:
    ended = swept(tmp_path, *commits(tmp_path, repo), "commit=HEAD,HEAD~2", "fail_if=slower")

    assert ended.returncode == 3, ended.stdout


def test_the_composed_configuration_can_be_printed_as_in_any_hydra_application(tmp_path: Path) -> None:
    ended = interlace("sweep", "--cfg", "job", "rounds=7", cwd=tmp_path)

    assert ended.returncode == 0
    assert "rounds: 7" in ended.stdout


def test_help_lists_the_groups_with_their_options(tmp_path: Path) -> None:
    ended = interlace("sweep", "--help", cwd=tmp_path)

    assert ended.returncode == 0
    for line in (
        "workload: act, act_small, command, fairchem_uma, fairchem_uma_cpu, lerobot_act, lerobot_act_cpu, ",
        "sweeps: aa, act_beyond, act_ddp_vs_one, act_ladder, act_ladder_small, act_settings, commits, monitor, ",
        "gate: fail, off, wait, warn",
    ):
        assert line in ended.stdout


def test_a_plan_shows_arms_order_and_commands_and_writes_nothing(tmp_path: Path) -> None:
    ended = interlace("plan", "rounds=2", cwd=tmp_path)

    assert ended.returncode == 0
    assert "round 1: baseline  copy-of-baseline  fused-adamw" in ended.stdout
    assert "round 2: fused-adamw  copy-of-baseline  baseline" in ended.stdout
    assert "interlace.workloads.quickstart" in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_plan_shows_an_arm_that_is_not_run_and_has_no_command_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "mine.yaml").write_text(
        "# @package _global_\narms:\n  - name: baseline\n  - {name: fused, set: [workload.fused=true]}\n"
        "  - {name: docs, measure: false}\n"
    )

    assert main(["plan", "--config-dir", str(tmp_path), "sweeps=mine"]) == 0

    shown = capsys.readouterr().out
    assert "  docs  (measure: false, is not run)" in shown
    assert "  fused:\n" in shown
    assert "  docs:\n" not in shown


def test_a_plan_shows_a_variable_of_an_arm_once_and_in_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["plan", "workload=command", "workload.command=x", "launchers=plain", "env.LOAD_MS=20,null"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["  LOAD_MS=20  (baseline)  LOAD_MS=20", "  LOAD_MS=null  LOAD_MS removed"]
    commands = lines[lines.index("  LOAD_MS=20:") :]
    assert commands[1].startswith("    env LOAD_MS=20 ")
    assert commands[3].startswith("    env -u LOAD_MS ")


def test_a_plans_command_has_the_threads_that_an_arm_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert (
        main(["plan", "workload=command", "workload.command=x", "launchers=plain", "ranks.omp_num_threads=8,null"]) == 0
    )

    eight, unset = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" -- x")]
    assert eight.startswith("    env OMP_NUM_THREADS=8 ")
    assert "OMP_NUM_THREADS" not in unset


@pytest.mark.parametrize(
    "several", ["workload.batch_size=8,16", "commit=v0,480279de3", "env.A=1,2", "commits=v0..HEAD", "sweeps=screen"]
)
def test_aa_measures_one_configuration_and_refuses_several_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], several: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["aa", several]) == 2

    assert capsys.readouterr().err.startswith(f"interlace: error: {several}: interlace aa measures one configuration")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "said"), [("aa", ["measured once\nmore", "exit codes: 0", "1 both"]), ("plan", ["Runs nothing"])]
)
def test_aa_and_plan_have_a_help_of_their_own(
    capsys: pytest.CaptureFixture[str], command: str, said: list[str]
) -> None:
    assert main([command, "--help"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: interlace {command} [overrides]\n")
    assert [text for text in said if text not in shown] == []
    assert "interlace sweep --help" in shown


@pytest.mark.slow
def test_inside_an_allocation_its_node_is_the_lane_and_a_login_node_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "elsewhere[1-2]")
    refused = interlace("plan", cwd=tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "elsewhere1")
    accepted = interlace("plan", cwd=tmp_path)

    assert refused.returncode == 2
    assert "holds SLURM job 12, but is not on a node of it" in refused.stderr
    assert accepted.returncode == 0
    assert "note: measured inside SLURM job 12, which is the lane" in accepted.stdout


def test_output_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "interlace", "doctor"]
    with open("/dev/full", "w") as full:  # noqa: PTH123 (no file: every write to it fails)
        ended = subprocess.run(argv, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)

    assert ended.returncode == 2
    assert ended.stderr == b"interlace: error: there is no room left to write (a full disk, or the output's)\n"


def test_an_unknown_command_suggests_the_nearest(tmp_path: Path) -> None:
    ended = interlace("sweeep", cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (
        2, "interlace: error: there is no command 'sweeep'; did you mean 'sweep'?\n",
    )  # fmt: skip


def test_a_pipe_that_closes_early_is_no_error(tmp_path: Path) -> None:
    ended = subprocess.run(  # noqa: S602 (a shell pipe is what is tested)
        f"{sys.executable} -m interlace plan | head -1", shell=True, cwd=tmp_path, capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip

    assert ended.stderr == ""
