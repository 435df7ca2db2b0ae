"""What happens between steps: compilations, evaluations, checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlace.steplog import read
from interlace.steplog.events import event_notes

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.steplog import StepLog


def log_with(path: Path, line: str, before: int) -> StepLog:
    """Write thirty key=value steps with `line` printed while step `before` is on."""
    lines = [f"step={number} step_s=0.1{number:02d}" for number in range(1, 31)]
    lines.insert(before - 1, line)
    path.write_text("\n".join(lines) + "\n")
    return read(path)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("compiled", "V1129 12:00:00.1 88 torch/_dynamo/guards.py:3092] [1/3] [__recompiles] Recompiling function f"),
        ("compiled", "W1129 torch/_dynamo/convert_frame.py:1016] torch._dynamo hit config.recompile_limit (8)"),
        ("compiled", "AUTOTUNE mm(2048x512, 512x512)"),
        ("compiled", "Triton autotuning for function triton_kernel finished after 1.52s; best config selected: ..."),
        ("evaluated", "INFO 2026-01-05 10:00:01 ot_train.py:502 Eval policy at step 20"),
        ("evaluated", "***** Running Evaluation *****"),
        ("evaluated", " validation loss at iteration 20 | lm loss value: 2.1E+00 |"),
        ("saved", "INFO 2026-01-05 10:00:01 ot_train.py:480 Checkpoint policy after step 20"),
        ("saved", "Saving model checkpoint to out/checkpoint-20"),
    ],
)
def test_a_line_between_steps_belongs_to_the_step_that_is_on(tmp_path: Path, kind: str, line: str) -> None:
    log = log_with(tmp_path / "log.txt", line, before=12)

    frame = log.frame
    assert frame.loc[frame[f"event.{kind}"] > 0, "step"].tolist() == [12]
    assert len(event_notes(frame, (10, 20))) == 1
    assert "inside the window (step 12)" in event_notes(frame, (10, 20))[0]
    assert event_notes(frame, (13, 20)) == []


def test_an_event_after_the_last_step_belongs_to_none(tmp_path: Path) -> None:
    assert "event.saved" not in log_with(tmp_path / "log.txt", "Saving model checkpoint to out", before=31).frame


@pytest.mark.parametrize("line", ["compiled in 3 s", "no evaluation today", "valid loss", "checkpoint saved"])
def test_other_lines_are_no_events(tmp_path: Path, line: str) -> None:
    assert not any(str(name).startswith("event.") for name in log_with(tmp_path / "log.txt", line, before=12).frame)


def test_a_step_that_speaks_of_a_validation_loss_is_a_step(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"step={n} step_s=0.1{n:02d} val_loss=2.0\n" for n in range(1, 31)))

    assert "event.evaluated" not in read(path).frame


@pytest.mark.slow
def test_the_recorder_says_at_which_steps_torch_compiled(tmp_path: Path) -> None:
    trainer = """
import torch
from interlace.recorder import StepRecorder
f = torch.compile(lambda x: x * 2 + 1, backend="eager")
with StepRecorder() as recorder:
    for size in (3, 3, 4, 3):
        f(torch.ones(size))
        recorder.step()
    f(torch.ones(3, dtype=torch.float64))
    recorder.start()  # what was compiled outside the steps belongs to none
    recorder.step()
"""
    ended = subprocess.run(
        [sys.executable, "-c", trainer], env={"INTERLACE_STEP_DIR": str(tmp_path)}, capture_output=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    written = [json.loads(line) for line in (tmp_path / "rank-0.jsonl").read_text().splitlines()[1:-1]]
    assert [line.get("compiled", 0) for line in written] == [1, 0, 1, 0, 0]
    frame = read(tmp_path).frame
    assert frame.loc[frame["event.compiled"] > 0, "step"].tolist() == [1, 3]
