"""Formats that are no lines of text: fairchem's pickle, OpenTau's JSON and console, TensorBoard, W&B."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from interlace.errors import ReadError
from interlace.steplog import read
from interlace.steplog.formats.event_records import masked_crc32c
from tests.steplog.series import by_rank, codes, rows

RESULTS = {"losses": [3.0, 2.0], "grad_norms": [0.5, None], "step_times": [9.5, 0.41], "peak_memory_mb": 1024.0}


class Trap:
    """What a hostile pickle does when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_benchmark_results_are_read_from_step_0(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "benchmark_results.pkl"
    path.write_bytes(pickle.dumps(RESULTS, protocol=protocol))

    log = read(path)

    assert (log.reader, log.kind) == ("fairchem_results", "single")
    assert rows(log) == [(0, 9.5), (1, 0.41)]
    assert log.frame["loss"].tolist() == [3.0, 2.0]
    assert log.frame["peak_memory_mib"].tolist() == [1024.0, 1024.0]
    assert "the last that wrote the file" in " ".join(log.notes)


def test_a_pickle_that_would_run_code_is_refused_unopened(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    (tmp_path / "r.pkl").write_bytes(pickle.dumps({"step_times": [Trap(touched)]}))

    with pytest.raises(ReadError, match=r"refused, the pickle would load \S*open; only plain lists"):
        read(tmp_path / "r.pkl")

    assert not touched.exists()


def test_a_pickle_with_tensors_says_what_to_do(tmp_path: Path) -> None:
    # As torch writes a tensor: GLOBAL torch._utils _rebuild_tensor_v2, then its arguments.
    body = pickle.dumps({"step_times": [0.5], "losses": ["HERE"]}, protocol=2)
    tensor = body.replace(b"X\x04\x00\x00\x00HERE", b"ctorch._utils\n_rebuild_tensor_v2\n")
    assert tensor != body
    (tmp_path / "r.pkl").write_bytes(tensor)

    with pytest.raises(
        ReadError, match=r"torch\._utils\._rebuild_tensor_v2; it holds tensors: with print_every above 1"
    ):
        read(tmp_path / "r.pkl")


@pytest.mark.parametrize("index", [b"\xff\xff\xff\x7f", b"\x00\x00\x00\x20"])
def test_a_pickle_that_asks_for_all_memory_is_refused(tmp_path: Path, index: bytes) -> None:
    body = pickle.dumps({"step_times": [0.5]}, protocol=2)
    (tmp_path / "r.pkl").write_bytes(body.replace(b"}q\x00", b"}r" + index, 1))

    with pytest.raises(ReadError, match="broken or cut"):
        read(tmp_path / "r.pkl")


@pytest.mark.parametrize("size", [40, 60])
def test_a_cut_pickle_is_an_error(tmp_path: Path, size: int) -> None:
    (tmp_path / "r.pkl").write_bytes(pickle.dumps({"step_times": [0.5] * 9, **RESULTS})[:size])

    with pytest.raises(ReadError, match="broken or cut"):
        read(tmp_path / "r.pkl")


def test_a_value_that_is_no_number_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "r.pkl").write_bytes(pickle.dumps({"step_times": [0.5, "fast", 0.4]}))

    log = read(tmp_path / "r.pkl")

    assert rows(log) == [(0, 0.5), (2, 0.4)]
    assert log.errors == ("not_a_number:1: step_times[1] is no number: `'fast'`",)


def test_a_folder_of_checksums_is_known_and_has_no_times(tmp_path: Path) -> None:
    (tmp_path / "ddp2.0_gp0.0_step0.txt").write_text("Loss,1.5\nParam,0,module.w,0.1\n")

    with pytest.raises(ReadError, match=r"checksum files of fairchem(.|\n)*no times"):
        read(tmp_path)


PROFILES = Path(__file__).parents[2] / "docs" / "results" / "opentau_cpu" / "profiles"

PROFILE = {
    "warmup": 20, "measured": 200, "num_processes": 2, "batch_size": 12,
    "phase_means_s": {"forward": 0.3, "bwd": 0.6, "total": 1.0}, "phase_medians_s": {"total": 1.0},
    "global_step_time_s": 1.1, "per_rank_step_time_s": [1.0, 1.1], "per_rank_peak_alloc_gb": [50.0, 51.5],
}  # fmt: skip

CONSOLE = """\
INFO 2026-01-02 03:04:05 ile_step.py:153 profile_step: warmup=20, measured=200, num_processes=2, batch_size=12
INFO 2026-01-02 03:05:05 ile_step.py:500 step 50/220 done (last step total=1061.4ms)
INFO 2026-01-02 03:06:05 ile_step.py:500 step 100/220 done (last step total=1054.1ms)

=========== profile_step results ===========
warmup=20 measured=200 ranks=2
phase            stats (rank 0)                                                  share
forward          mean= 300.00ms  median= 299.00ms  p95= 310.00ms                30.0%
total            mean=1000.00ms  median=1001.00ms  p95=1009.00ms                <-- total

throughput (global, gated by slowest rank):
  global step time:  1100.00 ms
  per-rank step time means (ms): [1000.00, 1100.00]
"""


def test_a_profiles_json_and_its_console_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(PROFILE, indent=2))
    (tmp_path / "profile.log").write_text(CONSOLE)

    for name in ("profile.json", "profile.log"):
        log = read(tmp_path / name)
        assert (log.reader, log.kind, log.world_size) == ("opentau", "mean", 2)
        assert by_rank(log) == {0: [(220, 1.0)], 1: [(220, 1.1)]}
        assert log.frame["phase.forward"].tolist()[0] == 0.3
        assert "one_value" in codes(log.notes)


