"""The command as its user runs it, on whatever machine this is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from interlace.doctor.examine import examine
from interlace.doctor.finding import Section, ok, problem, warning
from interlace.monitor.source import open_source
from interlace.report.doctor import as_object, print_screen
from tests.conftest import interlace
from tests.doctor.handmade import HEALTHY
from tests.monitor.conftest import BANNER, GPUS_CSV, SAMPLES_CSV

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.costly

# ---------------------------------------------------------------- this machine


def test_this_machine_gets_a_screen_a_verdict_and_an_exit_code_that_agree(tmp_path: Path) -> None:
    ended = interlace("doctor", cwd=tmp_path)

    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    verdicts = [line for line in lines if re.match(r"(not )?fit to measure", line)]
    assert len(verdicts) == 1
    assert ended.returncode == (1 if verdicts[0].startswith("not") else 0)
    assert {"GPUs", "placement", "CPUs", "memory and disk", "software", "surroundings"} <= set(lines)
    assert not any(line.endswith(" ") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_json_holds_the_verdict_the_findings_and_the_facts(tmp_path: Path) -> None:
    ended = interlace("doctor", "--json", "--output-dir", "elsewhere", cwd=tmp_path)

    found = json.loads(ended.stdout)
    levels = {one["level"] for one in found["findings"]}
    assert set(found) == {"format_version", "fit", "verdict", "findings", "facts"}
    assert ended.returncode == (0 if found["fit"] else 1)
    assert found["fit"] == ("problem" not in levels)
    assert all((one["todo"] is None) == (one["level"] == "ok") for one in found["findings"])
    assert found["facts"]["output"]["path"] == "elsewhere"


def test_an_output_folder_that_cannot_be_written_makes_a_node_unfit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = interlace("doctor", "--output-dir", "file", cwd=tmp_path)

    assert ended.returncode == 1
    assert "not fit to measure" in ended.stdout
    assert "file: is not a folder" in ended.stdout


@pytest.mark.parametrize("arguments", [["--jsn"], ["DIR"], ["--output-dir"]])
def test_wrong_arguments_exit_with_2_and_say_where_to_look(tmp_path: Path, arguments: list[str]) -> None:
    ended = interlace("doctor", *arguments, cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith("see: interlace doctor --help\n")


def test_the_screen_loads_none_of_the_arithmetic() -> None:
    code = (
        "import sys\nfrom interlace.cli import main\nmain(['doctor'])\n"
        "heavy = {'hydra', 'omegaconf', 'torch', 'accelerate', 'pandas', 'numpy', 'scipy', 'submitit'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stderr.strip() == "[]"


@pytest.mark.slow
def test_torch_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    ended = interlace("doctor", "--json", "--torch", cwd=tmp_path)

    sees = json.loads(ended.stdout)["facts"]["software"]["torch_sees"]
    assert sees["failure"] is None
    assert (sees["python"], sees["version"] is not None) == (sys.executable, True)


# ---------------------------------------------------------------- GPUs by a stand-in


def doctor_with_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> tuple[int, dict[str, Any]]:
    """Run the command with an nvidia-smi of our own first on the PATH."""
    if open_source().kind == "nvml":
        pytest.skip("NVML answers here, so nvidia-smi is not asked")
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    ended = interlace("doctor", "--json", cwd=folder)
    assert "Traceback" not in ended.stderr
    return ended.returncode, {one["name"]: one for one in json.loads(ended.stdout)["findings"]}


def test_a_gpu_that_somebody_computes_on_makes_a_node_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = subprocess.Popen(["sleep", "60"])
    head = "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
    row = f"GPU-aaaaaaaa-0000-0000-0000-000000000001, {somebody.pid}, 500 MiB, python"
    for name, text in {"gpus": GPUS_CSV, "samples": SAMPLES_CSV, "banner": BANNER, "held": f"{head}\n{row}\n"}.items():
        (tmp_path / name).write_text(text)
    try:
        code, found = doctor_with_smi(
            tmp_path,
            monkeypatch,
            f"""
case "$1" in
  --query-gpu=driver_version*) echo 550.54.15;;
  --query-gpu=index*) cat {tmp_path}/gpus;;
  --query-gpu=*) cat {tmp_path}/samples;;
  --query-compute-apps=*) cat {tmp_path}/held;;
  *) cat {tmp_path}/banner;;
esac""",
        )
    finally:
        somebody.kill()
        somebody.wait()

    assert code == 1
    assert found["GPU 0"]["level"] == "problem"
    assert f"in use: pid {somebody.pid} (python, not ours)" in found["GPU 0"]["what"]
    assert found["GPU 1"]["level"] == "warning"
    assert "2 x NVIDIA H200 143771 MiB; driver 550.54.15, CUDA 12.4" in found["GPUs"]["what"]


def test_a_driver_that_is_out_of_step_makes_a_node_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch"

    code, found = doctor_with_smi(tmp_path, monkeypatch, f"echo '{text}'; exit 18")

    assert (code, found["GPUs"]["level"]) == (1, "problem")
    assert text in found["GPUs"]["what"]
    assert "reboot" in found["GPUs"]["todo"]


# ---------------------------------------------------------------- the screen


def screen(sections: tuple[Section, ...], width: int) -> str:
    written = StringIO()
    print_screen(HEALTHY, sections, Console(width=width, color_system=None, highlight=False, file=written))
    return written.getvalue()


def test_the_screen_is_aligned_over_sections_and_ends_with_what_to_do() -> None:
    sections = (
        Section("one", (ok("a", "fine"), problem("GPU 0", "busy", "wait"))),
        Section("two", (problem("GPU 1", "busy", "wait"), warning("long name", "odd", "mend it"))),
    )

    assert (
        screen(sections, 80)
        == """\
node-1: Debian GNU/Linux 12, kernel 6.1.0
one
  ok       a             fine
  problem  GPU 0         busy
two
  problem  GPU 1         busy
  warning  long name     odd

not fit to measure: 2 problems, 1 warning
  problem  GPU 0, GPU 1  wait
  warning  long name     mend it
"""
    )


def test_a_long_line_is_folded_under_its_own_beginning() -> None:
    assert screen((Section("one", (ok("a", "fifteen letters and nvidia-smi more"),)),), 38).splitlines()[2:4] == [
        "  ok       a  fifteen letters and",
        "              nvidia-smi more",
    ]


def test_a_healthy_node_fits_one_screen() -> None:
    assert len(screen(examine(HEALTHY), 120).splitlines()) <= 40


def test_the_object_names_the_topic_of_every_finding() -> None:
    made = as_object(HEALTHY, examine(HEALTHY))

    assert (made["format_version"], made["fit"], made["verdict"]) == (1, True, "fit to measure")
    assert made["findings"][0] == {
        "topic": "GPUs", "name": "GPUs", "level": "ok", "todo": None,
        "what": "2 x NVIDIA H200 143771 MiB; driver 570.1, CUDA 12.8; NVML answers",
    }  # fmt: skip
