"""Formats whose step or time has to be worked out: blocks, bars, clocks, sums of parts, means of intervals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from interlace.errors import ReadError
from interlace.steplog import Tail, registry
from tests.steplog.samples import BATCH, SAMPLES, nemo, nemo_bar, throughput
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.steplog.conftest import ReadText


# NVIDIA NeMo


def test_nemo_divides_its_first_record_by_too_much_and_that_one_is_left_out(read_text: ReadText) -> None:
    first = nemo(0, 0.2).rpartition(" | ")[0]  # 2.0 s, divided by a log_interval of 10
    log = read_text("\n".join([first, *(nemo(step, 2.0) for step in (10, 20, 30))]) + "\n")

    assert rows(log) == [(10, 2.0), (20, 2.0), (30, 2.0)]
    assert (log.kind, codes(log.notes)) == ("mean", ["first_record", "interval_means"])


def test_nemo_that_prints_each_step_has_single_times_from_iteration_0(read_text: ReadText) -> None:
    first = nemo(0, 7.126).rpartition(" | ")[0]
    log = read_text("\n".join([first, nemo(1, 2.505), nemo(2, 1.505)]) + "\n")

    assert rows(log) == [(0, 7.126), (1, 2.505), (2, 1.505)]
    assert (log.kind, log.errors) == ("single", ())


def test_nemo_of_older_versions_ends_its_lines_with_the_time(read_text: ReadText) -> None:
    line = (
        "Training epoch 0, iteration {0}/4 | lr: 1.499e-07 | consumed_samples: 512 | global_batch_size: 512 |"
        " global_step: {0} | reduced_train_loss: 11.03 | train_step_timing in s: {1}"
    )
    text = "\n".join(line.format(step, time) for step, time in enumerate((61.94, 53.67, 52.5)))

    assert rows(read_text(text + "\n")) == [(0, 61.94), (1, 53.67), (2, 52.5)]
    cut = read_text(text)  # no end of line: the last number may go on
    assert rows(cut) == [(0, 61.94), (1, 53.67)]
    assert codes(cut.notes)[0] == "truncated_tail"


def test_a_nemo_bar_is_first_drawn_with_the_time_of_the_step_before(read_text: ReadText) -> None:
    bars = [nemo_bar(1, 3.1), nemo_bar(2, 3.1), nemo_bar(2, 0.5), nemo_bar(3, 0.5), nemo_bar(3, 0.6), nemo_bar(3, 0.6)]
    late = nemo_bar(999, 0.7).replace("global_step=998.00", "global_step=1e+3")
    second = nemo_bar(5, 0.8).replace("Epoch 0", "Epoch 1")

    log = read_text("\r".join([*bars, late, second]) + "\n")

    assert rows(log) == [(1, 3.1), (2, 0.5), (3, 0.6), (999, 0.7), (1005, 0.8)]
    assert (log.errors, "duplicate_steps" in codes(log.notes)) == ((), False)


# DeepSpeed's wall_clock_breakdown

MICRO = (
    "[2026-01-02 03:04:05,123] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd_microstep: 54.76 |"
    " bwd_microstep: 122.95 | bwd_inner_microstep: 12.22 | bwd_allreduce_microstep: 103.64 | step_microstep: 0.34\n"
)


def breakdown(fwd: float, bwd: float, step: float) -> str:
    return (
        "[2026-01-02 03:04:05,123] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) |"
        f" fwd: {fwd:.2f} | bwd: {bwd:.2f} | bwd_inner: 13.28 | bwd_allreduce: 160.15 | step: {step:.2f}\n"
    )


def test_a_breakdown_is_the_sum_of_its_three_parts_for_all_micro_batches(read_text: ReadText) -> None:
    log = read_text((MICRO * 2 + breakdown(55.15, 180.82, 183.61)) + (MICRO * 2 + breakdown(50.0, 150.0, 100.5)))

    assert log.reader == "deepspeed_breakdown"
    assert by_rank(log) == {0: [(1, 0.41958), (2, 0.3005)]}
    assert log.frame["bwd_allreduce"].tolist() == [160.15, 160.15]
    assert codes(log.notes) == ["derived", "numbered_by_order"]


def test_a_breakdown_that_is_cut_is_an_error_or_a_cut_tail(read_text: ReadText) -> None:
    whole, cut = breakdown(50.0, 150.0, 100.0), breakdown(55.15, 180.82, 183.61)[:-4] + "\n"

    log = read_text(whole + cut + whole)

    assert (rows(log), codes(log.errors)) == ([(1, 0.3), (2, 0.3)], ["torn_record:2"])
    assert codes(read_text(whole + cut[:-1]).notes)[0] == "truncated_tail"


@pytest.mark.parametrize(("head", "reader"), [("", "deepspeed_breakdown"), (BATCH, "deepspeed")])
def test_the_throughput_of_deepspeed_goes_first_where_its_batch_size_is_known(
    read_text: ReadText, head: str, reader: str
) -> None:
    text = "".join(breakdown(50.0, 150.0, 100.0) + throughput(step, 0.4) + "\n" for step in (10, 20))

    assert read_text(head + text).reader == reader


def test_a_printed_step_time_goes_before_the_parts_of_a_step(read_text: ReadText) -> None:
    line = " iteration={:8d}/  317892 | elapsed_time_per_iteration_ms=16030.6 | learning_rate=0.000000\n"

    log = read_text("".join(breakdown(50.0, 150.0, 100.0) + line.format(step) for step in (1, 2)))

    assert (log.reader, rows(log)) == ("keyvalue", [(1, 16.0306), (2, 16.0306)])


# Intervals


def test_an_interval_of_paddle_that_is_no_whole_number_of_steps_is_an_error(read_text: ReadText) -> None:
    sample = SAMPLES["paddle_trainer"]
    odd = sample.line(30, 0.4).replace("interval_runtime: 4.0000", "interval_runtime: 4.2000")

    log = read_text("\n".join([sample.line(10, 0.4), sample.line(20, 0.4), odd]) + "\n")

    assert rows(log) == [(10, 0.4), (20, 0.4)]
    assert codes(log.errors) == ["odd_interval:3"]


def test_paddle_divides_the_first_interval_of_a_resumed_run_by_its_own_steps(read_text: ReadText) -> None:
    sample = SAMPLES["paddle_trainer"]
    short = sample.line(23, 0.4).replace("interval_runtime: 4.0000", "interval_runtime: 1.2000")

    assert rows(read_text("\n".join([sample.line(20, 0.4), short]) + "\n")) == [(20, 0.4), (23, 0.4)]


def test_fairseq_without_a_rate_yet_and_without_words(read_text: ReadText) -> None:
    line = SAMPLES["fairseq"].line
    first = line(100, 2.0).replace("wps=1000.0, ups=0.50", "wps=0, ups=0")
    log = read_text("\n".join([first, line(200, 2.0), line(300, 2.5)]) + "\n")

    assert rows(log) == [(200, 2.0), (300, 2.5)]
    assert "non_finite_step_s" in codes(log.notes)

    wordless = "\n".join(line(step, 0.4).replace("wps=5000.0, ", "").replace(" wpb=2000.0,", "") for step in (100, 200))
    log = read_text(wordless + "\n")
    assert rows(log) == [(100, 0.4), (200, 0.4)]
    assert "derived: times are 1 / ups, of two decimals" in log.notes


def test_espnet_does_not_take_the_waiting_for_data_for_a_step(read_text: ReadText) -> None:
    log = read_text(SAMPLES["espnet"].log([0.734, 0.512]) + "1epoch results: [train] iter_time=0.2, train_time=0.600\n")

    assert rows(log) == [(10, 0.734), (20, 0.512)]


def test_means_of_a_second_epoch_of_espnet_are_counted_on_and_stay_means(read_text: ReadText) -> None:
    first = SAMPLES["espnet"].log([0.7, 0.5, 0.5])

    log = read_text(first + first.replace("1epoch:", "2epoch:"))

    assert [step for step, _ in rows(log)] == [10, 20, 30, 40, 50, 60]
    assert (log.kind, codes(log.notes)) == ("mean", ["counted_on", "interval_means"])


def test_maxtext_takes_the_finer_of_two_times(read_text: ReadText) -> None:
    line = "completed step: {}, seconds: 0.006, train_step_time_ms: {}, TFLOP/s/device: 21.951\n"

    assert rows(read_text(line.format(1, 6.12) + line.format(2, 6.44))) == [(1, 0.00612), (2, 0.00644)]


# LLaMA-Factory


def trainer_log(step: int, elapsed: str, **more: Any) -> str:
    fields = {"current_steps": step, "total_steps": 900, "loss": 1.5, "lr": 1e-4, "percentage": 1.0}
    return json.dumps(fields | {"elapsed_time": elapsed, "remaining_time": "1:00:00"} | more) + "\n"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def test_whole_seconds_are_read_over_a_minute_at_least(read_text: ReadText) -> None:
    log = read_text("".join(trainer_log(step, clock(9 + 0.3 * step)) for step in range(1, 601)))

    assert (log.reader, log.kind) == ("llamafactory", "mean")
    assert [time for _, time in rows(log)] == pytest.approx([0.3] * 3, rel=0.02)
    assert "to within 1.7%" in next(note for note in log.notes if note.startswith("coarse_clock"))


def test_a_run_shorter_than_a_minute_has_one_mean_with_its_error(read_text: ReadText) -> None:
    log = read_text(trainer_log(10, "0:00:13") + trainer_log(20, "0:00:23") + trainer_log(30, "0:00:33")[:40])

    assert rows(log) == [(20, 1.0)]
    assert codes(log.notes) == ["truncated_tail", "coarse_clock"]
    assert "10 s or more, to within 10.0%" in log.notes[1]


def test_a_resumed_trainer_begins_its_clock_anew(read_text: ReadText) -> None:
    first = "".join(trainer_log(step, clock(2 * step)) for step in range(10, 110, 10))
    second = "".join(trainer_log(step, clock(3 * (step - 80))) for step in range(90, 190, 10))
    days = trainer_log(200, "1 day, 0:00:00")

    log = read_text(first + second)

    assert rows(log) == [(40, 2.0), (70, 2.0), (100, 2.0), (110, 3.0), (130, 3.0), (150, 3.0), (170, 3.0)]
    assert rows(read_text(second + days))[-1] == (200, (86400 - 270) / 30)


def test_a_trainer_log_whose_clock_stands_still_is_refused(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="no step with a usable time"):
        read_text(trainer_log(10, "0:00:01") + trainer_log(20, "0:00:01"))


# detectron2's metrics.json


def test_metrics_of_detectron2_are_medians_and_scores_are_left_out(read_text: ReadText) -> None:
    row = '{{"data_time": 0.01, "eta_seconds": 9.5, "iteration": {}, "lr": 0.01, "time": {}, "total_loss": 1.5}}\n'
    log = read_text(row.format(19, 0.41) + row.format(39, 0.42) + '{"bbox/AP": 30.5, "iteration": 39}\n')

    assert (log.reader, log.kind) == ("detectron2_json", "smoothed")
    assert rows(log) == [(19, 0.41), (39, 0.42)]
    assert codes(log.notes)[0] == "validation_rows"


# DLLogger


def dlll(step: object, elapsed_s: float, **data: float) -> str:
    record = {"timestamp": str(1e9 + elapsed_s), "elapsedtime": str(elapsed_s), "type": "LOG", "step": step}
    return f"DLLL {json.dumps(record | {'data': data})}\n"


def test_dllogger_without_step_times_is_read_by_its_clock(read_text: ReadText) -> None:
    start = 'DLLL {"timestamp": "1", "elapsedtime": "0.1", "type": "METADATA", "metric": "loss", "metadata": {}}\n'
    text = start + "".join(dlll(n, 30 + n * 0.5, loss=1.0) for n in range(4)) + dlll([], 99.0, throughput=3.0)

    log = read_text(text)

    assert rows(log) == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert (log.kind, log.cumulative) == ("single", True)


def test_dllogger_counts_the_steps_between_two_records_within_an_epoch(read_text: ReadText) -> None:
    text = "".join(
        dlll([epoch, n], 100 * epoch + n * 0.5, loss=1.0) for epoch in range(2) for n in range(10, 50, 10)
    ) + dlll([0], 99.0, val_accuracy=0.5)

    log = read_text(text)

    assert rows(log) == [(20, 0.5), (30, 0.5), (40, 0.5), (60, 0.5), (70, 0.5), (80, 0.5)]
    assert (log.kind, codes(log.notes)[:3]) == ("mean", ["validation_rows", "counted_on", "from_clock"])


def test_dllogger_takes_the_time_that_nemo_logs_and_no_clock_beside_it(read_text: ReadText) -> None:
    times = {"train_step_timing in s": 92.25, "train_backward_timing in s": 4.6e-05}
    text = dlll(16, 1750.2, **times) + dlll(17, 1900.0, val_loss=3.0) + dlll(17, 1950.0, **times)

    log = read_text("some output\n" + text + text[:30])

    assert rows(log) == [(16, 92.25), (17, 92.25)]
    assert not log.cumulative
    assert {"validation_rows", "truncated_tail"} <= set(codes(log.notes))


# Composer


def block(batch: int, rate: float | None, *, size: int = 1024, head: str = "[batch={}/4800]:") -> str:
    lines = [head.format(batch), f"\t Train time/batch: {batch - 1}", f"\t Train time/sample: {size * (batch - 1)}"]
    lines += ["\t Train loss/train/total: 8.4213", f"\t Train time/batch_in_epoch: {batch - 1}"]
    if rate is not None:
        lines += [f"\t Train throughput/batches_per_sec: {rate:.4f}"]
        lines += [f"\t Train throughput/samples_per_sec: {rate * 1024:.4f}"]
        lines += [f"\t Train throughput/device/batches_per_sec: {rate / 8:.4f}"]
    return "\n".join([*lines, "\t Train time/val: 0.0000"]) + "\n"


def test_composer_blocks_have_a_rolling_rate_finer_by_the_samples(read_text: ReadText) -> None:
    evaluation = "[Eval batch=1/10] Eval on eval data:\n\t Eval metrics/eval/loss: 3.1\n"
    log = read_text("Config:\n" + block(1, None) + block(2, 0.00267) + evaluation + block(3, 0.00271))

    assert (log.reader, log.kind, log.errors) == ("composer", "smoothed", ())
    assert [step for step, _ in rows(log)] == [2, 3]
    assert [time for _, time in rows(log)] == pytest.approx([1 / 0.00267, 1 / 0.00271], rel=1e-4)
    assert codes(log.notes)[:2] == ["rows_without_time", "derived"]


def test_composer_batches_of_several_sizes_are_read_by_batches(read_text: ReadText) -> None:
    log = read_text(block(10, 0.5, size=900, head="[epoch=1][batch={}/48]:") + block(11, 0.4, size=900))

    assert rows(log) == [(10, 2.0), (11, 2.5)]
    assert "derived: times are 1 / batches_per_sec" in log.notes


def test_composer_blocks_of_two_ranks_are_kept_apart_and_torn_ones_are_errors(read_text: ReadText) -> None:
    def of_rank(rank: int, text: str) -> list[str]:
        return [f"[rank{rank}]: {line}\n" for line in text.splitlines()]

    mixed = [line for pair in zip(of_rank(0, block(9, 0.5)), of_rank(1, block(9, 0.4)), strict=True) for line in pair]
    assert by_rank(read_text("".join(mixed))) == {0: [(9, 2.0)], 1: [(9, 2.5)]}

    headless = block(10, 0.25).split("\n", 1)[1]
    log = read_text(block(9, 0.5) + headless + block(11, 0.5))
    assert (rows(log), codes(log.errors)) == ([(11, 2.0)], ["torn_record:1"])

    other = block(9, 0.5) + "[batch=10/4800]:\n" + block(7, 0.25).split("\n", 1)[1]
    log = read_text(other)
    assert (rows(log), codes(log.errors)) == ([(9, 2.0)], [f"torn_record:{block(9, 0.5).count(chr(10)) + 1}"])


def test_a_composer_log_cut_in_a_rate_has_no_such_record(read_text: ReadText, tmp_path: Path) -> None:
    text = block(9, 0.5) + block(10, 0.25)
    cut = text[
        : text.rindex("batches_per_sec: 0.2500", 0, text.rindex("samples_per_sec")) + len("batches_per_sec: 0.2")
    ]

    log = read_text(cut)

    assert rows(log) == [(9, 2.0)]
    assert Tail(tmp_path / "train.log").steps() == 10


# Keras

BAR = "\u2501" * 20


def drawn(n: int, ms: int, more: str = "", *, of: int = 100) -> str:
    return f"\x08\x08\r\x1b[1m{n:3d}/{of}\x1b[0m \x1b[32m{BAR}\x1b[0m \x1b[1m5s\x1b[0m {ms}ms/step - loss: 0.4000{more}"


def test_keras_bars_are_means_and_an_epochs_end_with_validation_is_left_out(read_text: ReadText) -> None:
    epoch = drawn(1, 900) + drawn(50, 41) + drawn(100, 42) + drawn(100, 55, " - val_loss: 0.5") + "\n"
    evaluation = drawn(1, 9, of=30) + drawn(30, 9, of=30) + "\n"

    log = read_text("Epoch 1/2\n" + epoch + "Epoch 2/2\n" + epoch + evaluation)

    assert (log.reader, log.kind) == ("keras", "smoothed")
    assert rows(log) == [(1, 0.9), (50, 0.041), (100, 0.042), (101, 0.9), (150, 0.041), (200, 0.042)]
    assert {"other_bars", "validation_in_time"} <= set(codes(log.notes))


@pytest.mark.parametrize(
    "line", ["469/469 - 2s - 4ms/step - loss: 0.4846", "469/469 - 2s - loss: 0.4846 - 2s/epoch - 4ms/step"]
)
def test_keras_lines_of_whole_epochs_are_read(read_text: ReadText, line: str) -> None:
    log = read_text(f"Epoch 1/2\n{line}\nEpoch 2/2\n{line}\n313/313 - 1s - 2ms/step - loss: 0.5\n")

    assert rows(log) == [(469, 0.004), (938, 0.004)]


def test_keras_lines_that_hold_the_validation_alone_are_refused(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="their time holds the validation's"):
        read_text("Epoch 1/2\n469/469 - 2s - 4ms/step - loss: 0.4846 - val_loss: 0.5\n")


def test_a_keras_bar_without_an_epoch_above_it_is_taken_with_a_note(read_text: ReadText, tmp_path: Path) -> None:
    log = read_text(drawn(1, 900) + drawn(100, 42) + "\n" + drawn(1, 3) + "\n")

    assert rows(log) == [(1, 0.9), (100, 0.042)]
    assert {"unnamed_bar", "other_bars"} <= set(codes(log.notes))
    assert Tail(tmp_path / "train.log").steps() == 0


def test_the_live_step_of_a_keras_bar_is_followed(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("Epoch 1/2\n" + drawn(100, 42) + "\nEpoch 2/2\n" + drawn(30, 42) + "\n")

    assert Tail(tmp_path / "train.log").steps() == 130


# What is known and has no step times


def test_torchtune_states_tokens_a_second_and_not_how_many(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="torchtune's log file states tokens a second"):
        read_text("Step 1 | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_active:10.1\n")


def test_the_bar_of_torchtune_is_read(read_text: ReadText) -> None:
    bars = [f"1|{n}|Loss: 1.25:  {n}%|#  | {n}/25 [00:{n:02d}<00:30,  1.2{n}s/it]" for n in (1, 2, 3)]

    log = read_text("\r".join(bars) + "\n")

    assert (log.reader, rows(log)) == ("tqdm", [(1, 1.21), (2, 1.22), (3, 1.23)])


def test_examples_of_accelerate_are_read_by_their_bar_or_not_at_all(read_text: ReadText) -> None:
    scores = "epoch 0: {'accuracy': 0.8112, 'f1': 0.8691}\n"
    bars = "\r".join(f" {n}%|#| {n}/99 [00:{n:02d}<03:00,  1.0{n}s/it]" for n in range(1, 5))

    assert read_text(bars + "\n" + scores).reader == "tqdm"
    with pytest.raises(ReadError, match="no reader recognises it"):
        read_text(scores)


def test_the_losses_of_trl_have_more_keys_and_are_the_trainers(read_text: ReadText) -> None:
    text = "".join(
        "{'loss': 0.69, 'grad_norm': 1.2, 'learning_rate': 5e-06, 'rewards/chosen': 0.01, 'logps/chosen': -200.1,"
        f" 'epoch': 0.0{n}}}\n {n}%|#| {n}/100 [00:{2 * n:02d}<03:00,  2.0{n}s/it]\n"
        for n in range(1, 5)
    )

    log = read_text(text)

    assert (log.reader, log.kind) == ("hf_trainer", "smoothed")
    assert rows(log) == [(1, 2.01), (2, 2.02), (3, 2.03), (4, 2.04)]


@pytest.mark.parametrize(
    ("begin", "part", "end"),
    [
        ("train_inner | epoch 001:  1 / 2 ", "wps=1, ups=2, wpb=3, ", ""),
        ("iter: 1  ", "time: 1.0  last_time: 1.0  ", ""),
        ("iter: 1  ", "time: 1.0  data_time: 1.0  ", ""),
        ("step 1 | loss: 1.0 | ", "a: 1 | ", "tok/sec: "),
    ],
)
def test_a_long_line_that_never_ends_a_record_is_done_with_at_once(
    read_text: ReadText, begin: str, part: str, end: str
) -> None:
    # With patterns that try every combination this takes minutes, and the suite does not come to its end.
    with pytest.raises(ReadError):
        read_text(begin + part * (60000 // len(part)) + end + "\n")


@pytest.mark.parametrize("part", ["7", "step: 1 ", "{'loss': 1, "])
def test_no_reader_is_kept_long_by_a_line_that_only_begins_records(read_text: ReadText, part: str) -> None:
    for reader in (*registry.FIRST, *registry.GENERAL):
        if reader.name != "pattern":
            with pytest.raises(ReadError):
                read_text(f"begin\n{part * (60000 // len(part))}\n", reader=reader.name)
