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
@pytest.mark.parametrize("key", ["val_loss", "eval/accuracy", "validation_loss", "test_f1"])
def test_a_row_with_a_value_of_validation_and_without_the_loss_is_left_out(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str], key: str
) -> None:
    validated = {"step": 4, "step_s": 5.5, key: 1.2}
    made = [*(training(step) for step in range(1, 5)), validated, *(training(step) for step in range(5, 9))]

    log = read_text(write(made))

    assert rows(log) == [(step, 0.4) for step in range(1, 9)]
    assert codes(log.notes) == ["validation_rows"]
    assert "1 rows with values of validation and without `loss`" in next(n for n in log.notes if "validation" in n)


@type_of_log
def test_a_training_row_that_a_value_of_validation_was_added_to_stays(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str]
) -> None:
    log = read_text(write([training(1), training(2, val_loss=1.2), training(3)]))

    assert rows(log) == [(1, 0.4), (2, 0.4), (3, 0.4)]
    assert codes(log.notes) == []


@type_of_log
def test_where_training_rows_have_no_value_of_their_own_nothing_is_left_out(
    read_text: ReadText, write: Callable[[Sequence[Mapping[str, float]]], str]
) -> None:
    bare = [{"step": 1, "step_s": 0.4}, {"step": 2, "step_s": 0.4, "val_loss": 1.2}, {"step": 3, "step_s": 0.4}]

    assert rows(read_text(write(bare))) == [(1, 0.4), (2, 0.4), (3, 0.4)]
