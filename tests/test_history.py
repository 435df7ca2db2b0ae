from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.history import Noise, history_path, node_key, recall, remember, unusual

if TYPE_CHECKING:
    from pathlib import Path

TODAY = Noise("n", "w", 1.0, 0.002, None, "s1")


def test_a_sweep_is_remembered_and_earlier_ones_of_its_node_and_workload_come_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "noise.jsonl"
    for number in range(3):
        remember(replace(TODAY, sweep=f"old{number}"), path)
    remember(replace(TODAY, node="other", sweep="x"), path)
    remember(replace(TODAY, workload="other", sweep="y"), path)

    assert [one.sweep for one in remember(TODAY, path)] == ["old0", "old1", "old2"]
    assert len(recall(path)) == 6


def test_a_sweep_that_is_resumed_is_remembered_once(tmp_path: Path) -> None:
    path = tmp_path / "noise.jsonl"
    remember(TODAY, path)

    assert remember(TODAY, path) == []
    assert recall(path) == [TODAY]


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "noise.jsonl"
    remember(TODAY, path)
    path.write_text(path.read_text() + '{"node": "n", "work')

    assert recall(path) == [TODAY]


def test_a_history_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert remember(TODAY, tmp_path / "file" / "noise.jsonl") == []


def test_noise_far_from_what_is_usual_is_said_from_three_earlier_sweeps_on() -> None:
    usual = [replace(TODAY, s_run=0.001, sweep=str(number)) for number in range(3)]

    assert unusual(TODAY, usual) is None
    assert "noisier than usual: run-to-run sd 0.3 %" in (unusual(replace(TODAY, s_run=0.003), usual) or "")
    assert "quieter than usual" in (unusual(replace(TODAY, s_run=0.0004), usual) or "")
    assert unusual(replace(TODAY, s_run=0.003), usual[:2]) is None


def test_a_node_is_its_name_and_its_gpus() -> None:
    one = {"hostname": "a", "gpus": [{"gpu": {"uuid": "GPU-1"}}, {"gpu": {"uuid": "GPU-2"}}]}

    assert node_key(one) == node_key({**one, "gpus": one["gpus"][::-1]})
    assert node_key(one) != node_key({**one, "gpus": []})


def test_the_history_lies_where_the_user_keeps_state() -> None:
    assert str(history_path({"XDG_STATE_HOME": "/x"})) == "/x/interlace/noise.jsonl"
    assert str(history_path({"HOME": "/h"})) == "/h/.local/state/interlace/noise.jsonl"
