from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace.steplog.numbers import parse_count, parse_duration, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [("0,412", 0.412), ("1.234", 1.234), ("12,5", 12.5), ("1,2345", 1.2345), ("1e-1", 0.1), (".5", 0.5),
     ("1.234,5", 1234.5), ("1,234.5", 1234.5), ("1,234,567", 1234567.0), ("-0,5", -0.5),
     ("1\u00a0001.5", 1001.5), ("1\u202f001,5", 1001.5), ("1'001.5", 1001.5)],
)  # fmt: skip
def test_a_time_is_read_where_it_can_mean_one_thing_only(text: str, value: float) -> None:
    assert parse_number(text) == (value, None, False)


@pytest.mark.parametrize("text", ["1,234", "12,345", "999,000"])
def test_a_time_that_can_mean_two_things_is_refused(text: str) -> None:
    assert parse_number(text) == (None, "ambiguous_decimal_comma", False)


@pytest.mark.parametrize(("text", "value"), [("1,234", 1234.0), ("1,234,567.5", 1234567.5), ("12,5", 12.5)])
def test_a_comma_in_a_count_marks_thousands(text: str, value: float) -> None:
    assert parse_number(text, count=True).value == value


@pytest.mark.parametrize("text", ["", "abc", "1,23,456", "1..2", "0.40rank", "0.412,5", "1 001", "1'01"])
def test_what_is_no_number_is_said(text: str) -> None:
    assert parse_number(text) == (None, "not_a_number", False)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("410 ms", 0.41), ("312.4ms", 0.3124), ("250us", 0.00025), ("250 µs", 0.00025), ("1,05s", 1.05),
     ("2 min", 120.0), ("0.5 sec", 0.5)],
)  # fmt: skip
def test_a_printed_unit_counts(text: str, seconds: float) -> None:
    assert parse_duration(text).value == seconds


def test_without_a_printed_unit_the_option_counts() -> None:
    assert parse_duration("410", "ms").value == 0.41


@pytest.mark.parametrize(("text", "value"), [("1.5K", 1500.0), ("2K", 2000.0), ("1M", 1e6)])
def test_an_abbreviated_count_is_marked_as_rounded(text: str, value: float) -> None:
    assert parse_count(text) == (value, None, True)


@given(st.floats(min_value=1e-6, max_value=999.0))
def test_every_printed_millisecond_reads_back(seconds: float) -> None:
    printed = f"{seconds * 1000:.3f}"

    assert parse_duration(f"{printed} ms").value == pytest.approx(float(printed) / 1000, rel=1e-14)


@given(st.integers(1000, 10**9), st.sampled_from([",", ".", "\u00a0", "\u202f", "'", "_"]))
def test_thousands_of_any_country_are_read_as_such_or_refused(whole: int, mark: str) -> None:
    assert parse_number(f"{whole:,}".replace(",", mark), count=mark != ".").value in {float(whole), None} | (
        {whole / 1000} if mark == "." else set()
    )
