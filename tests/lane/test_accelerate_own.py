from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.lane.accelerate_own import accelerate_notes, defaults_used, user_config
from interlace.settings import RanksConfig, SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from pathlib import Path

SAID = """\
WARNING  The following values were not passed to `accelerate launch` and had defaults
used instead:
\t`--num_processes` was set to a value of `2`
\t\tMore than one GPU was found; pass `--num_processes=1` if not meant.
\t`--mixed_precision` was set to a value of `'no'`
\t`--num_cpu_threads_per_process` was set to `8` to improve performance
"""


def config(command: str = "accelerate launch train.py", kind: str = "plain") -> SweepConfig:
    return SweepConfig("s", WorkloadConfig("w", command=command), RanksConfig(kind, 2))  # type: ignore[arg-type]


def configured(home: Path, name: str = "default_config.yaml", text: str = "num_processes: 8\n") -> dict[str, str]:
    """Write the configuration of a user; returns the environment that leads to it."""
    (home / "accelerate").mkdir()
    (home / "accelerate" / name).write_text(text)
    return {"HF_HOME": str(home)}


def test_the_defaults_that_accelerate_took_are_read() -> None:
    assert defaults_used(SAID) == {"num_processes": "2", "mixed_precision": "no", "num_cpu_threads_per_process": "8"}


def test_defaults_that_nobody_passed_are_said_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(SAID)

    (note,) = accelerate_notes(config(), {"HF_HOME": str(tmp_path)}, tmp_path / "stderr.log")

    assert "num_processes=2, mixed_precision=no" in note


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default_config.yaml", "distributed_type: MULTI_GPU\nmixed_precision: 'bf16'\nnum_processes: 8\n"),
        ("default_config.json", '{"distributed_type": "MULTI_GPU",\n "mixed_precision": "bf16", "num_processes": 8}'),
    ],
)  # fmt: skip
def test_a_configuration_of_the_users_that_a_command_reads_is_said_with_its_values(
    tmp_path: Path, name: str, text: str
) -> None:
    environ = configured(tmp_path, name, text)

    (note,) = accelerate_notes(config(), environ, tmp_path / "stderr.log")

    assert name in note
    assert "(distributed_type=MULTI_GPU, mixed_precision=bf16, num_processes=8)" in note


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python train.py", "plain"),
        ("accelerate launch --config_file=own.yaml train.py", "plain"),
        ("python train.py", "accelerate"),
    ],
)
def test_nothing_is_said_where_no_configuration_of_the_users_is_read(tmp_path: Path, command: str, kind: str) -> None:
    environ = configured(tmp_path)

    assert accelerate_notes(config(command, kind), environ, tmp_path / "stderr.log") == []


def test_the_configuration_is_looked_for_where_accelerate_does(tmp_path: Path) -> None:
    folder = tmp_path / ".cache" / "huggingface"
    folder.mkdir(parents=True)
    configured(folder)

    for environ in ({"HOME": str(tmp_path)}, {"XDG_CACHE_HOME": str(tmp_path / ".cache"), "HOME": "/nowhere"}):
        assert user_config(environ) == folder / "accelerate" / "default_config.yaml"
    assert user_config({"HF_HOME": str(tmp_path), "HOME": str(tmp_path)}) is None
