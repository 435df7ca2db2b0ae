"""Readers that other packages bring: the documented example, really installed, and what goes wrong with others."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlace.cli.steps import run
from interlace.errors import UsageError
from interlace.steplog import names, read, registry
from tests.steplog.series import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs" / "steps.md"
LOG = "start\n[acme] it=1 took 412.5 ms, loss 0.5\n[acme] it=2 took 400.0 ms, loss 0.4\n"


def example(name: str) -> str:
    """Return the file of this name out of the documentation, where it stands below a line `name`."""
    match = re.search(rf"^`{re.escape(name)}`:\n\n((?:    .*\n|\n)+)", DOCS.read_text(), re.MULTILINE)
    assert match, f"docs/steps.md shows no {name}"
    return re.sub(r"^    ", "", match[1], flags=re.MULTILINE)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder where installed packages are found, with a log in it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "train.log").write_text(LOG)
    registry.others.cache_clear()
    yield tmp_path
    registry.others.cache_clear()
    sys.modules.pop("acme_reader", None)


def offer(folder: Path, **points: str) -> None:
    """Put a package's metadata on a path, as an installation does."""
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    info = folder / "acme_reader-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-reader\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[interlace.readers]\n{lines}")


def test_the_documented_reader_is_found_recognises_and_states_its_facts(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "acme_reader.py").write_text(example("acme_reader.py"))
    offer(site, acme="acme_reader:READER")

    assert run([str(site / "train.log")]) == 0

    shown = capsys.readouterr().out
    assert "read by     acme: records like `[acme] it=1 took 412.5 ms, loss 0.5`" in shown
    assert "steps       2, 1 to 2" in shown
    assert "Clock: perf_counter" in shown


@pytest.mark.slow
@pytest.mark.skipif(
    not importlib.util.find_spec("hatchling"), reason="hatchling, which builds the example, is not here"
)
def test_the_documented_package_can_be_installed_and_is_then_found(tmp_path: Path) -> None:
    project, target = tmp_path / "project", tmp_path / "site"
    project.mkdir()
    for name in ("pyproject.toml", "acme_reader.py"):
        (project / name).write_text(example(name))
    install = [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", "-q"]

    subprocess.run([*install, "--target", str(target), str(project)], check=True, capture_output=True)

    (tmp_path / "train.log").write_text(LOG)
    command = [sys.executable, "-m", "interlace", "steps", str(tmp_path / "train.log"), "reader=acme"]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    ended = subprocess.run(command, text=True, capture_output=True, check=True, env=environment)
    assert "read by     acme: as asked" in ended.stdout


@pytest.mark.parametrize(
    ("module", "point", "said"),
    [
        ("raise RuntimeError('no GPU')\n", "acme_reader:READER", r"cannot be loaded \(RuntimeError: no GPU\)"),
        ("READER = object()\n", "acme_reader:READER", "is no reader: it has no name, anywhere, recognise"),
        ("from interlace.steplog.formats.timm import READER\n", "acme_reader:READER", "calls itself timm, a name that"),
    ],
)
def test_a_broken_reader_stops_nothing_and_is_said(site: Path, module: str, point: str, said: str) -> None:
    (site / "acme_reader.py").write_text(module)
    offer(site, acme=point)

    log = read(site / "train.log", pattern=r"it=(?P<step>\d+) took (?P<step_ms>[\d.]+)")

    assert rows(log) == [(1, 0.4125), (2, 0.4)]
    assert any(re.match(f"reader_not_loaded: acme: acme_reader:READER {said}", note) for note in log.notes)
    with pytest.raises(UsageError, match=f"reader=acme: acme_reader:READER {said}"):
        read(site / "train.log", reader="acme")


def test_every_reader_stands_in_the_documentation() -> None:
    text = DOCS.read_text()

    assert [name for name in names()[1:] if f"`{name}`" not in text] == []
