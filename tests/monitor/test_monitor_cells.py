from __future__ import annotations

import pytest

from interlace.monitor.cells import (
    Cell,
    is_throttled,
    mask,
    number,
    parse_table,
    sysfs_bus_id,
    throttle_names,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1024 MiB", 1024), ("1024", 1024), ("0 %", 0), ("12.50 W", 12.5), ("1980 MHz", 1980), ("2 GiB", 2048)],
)
def test_a_number_is_read_with_or_without_its_unit(text: str, value: float) -> None:
    assert number(text) == Cell(value, None)


@pytest.mark.parametrize(
    "text",
    ["[N/A]", "N/A", "ERR!", "[Unknown Error]", "[GPU requires reset]", "-", "nan", "inf", "12 parsecs"],
)
def test_any_other_text_is_none_and_kept_as_the_reason(text: str) -> None:
    assert number(text) == Cell(None, text)


@pytest.mark.parametrize("text", ["", "  ", None])
def test_an_empty_cell_is_none_and_says_so(text: str | None) -> None:
    assert number(text) == Cell(None, "empty cell")


@pytest.mark.parametrize(
    ("text", "bus_id"),
    [
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("GPU0000:07:00.0", "0000:07:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("[N/A]", None),
        (None, None),
    ],
)
def test_a_bus_id_is_spelt_as_sysfs_does(text: str | None, bus_id: str | None) -> None:
    assert sysfs_bus_id(text) == bus_id


def test_a_throttle_mask_is_named_bit_by_bit() -> None:
    assert throttle_names(0x60) == ("sw_thermal_slowdown", "hw_thermal_slowdown")
    assert throttle_names(0x800) == ("bit_0x800",)
    assert throttle_names(0) == ()
    assert throttle_names(None) is None


@pytest.mark.parametrize(
    ("bits", "throttled"), [(0, False), (1, False), (2, False), (4, True), (0x41, True), (None, None)]
)
def test_idleness_and_chosen_clocks_are_no_brake(bits: int | None, throttled: bool | None) -> None:
    assert is_throttled(bits) is throttled


def test_a_mask_is_hexadecimal_or_missing() -> None:
    assert mask("0x0000000000000044") == (0x44, None)
    assert mask("Requested functionality has been deprecated") == (
        None,
        "Requested functionality has been deprecated",
    )


def test_commas_in_a_process_name_belong_to_the_name() -> None:
    table = parse_table("uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 7, a,b --x=1,2, 10 MiB\n")

    assert table.rows == ({"uuid": "GPU-1", "pid": "7", "process_name": "a,b --x=1,2", "used_gpu_memory": "10 MiB"},)


def test_columns_count_by_position_when_the_query_is_known() -> None:
    table = parse_table("uuid, somebody_renamed_this\nGPU-1, 0x4\n", ["uuid", "clocks_throttle_reasons.active"])

    assert table.rows == ({"uuid": "GPU-1", "clocks_event_reasons.active": "0x4"},)


def test_a_table_without_header_is_one_value_per_line() -> None:
    assert parse_table(" 16380\n5\n", ["memory.used"]).rows == (
        {"memory.used": "16380"},
        {"memory.used": "5"},
    )


def test_a_line_of_another_length_is_a_stray_not_a_row() -> None:
    table = parse_table("index, uuid\n0, GPU-1\nsomething else\n1, GPU-2, more\n")

    assert (table.rows, table.strays) == (
        ({"index": "0", "uuid": "GPU-1"},),
        ("something else", "1, GPU-2, more"),
    )
