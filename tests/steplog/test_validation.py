"""Rows that only their keys tell to be of validation, in each form that has keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.steplog.series import codes, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.steplog.conftest import ReadText


def _line(row: Mapping[str, float]) -> str:
    return " ".join(f"{key}={value}" for key, value in row.items())


def _table(rows: Sequence[Mapping[str, float]]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [",".join(keys), *(",".join(str(row.get(key, "")) for key in keys) for row in rows)]
    return "\n".join(lines) + "\n"


type_of_log = pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows), id="jsonl"),
        pytest.param(lambda rows: "".join(f"{_line(row)}\n" for row in rows), id="keyvalue"),
        pytest.param(_table, id="csv"),
    ],
)


def training(step: int, **more: float) -> dict[str, float]:
    return {"step": step, "step_s": 0.4, "loss": 1.5, **more}


@type_of_log
@pytest.mark.parametrize(
    ("own", "validated"),
    [
        pytest.param({"loss": 1.5}, {"val_loss": 1.2}, id="its own loss"),
        pytest.param({"loss": 1.5}, {"eval/accuracy": 0.5}, id="nothing like the training's"),
        pytest.param({"loss": 1.5}, {"loss": 1.5, "validation_loss": 1.2}, id="the training's loss, too"),
        pytest.param({}, {"test_f1": 0.5}, id="training logs nothing"),
    ],
)
def test_a_step_once_more_with_a_value_of_validation_is_left_out(
    read_text: ReadText,
    write: Callable[[Sequence[Mapping[str, float]]], str],
    own: Mapping[str, float],
    validated: Mapping[str, float],
) -> None:
    made: list[Mapping[str, float]] = [{"step": step, "step_s": 0.4, **own} for step in range(1, 9)]

    log = read_text(write([*made[:4], {"step": 4, "step_s": 5.5, **validated}, *made[4:]]))

    assert rows(log) == [(step, 0.4) for step in range(1, 9)]
    assert codes(log.notes) == ["validation_rows"]
    key = next(name for name in validated if name != "loss")
    assert f"1 rows that say a step again, with `{key}`, were left out" in log.notes[-1]


@type_of_log
def test_a_training_row_that_a_value_of_validation_was_added_to_stays(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str]
) -> None:
    log = read_text(write([training(1), training(2, val_loss=1.2), training(3)]))

    assert rows(log) == [(1, 0.4), (2, 0.4), (3, 0.4)]
    assert codes(log.notes) == []


@type_of_log
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"step": 4, "step_s": 9.5, "val_loss": 1.2}, id="a step that stands once"),
        pytest.param({"step": 3, "step_s": 0.4, "dev_id": 0.0}, id="dev is a device"),
        pytest.param({"step": 3, "step_s": 0.4, "best_val_loss": 1.2}, id="not its beginning"),
    ],
)
def test_a_row_that_is_not_certainly_of_validation_stays(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str], odd: Mapping[str, float]
) -> None:
    log = read_text(write([training(1, lr=0.1), training(2), training(3), odd, training(5)]))

    assert (odd["step"], odd["step_s"]) in rows(log)
    assert "validation_rows" not in codes(log.notes)


@type_of_log
def test_ranks_that_log_other_values_are_no_validation(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str]
) -> None:
    made = [training(step) if rank == 0 else {"step": step, "step_s": 0.6, "eval_time": 0.0}
            for step in range(1, 7) for rank in (0, 1)]  # fmt: skip

    log = read_text(write(made))

    assert rows(log) == [(step, 0.6) for step in range(1, 7)]
    assert "validation_rows" not in codes(log.notes)


def test_of_ranks_without_a_name_none_is_left_out_for_a_value_of_its_own(read_text: ReadText) -> None:
    times = (0.9, 0.6, 0.5, 0.4)
    made = [{"step": step, "step_s": time, "loss": 1.5, **({"eval_acc": 0.5} if time == 0.4 and step % 5 == 0 else {})}
            for step in range(1, 21) for time in times]  # fmt: skip

    log = read_text("".join(f"{_line(row)}\n" for row in made))

    assert rows(log) == [(step, 0.9) for step in range(1, 21)]


def test_a_clock_that_runs_on_through_a_validation_keeps_its_rows(read_text: ReadText) -> None:
    made = [training(1, end_s=0.4), training(2, end_s=0.8), {"step": 2, "step_s": 9.0, "end_s": 9.8, "val_loss": 1.0}]
    text = "".join(f"{json.dumps(row)}\n" for row in [*made, training(3, end_s=10.2)])

    assert dict(rows(read_text(text)))[3] == 0.4


@type_of_log
def test_where_training_rows_have_no_value_of_their_own_nothing_is_left_out(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str]
) -> None:
    bare = [{"step": 1, "step_s": 0.4}, {"step": 2, "step_s": 0.4, "val_loss": 1.2}, {"step": 3, "step_s": 0.4}]

    assert rows(read_text(write(bare))) == [(1, 0.4), (2, 0.4), (3, 0.4)]
