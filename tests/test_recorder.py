from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from interlace import recorder
from interlace.recorder import StepRecorder

pytestmark = pytest.mark.usefixtures("clean_env")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def run(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "INTERLACE_STEP_DIR": str(folder), **env}
    return subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=False)


def test_without_a_folder_nothing_happens() -> None:
    rec = StepRecorder()
    with rec.phase("forward"):
        rec.step(loss=object())  # type: ignore[arg-type]
    rec.close()

    assert not rec.enabled
    assert rec.path is None


def test_a_step_is_one_line_between_header_and_end(tmp_path: Path) -> None:
    with StepRecorder(tmp_path) as rec:
        with rec.phase("forward"):
            time.sleep(0.01)
        rec.step(loss=0.5)
        rec.step()

    header, first, second, end = lines(tmp_path / "rank-0.jsonl")
    assert {k: header[k] for k in ("interlace", "format", "rank", "local_rank", "world_size", "clock", "unit")} == {
        "interlace": "steps", "format": 1, "rank": 0, "local_rank": 0, "world_size": 1,
        "clock": "perf_counter", "unit": "s"}  # fmt: skip
    assert header["pid"] == os.getpid()
    assert header["start_unix_s"] == pytest.approx(time.time(), abs=60)
    assert (first["step"], first["loss"], second["step"]) == (1, 0.5, 2)
    assert 0.01 <= first["phases"]["forward"] <= first["step_s"]
    assert "phases" not in second
    assert end == {"end": True, "steps": 2}


def test_the_clock_is_the_sum_of_the_steps_and_stands_still_in_a_pause(tmp_path: Path) -> None:
    with StepRecorder(tmp_path) as rec:
        rec.step()
        time.sleep(0.05)
        rec.start()
        rec.step()

    _, first, second, _ = lines(tmp_path / "rank-0.jsonl")
    assert second["step_s"] < 0.05
    assert second["t_s"] == pytest.approx(first["step_s"] + second["step_s"], abs=2e-9)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, (3, 1, 8)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 0, 4)),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "4"}, (2, 1, 4)),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, (0, 0, 1)),  # an allocation, not a rank
        ({"RANK": "x"}, (0, 0, 1)),
    ],
)
def test_the_rank_comes_from_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: tuple[int, int, int]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    StepRecorder(tmp_path).close()

    header = lines(tmp_path / f"rank-{expected[0]}.jsonl")[0]
    assert (header["rank"], header["local_rank"], header["world_size"]) == expected


def test_numbers_that_json_lacks_are_written_as_strings(tmp_path: Path) -> None:
    with StepRecorder(tmp_path) as rec:
        rec.step(loss=math.nan, norm=-math.inf, note='a "b"', n=3, none=None)

    written = lines(tmp_path / "rank-0.jsonl")[1]
    assert (written["loss"], written["norm"], written["note"], written["n"]) == ("nan", "-inf", 'a "b"', 3)
    assert written["none"] is None


def test_a_tensor_is_refused_rather_than_read(tmp_path: Path) -> None:
    class Tensor:
        def __float__(self) -> float:
            pytest.fail("reading it synchronises the device")

    with StepRecorder(tmp_path) as rec, pytest.raises(TypeError, match=r"pass loss\.item\(\) yourself"):
        rec.step(loss=Tensor())  # type: ignore[arg-type]


def test_a_name_of_the_recorder_is_refused(tmp_path: Path) -> None:
    with StepRecorder(tmp_path) as rec, pytest.raises(ValueError, match="belongs to the recorder"):
        rec.step(step_s=1.0)


def test_steps_are_on_disk_while_the_run_is_on(tmp_path: Path) -> None:
    rec = StepRecorder(tmp_path, flush_every_s=0.02)
    rec.step()
    time.sleep(0.03)
    rec.step()

    assert [line.get("step") for line in lines(tmp_path / "rank-0.jsonl")] == [None, 1, 2]
    rec.close()


def test_a_kill_loses_no_step_older_than_the_flush_interval(tmp_path: Path) -> None:
    code = ("import os, signal, time\nfrom interlace.recorder import StepRecorder\nr = StepRecorder()\n"
            "for _ in range(8): time.sleep(0.1); r.step()\nos.kill(os.getpid(), signal.SIGKILL)")  # fmt: skip

    done = run(code, tmp_path)

    assert done.returncode == -signal.SIGKILL
    found = lines(tmp_path / "rank-0.jsonl")
    assert found[-1]["step"] >= 5
    assert [line["step"] for line in found[1:]] == list(range(1, len(found)))


@pytest.mark.parametrize(("last", "ended"), [("", True), ("raise SystemExit(0)", True), ("raise ValueError", False)])
def test_a_clean_exit_writes_the_end_and_a_crash_does_not(tmp_path: Path, last: str, ended: bool) -> None:
    run(f"from interlace.recorder import StepRecorder\nr = StepRecorder()\nr.step()\n{last}", tmp_path)

    found = lines(tmp_path / "rank-0.jsonl")
    assert found[1]["step"] == 1
    assert (found[-1] == {"end": True, "steps": 1}) is ended


def test_an_exception_inside_the_block_writes_no_end(tmp_path: Path) -> None:
    def crashing() -> None:
        with StepRecorder(tmp_path) as rec:
            rec.step()
            raise KeyError

    with pytest.raises(KeyError):
        crashing()

    assert [line.get("step") for line in lines(tmp_path / "rank-0.jsonl")] == [None, 1]


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    code = ("import os, sys\nfrom interlace.recorder import StepRecorder\nr = StepRecorder()\nr.step()\n"
            "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: sys.exit(0)")  # fmt: skip

    run(code, tmp_path)

    assert [line.get("step") for line in lines(tmp_path / "rank-0.jsonl")] == [None, 1, None]


def test_a_second_process_of_a_rank_gets_its_own_file(tmp_path: Path) -> None:
    for _ in range(2):
        with StepRecorder(tmp_path) as rec:
            rec.step()

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["rank-0.jsonl", f"rank-0-p{os.getpid()}.jsonl"])


def test_a_full_disk_ends_the_log_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rec = StepRecorder(tmp_path, flush_every_s=0.0)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        rec.step()
    rec.step()
    rec.close()

    assert not rec.enabled
    assert "No space left on device; no further steps are recorded" in capfd.readouterr().err


def test_the_file_works_alone_with_the_standard_library_only(tmp_path: Path) -> None:
    (tmp_path / "vendored.py").write_text(Path(recorder.__file__).read_text())
    code = "import sys; sys.path.insert(0, '.'); import vendored; r = vendored.StepRecorder('out'); r.step(); r.close()"

    subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, check=True)

    assert len(lines(tmp_path / "out" / "rank-0.jsonl")) == 3
