from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interlace.errors import UsageError
from interlace.settings import LaunchersConfig
from interlace.submission import submit

if TYPE_CHECKING:
    from pathlib import Path


def lane() -> int:
    return 0


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an sbatch on PATH that prints the file beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", f"cat {folder}/says"), ("srun", "true")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "says"


def test_the_id_is_that_of_sbatchs_own_sentence_and_not_of_a_greeting(sbatch: Path, tmp_path: Path) -> None:
    sbatch.write_text("this is job 3 of the 20 that you may have\nSubmitted batch job 4242\n")

    assert submit(tmp_path / "slurm", LaunchersConfig(kind="slurm"), "name", dict(os.environ), lane) == "4242"


def test_an_answer_without_an_id_is_no_job(sbatch: Path, tmp_path: Path) -> None:
    sbatch.write_text("no job 3 for you today\n")

    with pytest.raises(UsageError, match="Slurm gave no job id: no job 3 for you today"):
        submit(tmp_path / "slurm", LaunchersConfig(kind="slurm"), "name", dict(os.environ), lane)
