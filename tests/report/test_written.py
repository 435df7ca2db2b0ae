from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlace.files import write_json
from interlace.loaded import load
from interlace.records import write_record
from interlace.report.written import markdown, write_report
from interlace.schema import GpuSeen
from tests.handmade import CONFIG, on_disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.costly


def test_every_form_of_the_report_is_written(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)

    write_report(loaded)

    path = loaded.sweep_dir.path
    markdown = (path / "report.md").read_text()
    assert markdown.startswith("## s: step time, steps 1 to 20; 4 of 4 rounds complete")
    assert "| a | 4 |" in markdown
    assert "### How it was measured" in markdown
    report = json.loads((path / "report.json").read_text())
    assert (report["baseline"], [arm["name"] for arm in report["arms"]]) == ("a", ["a", "b"])
    assert len(report["runs"]) == 8


def test_tables_for_programs_hold_numbers_with_their_unit_in_the_header(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)

    write_report(loaded)

    with (loaded.sweep_dir.path / "tables" / "arms.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["a", "b"]
    assert 0.09 < float(rows[0]["median_s"]) < 0.11
    assert float(rows[1]["ratio"]) == loaded.analysis.comparisons[0].ratio


def test_a_pipe_in_a_name_does_not_break_the_table(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    lines = (loaded.sweep_dir.path / "sweep.yaml").read_text().replace("name: b\n", "name: b|c\n")
    (loaded.sweep_dir.path / "sweep.yaml").write_text(lines)

    write_report(load(loaded.sweep_dir.path))

    assert "| b\\|c |" in (loaded.sweep_dir.path / "report.md").read_text()


def test_runs_that_are_not_ok_are_listed_with_their_logs(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {2}})

    write_report(loaded)

    markdown = (loaded.sweep_dir.path / "report.md").read_text()
    assert "### Runs that are not ok" in markdown
    assert "failed: it broke" in markdown


def test_gpus_and_places_stand_in_the_order_of_the_arms_whichever_ran_first(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, arms="abcd")
    for attempt in loaded.used:
        assert attempt.record is not None
        write_record(attempt.path, replace(attempt.record, gpus=(GpuSeen("GPU-1", 0, 1024.0, None),)))
        write_json(attempt.path / "placement.json", [{"rank": 0}])
    assert [one.run.arm for one in loaded.used if one.run.round == 1] != list("abcd")

    again = load(loaded.sweep_dir.path)

    of_gpus = markdown(again).split("### What the GPUs did")[1].split("###")[0]
    assert [line[2] for line in of_gpus.splitlines() if "GiB" in line] == list("abcd")
    assert [one.arm for one in again.analysis.placements] == list("abcd")


def test_an_arm_that_broke_has_a_row_in_every_table(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, replace(CONFIG, cumulative=True), 0.001, {"b": {1, 2, 3, 4}}, arms="abcd")

    write_report(loaded)

    with (loaded.sweep_dir.path / "tables" / "ladder.csv").open() as stream:
        rows = {row["arm"]: row["verdict_vs_previous"] for row in csv.DictReader(stream)}
    assert rows == {"a": "", "b": "", "c": "within noise", "d": "within noise"}
    assert "- c is compared with a: no run of b counts" in markdown(loaded)


def test_what_is_installed_here_is_not_told_of_ranks_that_ran_elsewhere(tmp_path: Path) -> None:
    elsewhere = replace(CONFIG, workload=replace(CONFIG.workload, python="/env/bin/python"))

    for config, told in ((CONFIG, True), (elsewhere, False)):
        loaded = on_disk(tmp_path / str(told), config, 0.001)
        write_json(loaded.sweep_dir.node, {"python": "3.11.7", "versions": {"torch": "2.13.0"}})

        assert ("Python 3.11.7, torch 2.13.0" in markdown(loaded)) is told
