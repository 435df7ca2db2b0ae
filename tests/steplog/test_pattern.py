from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError, UsageError
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from tests.steplog.conftest import ReadText

OWN = r"rank=(?P<rank>\d+) step=(?P<step>\d+) step_s=(?P<step_s>[\d.]+)"


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [(r"it (?P<step>\d+) took (?P<step_ms>[\d.]+)", "s"), (r"it (?P<step>\d+) took (?P<step_s>[\d.]+)", "ms")],
)
def test_the_unit_is_the_group_or_the_option(read_text: ReadText, pattern: str, unit: str) -> None:
    log = read_text("it 1 took 410.5, it 2 took 400\n", pattern=pattern, unit=unit)

    assert log.reader == "pattern"
    assert rows(log) == [(1, 0.4105), (2, 0.4)]


def test_other_groups_are_columns(read_text: ReadText) -> None:
    log = read_text("1 0.5 2.25\n", pattern=r"(?P<step>\d+) (?P<step_s>\S+) (?P<loss>\S+)")

    assert log.frame["loss"].tolist() == [2.25]


def test_a_cumulative_clock_may_be_named(read_text: ReadText) -> None:
    text = "step:1/3 train_time:100ms\nstep:2/3 train_time:230ms\nstep:3/3 train_time:350ms\n"

    log = read_text(text, pattern=r"step:(?P<step>\d+)/\d+ train_time:(?P<end_ms>\d+)ms")

    assert rows(log) == [(2, 0.13), (3, 0.12)]
    assert log.cumulative


def test_glued_ranks_and_torn_values_are_repaired_here_too(read_text: ReadText) -> None:
    log = read_text("rank=0 step=1 step_s=0.500\nrank=0 step=2 step_s=0.40rank=1 step=2 step_s=0.410\n5\n", pattern=OWN)

    assert by_rank(log) == {0: [(1, 0.5), (2, 0.405)], 1: [(2, 0.41)]}


def test_no_match_is_an_error_that_shows_pattern_file_and_lines(read_text: ReadText) -> None:
    with pytest.raises(ReadError) as raised:
        read_text("2026-01-02 step=1 loss=0.5 lr=0.4\n", pattern=r"step_s=(?P<step_s>[0-9.]+)")

    for shown in ("train.log", "pattern: step_s=(?P<step_s>[0-9.]+)", "| 2026-01-02 step=1 loss=0.5 lr=0.4"):
        assert shown in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is no regular expression"),
        (r"[\d.]+", r"pattern='\[\\d\.\]\+' has no group for the time"),
        ("", "needs a pattern"),
    ],
)
def test_a_pattern_that_cannot_work_is_a_usage_error(read_text: ReadText, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_text("x\n", pattern=pattern)


def test_an_ambiguous_comma_is_refused(read_text: ReadText) -> None:
    log = read_text("1 1,234\n2 0,4\n", pattern=r"(?P<step>\d) (?P<step_s>[\d,]+)")

    assert rows(log) == [(2, 0.4)]
    assert codes(log.errors) == ["ambiguous_decimal_comma:1"]