def test_the_sum_that_stands_beside_a_profiles_phases_is_none_of_them(tmp_path: Path) -> None:
    means = {"forward": 0.3, "bwd": 0.5, "optim_step": 0.1, "backward_step": 0.6, "total": 1.0}
    (tmp_path / "profile.json").write_text(json.dumps({**PROFILE, "phase_means_s": means}))

    frame = read(tmp_path / "profile.json").frame

    assert [name for name in map(str, frame) if name.startswith("phase.")] == [
        "phase.forward",
        "phase.bwd",
        "phase.optim_step",
    ]


def test_the_allocators_peak_of_a_profile_is_in_mib_as_trainers_hand_it_to_the_recorder(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps({**PROFILE, "per_rank_peak_alloc_gb": [2.097152, 0.0]}))

    assert read(tmp_path / "profile.json").frame["peak_allocated_mib"].tolist()[0] == pytest.approx(2000.0)


def test_a_profile_of_cpu_ranks_has_the_mean_of_rank_0_alone_and_says_so(tmp_path: Path) -> None:
    """As OpenTau 0.13.0 writes it without CUDA."""
    alone = {"per_rank_step_time_s": [1.0], "per_rank_peak_alloc_gb": [0.0], "per_rank_peak_reserved_gb": [0.0]}
    (tmp_path / "profile.json").write_text(json.dumps({**PROFILE, **alone}))

    log = read(tmp_path / "profile.json")

    assert (log.world_size, by_rank(log)) == (2, {0: [(220, 1.0)]})
    assert "peak_allocated_mib" not in log.frame
    assert any(note.startswith("one_rank: profile_step kept the mean of 1 of 2 ranks") for note in log.notes)


def test_profiles_that_opentau_wrote_on_two_cpu_ranks_are_read() -> None:
    """Those of docs/results/opentau_cpu, as profile_step left them."""
    logs = [read(path) for path in sorted(PROFILES.glob("*.json"))]

    assert [(log.reader, log.kind, log.world_size, log.errors) for log in logs] == [("opentau", "mean", 2, ())] * 8
    for log in logs:
        phases = log.frame[[name for name in map(str, log.frame) if name.startswith("phase.")]]
        assert phases.sum(axis="columns").tolist() == pytest.approx(log.frame["step_s"].tolist(), rel=1e-6)


def test_a_profile_that_was_killed_has_single_steps_of_rank_0(tmp_path: Path) -> None:
    (tmp_path / "profile.log").write_text(CONSOLE.split("\n\n", maxsplit=1)[0] + "\n")

    log = read(tmp_path / "profile.log")

    assert by_rank(log) == {0: [(50, 1.0614), (100, 1.0541)]}
    assert log.kind == "single"
    assert "no_summary" in codes(log.notes)


