"""Figures, drawn for real."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from interlace.cli import main
from interlace.report.figures import drift_points
from tests.handmade import CONFIG, on_disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.costly


def test_every_run_stands_beside_the_mean_of_its_arm(tmp_path: Path) -> None:
    points = drift_points(on_disk(tmp_path, CONFIG, 0.01, {"b": {2}}))

    assert list(points["arm"].value_counts()) == [4, 3]
    assert points["minutes"].min() == 0
    for _, of_arm in points.groupby("arm"):
        assert sum(math.log1p(value / 100) for value in of_arm["off_pct"]) == pytest.approx(0, abs=1e-9)


def test_the_drift_of_a_sweep_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    loaded = on_disk(tmp_path, CONFIG, 0.01)

    assert main(["report", str(loaded.sweep_dir.path), "--figures"]) == 0

    path = loaded.sweep_dir.path / "figures" / "drift.svg"
    assert f"figure: {path}" in capsys.readouterr().out
    root = ET.parse(path).getroot()  # noqa: S314 (we have just drawn it)
    text = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert root.tag.endswith("svg")
    assert "minutes since the first run" in text
    drift = loaded.analysis.drift
    assert drift is not None
    assert f"dashed: the drift that all arms share, {100 * math.expm1(drift):+.1f} % over the sweep" in text
    drawn = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    assert len(drawn) >= 8
    assert "Every run beside the mean of its arm, steps 1 to 20" in text

    assert main(["report", str(loaded.sweep_dir.path), "--window", "2:20"]) == 0
    assert "steps 2 to 20" in path.read_text()
