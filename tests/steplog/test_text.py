from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace.errors import ReadError, UsageError
from interlace.steplog import read
from interlace.steplog.text import LONG_CHARS, Splitter, records_of, strip_control

if TYPE_CHECKING:
    from pathlib import Path


def split(*chunks: bytes) -> list[str]:
    splitter = Splitter()
    found = [record.text for chunk in chunks for record in splitter.feed(chunk)]
    return found + [record.text for record in splitter.finish()]


def test_lines_end_at_newline_and_carriage_return() -> None:
    assert split(b"a\nb\r\nc\rd") == ["a", "b", "c", "d"]


def test_an_unfinished_last_record_is_marked() -> None:
    splitter = Splitter()
    ended = [*splitter.feed(b"a\nb"), *splitter.finish()]

    assert [(r.text, r.line, r.ended) for r in ended] == [("a", 1, True), ("b", 2, False)]


@given(st.binary(max_size=60), st.integers(0, 60))
def test_where_the_chunks_are_cut_makes_no_difference(data: bytes, at: int) -> None:
    assert split(data[:at], data[at:]) == split(data)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [("\x1b[38;2;1;2;3mstep\x1b[0m: 1", "step: 1"), ("\x1b]0;title\x07a", "a"), ("\x1b]8;;x\x1b\\a", "a"),
     ("a\x1b[3", "a"), ("\x1b[K\x1b[2Aa", "a"), ("\x00a\ufeff", "a")],
)  # fmt: skip
def test_terminal_control_is_removed(raw: str, plain: str) -> None:
    assert strip_control(raw) == plain


def test_a_huge_line_is_handed_on_in_pieces_within_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    path.write_bytes(b"step=1 step_s=0.5 " * 600_000)
    tracemalloc.start()

    longest = max(len(record.text) for record in records_of(path))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert longest <= LONG_CHARS
    assert peak < path.stat().st_size / 3


def test_every_record_of_one_long_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("".join(f"step={n} step_ms={n} " for n in range(1, 8001)))
    assert path.stat().st_size > 2 * LONG_CHARS

    for pattern in (None, r"step=(?P<step>\d+) step_ms=(?P<step_ms>\d+)"):
        frame = read(path, pattern=pattern).frame

        assert frame["step"].tolist() == list(range(1, 8001))
        assert frame["step_s"].tolist() == [n / 1000 for n in range(1, 8001)]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"\n \n", "is empty"), (bytes(range(256)) * 40, "is binary data"),
     (b"\x1f\x8b\x08rest", "is gzip data")],
)  # fmt: skip
def test_a_file_that_is_no_log_is_named_as_what_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(content)

    with pytest.raises(ReadError, match=message):
        read(path)


def test_a_missing_file_and_a_folder_are_said(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="there is no such file"):
        read(tmp_path / "absent.log")
    with pytest.raises(ReadError, match="is a folder without recorder logs"):
        read(tmp_path)


def test_the_folder_of_a_run_is_told_which_of_its_logs_to_name(tmp_path: Path) -> None:
    for name, content in (("started.json", "{}"), ("stdout.log", "step=1 step_s=0.5\n"), ("stderr.log", "")):
        (tmp_path / name).write_text(content)

    with pytest.raises(ReadError) as raised:
        read(tmp_path)

    assert str(raised.value) == f"{tmp_path}: it is the folder of a run; name the log in it: {tmp_path}/stdout.log"


def test_records_below_a_long_preamble_are_found(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("NCCL INFO channel 00 to 01 via P2P\n" * 20_000 + "step=1 step_s=0.5\n")

    log = read(path)

    assert log.frame["step_s"].tolist() == [0.5]
    assert "KiB of other output" in log.why


def test_an_unknown_reader_or_unit_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step=1 step_s=0.5\n")

    with pytest.raises(UsageError, match=r"reader=lerobt is not known \(did you mean lerobot\?\)"):
        read(path, reader="lerobt")
    with pytest.raises(UsageError, match="unit=h is not known; choose one of s, ms, us"):
        read(path, unit="h")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="exclude each other"):
        read(path, reader="csv", pattern="(?P<step_s>x)")