def test_a_cut_profile_json_is_an_error(tmp_path: Path) -> None:
    text = json.dumps({**PROFILE, "z": 1})
    (tmp_path / "profile.json").write_text(text[:-4])

    with pytest.raises(ReadError, match="the JSON is cut"):
        read(tmp_path / "profile.json")


# Protocol buffers, encoded by hand: the wire format of event.proto and wandb_internal.proto.


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def part(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def framed(event: bytes) -> bytes:
    head = struct.pack("<Q", len(event))
    return head + struct.pack("<I", masked_crc32c(head)) + event + struct.pack("<I", masked_crc32c(event))


def scalar(tag: str, value: float, *, tensor: bool = False) -> bytes:
    plain = b"\x15" + struct.pack("<f", value)
    deep = part(8, number(1, 1) + part(5, struct.pack("<f", value)))
    return part(1, part(1, tag.encode()) + (deep if tensor else plain))


def event(step: int, wall_s: float, *scalars: bytes) -> bytes:
    return framed(b"\x09" + struct.pack("<d", wall_s) + number(2, step) + part(5, b"".join(scalars)))


VERSION = framed(b"\x09" + struct.pack("<d", 1e9) + part(3, b"brain.Event:2"))
EVENTS = "events.out.tfevents.1764432000.node.1.0"


def test_the_checksum_is_that_of_the_castagnoli_polynomial() -> None:
    crc = 0xE3069283  # of b"123456789", from RFC 3720
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("tensor", [False, True])
def test_a_tag_that_states_a_step_time_is_read_with_the_others_beside_it(tmp_path: Path, tensor: bool) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(VERSION + b"".join(
        event(n, 1764432000 + n, scalar("train/loss", 1 / n, tensor=tensor), scalar("train/step_time_s", 0.4 + n / 100))
        + event(n, 1764432000 + n, scalar("val/step_time_s", 0.1)) for n in range(1, 4)))  # fmt: skip

    log = read(path)

    assert (log.reader, log.kind) == ("tensorboard", "not said")
    assert rows(log) == [(1, 0.41), (2, 0.42), (3, 0.43)]
    assert log.frame["train/loss"].tolist() == [1.0, 0.5, 0.33333334]
    assert (log.started_at, log.finished_at) == (1764432001.0, 1764432003.0)


def test_without_such_a_tag_the_wall_clock_gives_means(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(VERSION + b"".join(
        event(n, 1764432000 + n * 0.41, scalar("train/loss", 1.0)) for n in range(10, 50, 10)))  # fmt: skip

    log = read(tmp_path)

    assert rows(log) == [(20, 0.41), (30, 0.41), (40, 0.41)]
    assert (log.kind, log.cumulative) == ("mean", True)
    assert {"wall_clock", "from_clock"} <= set(codes(log.notes))


def test_a_folder_with_a_restart_counts_the_later_events(tmp_path: Path) -> None:
    for n, (first, last, time) in enumerate([(1, 6, 0.5), (4, 9, 0.4)]):
        (tmp_path / f"events.out.tfevents.176443200{n}.node.1.0").write_bytes(
            VERSION + b"".join(event(s, 1e9 + s, scalar("step_time_ms", time * 1e3)) for s in range(first, last))
        )

    log = read(tmp_path)

    assert rows(log) == [(1, 0.5), (2, 0.5), (3, 0.5), *[(s, 0.4) for s in range(4, 9)]]
    assert log.attempts == 2


def test_an_event_file_cut_anywhere_is_read_up_to_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    whole = VERSION + b"".join(event(n, 1e9 + n, scalar("step_s", n / 10)) for n in (1, 2, 3))
    last = len(event(3, 1e9 + 3, scalar("step_s", 0.3)))

    for size in range(len(whole) - last + 1, len(whole)):
        path.write_bytes(whole[:size])
        log = read(path)
        assert rows(log) == [(1, 0.1), (2, 0.2)]
        assert "truncated_tail" in codes(log.notes)


def test_nothing_behind_a_wrong_checksum_is_trusted(tmp_path: Path) -> None:
    parts = [VERSION, *(event(n, 1e9 + n, scalar("step_s", n / 10)) for n in (1, 2, 3))]
    parts[2] = parts[2][:-6] + b"\x00\x00" + parts[2][-4:]
    (tmp_path / EVENTS).write_bytes(b"".join(parts))

    log = read(tmp_path / EVENTS)

    assert rows(log) == [(1, 0.1)]
    assert "has a wrong checksum; nothing behind it was read" in log.errors[0]


def history(step: int, **values: float) -> bytes:
    items = b"".join(
        part(1, part(1, key.encode()) + part(16, json.dumps(value).encode())) for key, value in values.items()
    )
    return part(2, items + part(2, number(1, step)))


def leveldb(messages: list[bytes]) -> bytes:
    """Write messages as W&B does: blocks of 32 KiB, a message cut into pieces where a block ends."""
    data = b":W&B\xe1\xbe\x00"
    for message in messages:
        rest, begun = message, False
        while rest or not begun:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += b"\x00" * room
                continue
            body, rest = rest[: room - 7], rest[room - 7 :]
            kind = (3 if rest else 4) if begun else (2 if rest else 1)
            data += struct.pack("<IHB", zlib.crc32(bytes([kind]) + body), len(body), kind) + body
            begun = True
    return data


def test_an_offline_run_is_read_across_its_blocks(tmp_path: Path) -> None:
    messages = [
        history(n, **{"train/step_time_s": 0.4 + n / 1e5, "loss": 1.0, "global_step": n * 2.0}) for n in range(999)
    ]
    (tmp_path / "run-abc.wandb").write_bytes(leveldb([part(17, b"x"), *messages]))

    for path in (tmp_path, tmp_path / "run-abc.wandb"):
        log = read(path)
        assert log.reader == "wandb"
        assert rows(log) == [(n * 2, 0.4 + n / 1e5) for n in range(999)]


def test_a_run_without_step_times_is_read_by_its_runtime(tmp_path: Path) -> None:
    messages = [history(n, _runtime=1 + n * 0.41, loss=1.0) for n in range(4)]
    (tmp_path / "run-abc.wandb").write_bytes(leveldb(messages))

    log = read(tmp_path / "run-abc.wandb")

    assert rows(log) == [(1, 0.41), (2, 0.41), (3, 0.41)]
    assert (log.kind, log.cumulative) == ("single", True)


def test_a_run_cut_by_a_kill_or_damaged_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    whole = leveldb([history(n, step_s=0.4) for n in range(3)])

    path.write_bytes(whole[:-5])
    log = read(path)
    assert rows(log) == [(0, 0.4), (1, 0.4)]
    assert "truncated_tail" in codes(log.notes)

    path.write_bytes(whole[:-3] + b"\x00\x00\x00")
    log = read(path)
    assert rows(log) == [(0, 0.4), (1, 0.4)]
    assert "wrong checksum" in log.errors[0]


def test_rows_with_another_counter_give_no_differences(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    train = '{{"_step": {0}, "_runtime": {1}, "train/loss": 0.5, "train/global_step": {2}}}\n'
    other = '{{"_step": {0}, "_runtime": {1}, "gpu/temp": 60}}\n'
    pairs = [train.format(2 * n, n * 4.1, n * 10) + other.format(2 * n + 1, n * 4.1 + 1) for n in (1, 2, 3)]
    path.write_text("".join(pairs) + train.format(8, 16.4, 40))

    log = read(path)

    assert rows(log) == [(20, 0.41), (30, 0.41), (40, 0.41)]
    assert "other_counter" in codes(log.notes)


def test_an_exported_history_is_read_with_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    row = '{{"_step": {0}, "_runtime": {1}, "_timestamp": 1764432000.5, "train/loss": 0.5, "train/global_step": {2}}}\n'
    path.write_text("".join(row.format(n, 1 + n * 4.1, n * 10) for n in (1, 2, 3)))

    log = read(path)

    assert rows(log) == [(20, 0.41), (30, 0.41)]
    assert log.kind == "mean"
