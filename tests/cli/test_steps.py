from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from interlace.cli.steps import run
from interlace.errors import ReadError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    times = [92.1, *[0.41] * 5, 35.2, 0.41, 0.4, 0.41]
    path.write_text("".join(f"step={n} step_s={time}\n" for n, time in enumerate(times, 1)))
    return path


def as_json(argv: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run([*argv, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    return found


def test_people_read_what_was_recognised_and_what_is_odd(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(log)]) == 0

    shown = capsys.readouterr().out
    for expected in (
        "read by     keyvalue: `step_s` with its unit, in records like `step_s=92.1`",
        "steps       10, 1 to 10",
        "clock       step times as logged, no cumulative clock; resolution 10 ms",
        "window      steps 2 to 10, 9 of them (the log has not all of 51:300, so: all but the first)",
        "median      410 ms",
        "step 1      92.1 s, 224.6 x the median (not in the window)",
        "outliers: steps over 5 x the median, kept (recompiling?): 7 (35.2 s)",
        "mean_median_gap: the mean is 10.43 times the median",
    ):
        assert expected in shown


def test_json_has_reader_steps_and_notes(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json([str(log)], capsys)

    assert found["reader"] == "keyvalue"
    assert found["steps"][:2] == [{"step": 1, "step_s": 92.1}, {"step": 2, "step_s": 0.41}]
    assert [note.split(":")[0] for note in found["notes"]] == ["rank_unknown", "mean_median_gap", "outliers"]
    assert found["errors"] == []
    assert found["summary"]["outlier_steps"] == [7]


def test_json_has_the_slowest_rank_and_the_ranks_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("rank=0 step=1 step_s=0.50\nrank=1 step=1 step_s=0.51\n")

    found = as_json([str(path)], capsys)

    assert found["steps"] == [{"step": 1, "step_s": 0.51, "ranks": {"0": 0.5, "1": 0.51}}]


def test_json_has_null_for_what_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1, "step_s": 0.5, "loss": NaN}\n{"step": 2, "step_s": 0.5, "loss": Infinity}\n')

    found = as_json([str(path)], capsys)

    assert [step["loss"] for step in found["steps"]] == [None, None]
    assert found["quantum_s"] is None


@pytest.mark.parametrize(("window", "n"), [("2:5", 4), ("9:300", 2)])
def test_the_window_can_be_chosen(log: Path, capsys: pytest.CaptureFixture[str], window: str, n: int) -> None:
    assert as_json([str(log), f"window={window}"], capsys)["summary"]["n"] == n


def test_the_default_window_is_51_to_300(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step={n} step_ms={n}\n" for n in range(1, 401)))

    summary = as_json([str(path)], capsys)["summary"]

    assert (summary["first"], summary["last"], summary["n"], summary["median_s"]) == (51, 300, 250, 0.1755)


def test_a_pattern_may_hold_equals_signs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json([str(log), r"pattern=step=(?P<step>\d+) step_s=(?P<step_s>[\d.]+)"], capsys)

    assert (found["reader"], len(found["steps"])) == ("pattern", 10)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["x.log", "patern=a"], r"patern is not a key of interlace steps \(did you mean pattern\?\); valid keys"),
        (["x.log", "--jsn"], r"no option --jsn \(did you mean --json\?\)"),
        (["x.log", "window=300:51"], "window=300:51 is no range of steps; write window=51:300"),
        (["a.log", "b.log"], "reads one log, 2 are named: a.log, b.log"),
        (["reader=csv"], "reads one log, none is named"),
    ],
)
def test_wrong_arguments_say_what_is_valid(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(argv)


def test_a_window_without_steps_is_a_usage_error(log: Path) -> None:
    with pytest.raises(UsageError, match="window=51:300 holds no step; the log has 1 to 10"):
        run([str(log), "window=51:300"])


def test_a_log_without_steps_is_an_error_with_its_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("loss=0.5 lr=0.4\n")

    with pytest.raises(ReadError, match=r"train\.log: no reader recognises it(.|\n)*\| loss=0\.5 lr=0\.4"):
        run([str(path)])


def test_help_loads_nothing_heavy() -> None:
    code = ("import sys; from interlace.cli.steps import run; run(['--help']);"
            "assert not {'pandas', 'numpy', 'torch', 'hydra'} & set(sys.modules)")  # fmt: skip

    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)

    assert "usage: interlace steps FILE" in done.stdout
    assert "interlace, lerobot, fairchem_results, fairchem, " in done.stdout
