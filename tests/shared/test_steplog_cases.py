"""Field logs with their right outcomes, and logs of real trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.errors import ReadError
from interlace.steplog import StepLog, Tail, read
from interlace.steplog.bars import bars_in
from interlace.steplog.numbers import parse_number

SHARED = Path(__file__).parents[2].parent / "shared"
CASES, LOGS = SHARED / "cases", SHARED / "logs"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared folder with field cases is not here")


def case(name: str, file: str = "train.log") -> tuple[Path, dict[str, Any]]:
    expected: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text())
    return CASES / name / file, expected["expected"]


def records(log: StepLog) -> list[list[float]]:
    return [[step, step_s] for step, step_s in zip(log.frame["step"], log.frame["step_s"], strict=True)]


def codes(remarks: tuple[str, ...]) -> list[str]:
    return [remark.split(": ")[0] for remark in remarks]


def test_e05_interleaved_ranks() -> None:
    path, expected = case("E05")

    frame = read(path).frame

    found = {str(r): g[["step", "step_s"]].values.tolist() for r, g in frame.groupby("rank")}
    assert found == expected["by_rank"]


def test_e07_numbers() -> None:
    path, expected = case("E07", "cells.json")

    for cell, right in zip(json.loads(path.read_text()), expected["results"], strict=True):
        number = parse_number(cell["text"], count=cell["key"] == "tokens_per_s")
        assert (number.value, number.warning) == (right["value"], right.get("warning"))


@pytest.mark.parametrize("name", ["E08", "E09", "E10"])
def test_jsonl_cases(name: str) -> None:
    path, expected = case(name, "metrics.jsonl")

    log = read(path)

    assert records(log) == expected["records"]
    assert codes(log.errors) == expected.get("errors", [])
    assert set(expected["warnings"]) <= set(codes(log.notes))


def test_e12_validation_rows() -> None:
    path, expected = case("E12", "log.json")

    log = read(path)

    assert records(log) == expected["records"]
    assert log.attempts == expected["attempts"]


def test_e14_meters_when_asked_for() -> None:
    path, expected = case("E14")

    log = read(path, reader="keyvalue")

    assert records(log) == expected["records"]
    assert log.attempts == expected["attempts"]


@pytest.mark.parametrize("name", ["E15", "E19", "G03"])
def test_plain_logs_have_all_their_steps(name: str) -> None:
    path, expected = case(name)

    log = read(path)

    assert len(log.frame) == expected["n"]
    assert not log.ended
    assert Tail(path).steps() == expected["n"]
    if name == "G03":
        assert np.mean(log.frame["step_s"]) == pytest.approx(expected["mean_all_s"])


def test_e20_no_match_is_an_error() -> None:
    path, expected = case("E20")

    for options in ({}, {"pattern": "step_s=(?P<step_s>[0-9.]+)"}):
        with pytest.raises(ReadError) as raised:
            read(path, **options)  # type: ignore[arg-type]
        assert all(text in str(raised.value) for text in expected["message_contains"])


def test_e01_bars_are_smoothed() -> None:
    path, expected = case("E01")

    log = read(path)

    right = [r for r in expected["records"] if r["s_per_it"] is not None]
    assert records(log) == [[r["n"], r["s_per_it"]] for r in right]
    assert log.frame["elapsed_s"].tolist() == [r["elapsed_s"] for r in right]
    assert log.kind == expected["quality"]


def test_e02_forms_of_bars() -> None:
    path, expected = case("E02", "bars.json")

    for text, right in zip(json.loads(path.read_text()), expected["results"], strict=True):
        (bar,) = bars_in(text)
        assert (bar.n, bar.elapsed_s) == (right["n"], right["elapsed_s"])
        assert bar.s_per_it == (right["s_per_it"] and pytest.approx(right["s_per_it"]))
        assert bar.n_rounded == right.get("n_rounded", False)


def test_e04_rates_alone_are_no_step_times() -> None:
    with pytest.raises(ReadError, match="A torchtitan log states tokens a second"):
        read(case("E04")[0])


def test_e14_meters_are_recognised() -> None:
    path, expected = case("E14")

    log = read(path)

    assert (log.reader, records(log)) == ("openpcdet", expected["records"])
    assert log.attempts == expected["attempts"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_fairchem_results_and_lines(ranks: int) -> None:
    results = json.loads((LOGS / f"fairchem_{ranks}rank_benchmark_results.json").read_text())

    pickled = read(LOGS / f"fairchem_{ranks}rank_benchmark_results.pkl").frame
    lines = read(LOGS / f"fairchem_{ranks}rank.log")

    assert pickled["step_s"].tolist() == results["step_times"]
    assert pickled["loss"].tolist() == results["losses"]
    assert (lines.world_size, lines.ended, len(lines.frame), lines.errors) == (ranks, True, 12, ())
    # Both clocks go round one step; that of the lines has the data loading as well. The first has the set-up.
    assert np.allclose(lines.frame["step_s"][1:], pickled["step_s"][1:], rtol=0.02)


def test_opentau_json_and_console_agree() -> None:
    from_json = read(LOGS / "opentau_profile_step_baseline.json").frame
    console = read(LOGS / "opentau_profile_step_baseline.log").frame

    assert from_json["step_s"].max() == 1.158041528787114
    assert np.allclose(from_json["step_s"], console["step_s"], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fairchem_training_benchmark.log", "two runs into one log"),
        ("fairchem_training_benchmark_report.json", "one mean for each of two runs"),
        ("fairchem_checksums", "they hold no times"),
        ("opentau_profile_dataloader.log", "measures fetching alone"),
        ("opentau_benchmark_inference.json", "single inferences"),
    ],
)
def test_known_logs_without_step_times(name: str, said: str) -> None:
    with pytest.raises(ReadError, match=said):
        read(LOGS / name)


@pytest.mark.parametrize(
    ("name", "steps", "world_size"),
    [
        ("lerobot_1rank.log", 12, 1),
        ("lerobot_1rank_noprogress.log", 3, 1),
        ("lerobot_2rank.log", 12, 2),
        ("lerobot_2rank_wrapper.log", 12, 2),
        ("lerobot_2rank_torchrun_full_stderr.log", 12, 2),
        ("lerobot_launch_asked2_got1.log", 12, 1),
        ("lerobot_v061_1rank.log", 12, 1),
        ("lerobot_8rank_synthetic_baseline_r1.log", 300, 8),
    ],
)
def test_lerobot_logs(name: str, steps: int, world_size: int) -> None:
    log = read(LOGS / name)

    assert log.reader == "lerobot"
    assert log.frame["step"].tolist() == list(range(1, steps + 1))
    assert (log.world_size, log.ended, log.errors) == (world_size, True, ())
    assert Tail(LOGS / name).steps() == steps


def test_synthetic_lerobot_runs_are_read_finer_than_printed() -> None:
    medians = []
    for arm in ("baseline", "candidate"):
        frame = read(LOGS / f"lerobot_8rank_synthetic_{arm}_r1.log").frame
        assert np.abs(frame["step_s"] - frame["printed_step_s"]).max() <= 0.000501
        medians.append(frame["step_s"][50:].median())

    assert medians == pytest.approx([0.0279, 0.0130], abs=0.0004)


def test_abbreviated_lerobot_steps_come_from_the_bar() -> None:
    log = read(LOGS / "lerobot_step_abbreviation_excerpt.log")

    assert log.frame["step"].tolist() == [*range(14, 18), *range(997, 1004), *range(1497, 1504)]


@pytest.mark.parametrize(
    "path", sorted(LOGS.glob("*error*.log")) + sorted(LOGS.glob("*sigabrt.log")), ids=lambda p: p.name
)
def test_failed_runs_hold_no_steps(path: Path) -> None:
    with pytest.raises(ReadError, match="no reader recognises it"):
        read(path)
