"""What every way of starting ranks must do; a new launcher inherits this suite and passes it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from interlace import process
from interlace.launch import applied, build_launch
from interlace.schema import Arm
from interlace.settings import RanksConfig, SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from pathlib import Path

REPORT = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "MARK", "INTERLACE_RUN_DIR")
rank = os.environ.get("RANK", "0")
with open(os.path.join(os.environ["INTERLACE_RUN_DIR"], f"seen-{rank}.json"), "w") as stream:
    json.dump({"argv": sys.argv[1:], **{name: os.environ.get(name) for name in names}}, stream)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("clean_env")
class LauncherContract:
    """Subclasses say which launcher: `kind`, and how many ranks it can start here: `world`."""

    kind: str
    world: int

    def started(self, tmp_path: Path, code: str, *words: str) -> tuple[int | None, Path]:
        """Start the launcher for real on a program given as Python code; its return code and the run's folder."""
        program = tmp_path / "program.py"
        program.write_text(code)
        run_dir = tmp_path / "sweep" / "runs" / "000-r1-a"
        (run_dir / "ranks").mkdir(parents=True)
        (run_dir / "steps").mkdir()
        command = " ".join(["python", str(program), *words])
        config = SweepConfig(
            "s", WorkloadConfig("w", command=command, env={"MARK": "it's $x"}),
            RanksConfig(self.kind, self.world, omp_num_threads=3),  # type: ignore[arg-type]
        )  # fmt: skip
        launch = build_launch(Arm("a", "a", (), config), run_dir, None, os.environ)
        for name, text in launch.files.items():
            (run_dir / name).write_text(text)
        env = applied(os.environ, launch.env)
        with process.running(launch.argv, env, tmp_path, run_dir / "stdout.log", run_dir / "stderr.log") as child:
            return process.wait(child, 120.0), run_dir

    def test_every_rank_is_started_with_its_number_the_world_size_and_the_arms_environment(
        self, tmp_path: Path
    ) -> None:
        returncode, run_dir = self.started(tmp_path, REPORT, "--lr", "1e-4")

        assert returncode == 0, (run_dir / "stderr.log").read_text()
        seen = [json.loads(path.read_text()) for path in sorted(run_dir.glob("seen-*.json"))]
        assert len(seen) == self.world
        for number, one in enumerate(seen):
            assert one["argv"] == ["--lr", "1e-4"]
            assert (one["MARK"], one["OMP_NUM_THREADS"]) == ("it's $x", "3")
            assert one["INTERLACE_RUN_DIR"] == str(run_dir)
            if self.world > 1:
                assert (one["RANK"], one["LOCAL_RANK"]) == (str(number), str(number))
                assert one["WORLD_SIZE"] == str(self.world)

    def test_every_rank_goes_through_the_wrapper_which_writes_down_where_it_runs(self, tmp_path: Path) -> None:
        _, run_dir = self.started(tmp_path, "pass")

        ranks = [json.loads(path.read_text()) for path in sorted((run_dir / "ranks").iterdir())]
        assert [(one["rank"], one["world_size"]) for one in ranks] == [(n, self.world) for n in range(self.world)]

    def test_a_rank_that_fails_fails_the_launcher(self, tmp_path: Path) -> None:
        returncode, _ = self.started(tmp_path, "import sys; sys.exit(3)")

        assert returncode not in (0, None)

    def test_what_ranks_print_is_captured(self, tmp_path: Path) -> None:
        _, run_dir = self.started(tmp_path, "import sys; print('to out'); print('to err', file=sys.stderr)")

        assert (run_dir / "stdout.log").read_text().count("to out") == self.world
        assert (run_dir / "stderr.log").read_text().count("to err") == self.world

    def test_a_file_of_the_current_folder_shadows_nothing_of_the_launchers(self, tmp_path: Path) -> None:
        (tmp_path / "random.py").write_text("raise SystemExit('shadowed')")

        returncode, run_dir = self.started(tmp_path, "pass")

        assert returncode == 0, (run_dir / "stderr.log").read_text()
