"""Reading files: in pieces or whole, packed or not, of any age, and broken."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from interlace.trace import decode
from interlace.trace.columns import read_trace
from interlace.trace.metrics import measure
from tests.traces.made import GPU, HOST, Made, plain

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_says_the_same_in_pieces_and_whole_packed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plain(rank=3, world=8, steps=5, reduce_us=100)
    whole = made.measured(tmp_path)
    packed = measure(read_trace(made.written(tmp_path / "rank-0.json.gz")))
    monkeypatch.setattr(decode, "PIECE_BYTES", 400)
    assert len(list(decode.pieces(made.text()))) > 5

    in_pieces = made.measured(tmp_path)

    assert whole == in_pieces == replace(packed, name=whole.name)
    assert (whole.rank, whole.world_size, [one.step for one in whole.steps]) == (3, 8, [0, 1, 2, 3, 4])


def test_a_bare_list_of_events_with_the_categories_of_old_exporters_is_read(tmp_path: Path) -> None:
    host, gpu = {"ph": "X", "pid": 1, "tid": "2"}, {"ph": "X", "pid": 0, "tid": "stream 7"}
    events = [
        {**host, "cat": "Operator", "name": "ProfilerStep#5", "ts": 100, "dur": 50},
        {**host, "cat": "Runtime", "name": "cudaLaunchKernel_v7000", "ts": 110, "dur": 2, "args": {"correlation": 9}},
        {**gpu, "cat": "Kernel", "name": "k", "ts": 120, "dur": 10, "args": {"correlation": 9, "stream": 7}},
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    ]
    path = tmp_path / "worker-4.json"
    path.write_text(json.dumps(events))

    found = measure(read_trace(path))

    assert (found.rank, found.steps[0].step, found.steps[0].kernels, found.steps[0].launches) == (4, 5, 1, 1)


BROKEN = {
    "a quote in a name": ('"gemm"', '"ge"mm"'),
    "a line break in a name": ('"gemm"', '"ge\nmm"'),
    "a backslash that escapes nothing": ('"gemm"', '"ge\\mm"'),
    "a number that is none": ('"schemaVersion": 1', '"schemaVersion": nan'),
    "an infinite duration": ('"traceName": "x"', '"overhead": -inf'),
    "a value that is not available": ('"schemaVersion": 1', '"schemaVersion": N/A'),
    "a comma at the end": ("\n  ],", ",\n  ],"),
    "a control character": ('"gemm"', '"ge\x07mm"'),
}


@pytest.mark.parametrize("how", BROKEN)
def test_files_that_are_not_json_are_mended_and_say_so(tmp_path: Path, how: str) -> None:
    good, bad = BROKEN[how]
    made = plain(steps=3)
    text = made.text().decode().replace(good, bad)
    with pytest.raises(ValueError, match=r"Expecting|Invalid"):
        json.loads(text, parse_constant=int)
    path = tmp_path / "rank-0.json"
    path.write_text(text)

    found = measure(read_trace(path))

    assert found.remarks == ("repaired",)
    assert [one.kernels for one in found.steps] == [1, 1, 1]
    assert found.steps == tuple(made.measured(tmp_path, "whole.json").steps)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_was_cut_is_read_up_to_its_last_whole_event(tmp_path: Path, *, packed: bool) -> None:
    text = plain(steps=30).text()
    path = tmp_path / ("cut.json.gz" if packed else "cut.json")
    path.write_bytes(gzip.compress(text)[:-40] if packed else text[: len(text) * 2 // 3])

    found = measure(read_trace(path))

    assert found.remarks == ("cut off: read up to its last whole event",)
    assert len(found.steps) > 10


@pytest.mark.parametrize("content", [b"", b"step=1 loss=2\n", b"\x1f\x8b\x08broken", b"{}x"])
def test_what_is_no_trace_is_told_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(content)

    with pytest.raises(ReadError, match=r"train\.log: not a profiler trace"):
        read_trace(path)


def test_a_trace_without_events_is_told(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"schemaVersion": 1}')

    with pytest.raises(ReadError, match=r"rank-0\.json: a trace without any timed event"):
        read_trace(tmp_path / "rank-0.json")


def test_events_with_a_broken_clock_are_left_out_and_counted(tmp_path: Path) -> None:
    made = plain()
    made.kernel(150, 9e11, 5)
    made.add("kernel", "never", -1e9, 5, GPU, correlation=77)
    made.add("cpu_op", "aten::add", 20, 5, HOST)

    found = made.measured(tmp_path)

    assert [one.kernels for one in found.steps] == [1, 1]
    assert found.remarks == ("2 GPU events lie far outside the profiled time (a broken clock) and are left out",)


def test_a_trace_without_a_gpu_still_has_the_hosts_side(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 100)
    made.add("cpu_op", "aten::add", 20, 5, HOST)
    made.add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, 25, HOST)

    (step,) = made.measured(tmp_path).steps

    assert (step.kernels, step.operators) == (0, 1)
    assert (step.data_ms, step.window_ms) == pytest.approx((0.025, 0.1))


@pytest.mark.parametrize("value", ["[]", "{}", '"x"', "null", "1e999", "-5"])
@pytest.mark.parametrize("key", ["ph", "cat", "name", "ts", "dur", "pid", "tid", "args"])
def test_events_with_odd_values_are_read_or_told_never_a_traceback(tmp_path: Path, key: str, value: str) -> None:
    text = plain(steps=2).text().decode()
    event = '"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, "ts": 5179335460200.5, "dur": 5'
    odd = f'{{{event}, "{key}": {value}}}'
    path = tmp_path / "rank-0.json"
    path.write_text(text.replace('"traceEvents": [', f'"traceEvents": [\n  {odd},', 1))

    try:
        found = measure(read_trace(path))
    except ReadError:
        return
    assert [one.kernels for one in found.steps] == [1, 1]
