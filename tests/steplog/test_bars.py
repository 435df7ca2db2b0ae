"""Progress bars: what one cell says, which bar is the training loop's, and what its values are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from interlace.steplog import Tail
from interlace.steplog.bars import bars_in
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.steplog.conftest import ReadText


def drawn(name: str, n: int, total: int, elapsed_s: float, rate: str) -> str:
    """Draw a bar as tqdm does."""
    bar = "#" * (10 * n // total)
    clock = f"{int(elapsed_s) // 60:02d}:{int(elapsed_s) % 60:02d}"
    return f"\r{name}{100 * n // total:3d}%|{bar:<10}| {n}/{total} [{clock}<00:10, {rate}]"


@pytest.mark.parametrize(
    ("text", "n", "total", "elapsed_s", "s_per_it", "rounded", "unit"),
    [
        (" 15%|#5        | 1500/10000 [20:00<1:53:20,  1.25it/s]", 1500, 10000, 1200, 0.8, False, "it"),
        (" 15%|#5        | 1.50k/10.0k [20:00<1:53:20, 1.25it/s]", 1500, 10000, 1200, 0.8, True, "it"),
        (" 30%|###       | 3/10 [00:00<?, ?it/s]", 3, 10, 0, None, False, "it"),
        (" 50%|#####     | 500/1000 [1:23:20<1:23:20, 10.00s/it]", 500, 1000, 5000, 10.0, False, "it"),
        (" 50%|####9     | 1.00M/2.00M [00:03<00:03, 312kit/s]", 1000000, 2000000, 3, 1 / 312000, True, "it"),
        ("  5%|5         | 5/100 [00:05<01:35,  1.00s/batch]", 5, 100, 5, 1.0, False, "batch"),
        ("5it [00:02,  2.50it/s]", 5, None, 2, 0.4, False, "it"),
        ("Loss: 7it [00:02,  2.50s/it, loss=0.5]", 7, None, 2, 2.5, False, "it"),
        ("  5%|▌         | 5/100 [00:05<01:35,  2.00 steps/s, lr=1e-4]", 5, 100, 5, 0.5, False, "steps"),
        ("100%|██████████| 9/9 [26:00:00<00:00, 10400.00s/it]", 9, 9, 93600, 10400.0, False, "it"),
        ("Train:  12% 12/100 [00:03<00:20,  4.00it/s]", 12, 100, 3, 0.25, False, "it"),
        ("12/100 [00:03<00:20,  4.00it/s]", 12, 100, 3, 0.25, False, "it"),
        ("  5%|5         | 5/100 [00:05<01:35,  2.00 opt-step/s]", 5, 100, 5, 0.5, False, "opt-step"),
        ("  5%|5         | 5/100 [00:05<01:35,  2.00s/train step]", 5, 100, 5, 2.0, False, "train step"),
        ("  5%|5         | 5/100 [00:05<01:35,  2.00步/s]", 5, 100, 5, 0.5, False, "步"),
        ("12 steps [00:03,  4.00 steps/s]", 12, None, 3, 0.25, False, "steps"),
        (" 50%|####9     | 5/10 [1 day, 2:00:00<1 day, 2:00:00, 18720.00s/it]", 5, 10, 93600, 18720.0, False, "it"),
    ],
)  # fmt: skip
def test_every_form_of_a_bar_is_read(
    text: str, n: int, total: int | None, elapsed_s: float, s_per_it: float | None, rounded: bool, unit: str
) -> None:
    (bar,) = bars_in(text)

    assert (bar.n, bar.total, bar.elapsed_s, bar.n_rounded) == (n, total, elapsed_s, rounded)
    assert bar.s_per_it == (None if s_per_it is None else pytest.approx(s_per_it))
    assert bar.unit.removesuffix("/s") == unit if rounded and "k" in bar.unit else unit in bar.unit


@pytest.mark.parametrize("label", ["[rank1]: ", "[default1]:", "rank 1: ", "Rank=1 "])
def test_the_rank_that_draws_a_bar_is_read_from_its_label_or_its_name(label: str) -> None:
    (bar,) = bars_in(f"{label}Training: 12%|#| 12/100 [00:03<00:20,  4.00it/s]")

    assert (bar.rank, bar.desc) == (1, "Training")


def test_a_long_run_of_digits_is_searched_in_no_time() -> None:
    assert list(bars_in("1" * 60_000 + "/s")) == []


def test_values_of_a_bar_are_smoothed_and_never_called_step_times(read_text: ReadText) -> None:
    text = "\rTraining:   0%|          | 0/6 [00:00<?, ?it/s]" + drawn("Training: ", 1, 6, 12, "12.10s/it")
    text += drawn("Training: ", 2, 6, 14, " 2.50s/it") + drawn("Training: ", 3, 6, 15, " 1.25it/s")

    log = read_text(text)

    assert log.reader == "tqdm"
    assert rows(log) == [(1, 12.1), (2, 2.5), (3, 0.8)]
    assert log.kind == "smoothed"
    assert log.frame["elapsed_s"].tolist() == [12.0, 14.0, 15.0]
    assert {"bar_clock", "smoothed"} <= set(codes(log.notes))


def test_printed_step_times_go_before_a_bar(read_text: ReadText) -> None:
    bars = "".join(drawn("Training: ", n, 9000, n, "1.00s/it, loss=0.123456789") for n in range(1, 6000))

    log = read_text(bars + "\nstep=1 step_s=0.5\nstep=2 step_s=0.4\n")

    assert (log.reader, rows(log)) == ("keyvalue", [(1, 0.5), (2, 0.4)])
    assert log.kind == "not said"


def test_a_live_log_leaves_the_bar_for_printed_times(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(drawn("Training: ", 700, 900, 9, "1.00s/it") + "\n")
    tail = Tail(path)
    assert (tail.steps(), tail.reader) == (700, "tqdm")

    path.write_text(path.read_text() + "step=1 step_s=0.5\nstep=2 step_s=0.4\n")

    assert (tail.steps(), tail.reader) == (2, "keyvalue")


def test_only_a_bar_named_after_training_is_live_progress(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(drawn("", 5000, 5000, 9, "1.00s/it") + "\n")
    tail = Tail(path)
    assert tail.steps() == 0

    epochs = "".join(drawn(f"Epoch {e}: ", n, 20, n, "1.00s/it") for e in (1, 2) for n in range(1, 16 + 4 * (e < 2)))
    path.write_text(path.read_text() + epochs + drawn("Evaluating: ", 900, 900, 9, "1.00s/it") + "\n")
    assert tail.steps() == 35  # the last drawing of the first epoch was passed over


def test_a_trainers_evaluation_is_no_live_progress(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(drawn("", 10, 100, 5, " 2.00it/s") + LOSS + drawn("", 700, 1000, 9, "80.00it/s") + "\n")

    assert Tail(path).steps() == 10


@pytest.mark.parametrize(
    "text",
    [
        drawn("Loading checkpoint shards: ", 3, 3, 2, " 1.20it/s"),
        drawn("Map: ", 1000, 1000, 1, "900.00 examples/s"),
        drawn("Evaluating: ", 10, 20, 5, " 2.00it/s"),
        drawn("Validation DataLoader 0: ", 10, 20, 5, " 2.00it/s"),
        drawn("model.safetensors: ", 10, 20, 5, "1.20MB/s"),
        "\rTraining:   0%|          | 0/12 [00:00<?, ?step/s]\n",
    ],
)
def test_bars_of_other_work_are_no_training(read_text: ReadText, text: str) -> None:
    with pytest.raises(ReadError, match="no reader recognises it"):
        read_text(text)


def test_other_bars_are_left_out_and_an_unnamed_one_is_said(read_text: ReadText) -> None:
    text = "".join(drawn("", n, 50, n // 2, " 2.00it/s") for n in range(1, 26))
    text += "".join(drawn("", n, 8, n // 4, " 4.00it/s") for n in range(1, 9))
    text += "".join(drawn("", n, 50, 14 + (n - 25) // 2, " 2.50it/s") for n in range(26, 51))

    log = read_text(drawn("Map: ", 10, 10, 0, "9.00 examples/s") + text + "\n")

    assert rows(log) == [(n, 0.5 if n < 26 else 0.4) for n in range(1, 51)]
    assert {"unnamed_bar", "other_bars"} <= set(codes(log.notes))


@pytest.mark.parametrize("names", [("", ""), ("Epochs: ", "batches: "), ("", "train: ")])
def test_a_bar_of_epochs_around_one_of_batches_is_not_the_steps(read_text: ReadText, names: tuple[str, str]) -> None:
    outer, inner = names
    text = "".join(
        drawn(outer, epoch, 3, 10 * epoch, "10.00s/it")
        + "".join(drawn(inner, n, 20, n // 2, "2.00it/s") for n in range(21))
        for epoch in range(3)
    )

    log = read_text(text + drawn(outer, 3, 3, 30, "10.00s/it"))

    assert rows(log) == [(n, 0.5) for n in range(61) if n]


def test_an_evaluation_longer_than_the_training_is_not_the_trainers_bar(read_text: ReadText) -> None:
    training = "".join(drawn("", n, 100, n // 2, " 2.00it/s") for n in range(1, 101))
    evaluation = "".join(drawn("", n, 1000, n, "1.00s/it") for n in range(1, 1001))

    log = read_text(training + LOSS + SUMMARY + evaluation)

    assert rows(log) == [(n, 0.5) for n in range(1, 101)]


def test_epochs_are_counted_on_and_a_restart_is_resumed(read_text: ReadText) -> None:
    epochs = "".join(drawn(f"Epoch {e}: ", n, 20, n, "1.00s/it") for e in (1, 2) for n in range(1, 21))
    log = read_text(epochs)
    assert [step for step, _ in rows(log)] == list(range(1, 41))
    assert "per_epoch_counter" in codes(log.notes)

    killed = "".join(drawn("train: ", n, 20, n, "1.00s/it") for n in range(1, 13))
    again = "".join(drawn("train: ", n, 20, n - 4, "2.00s/it") for n in range(5, 21))
    log = read_text(killed + "\n" + again)
    assert rows(log) == [(n, 1.0 if n < 5 else 2.0) for n in range(1, 21)]
    assert log.attempts == 2


def test_the_closing_bar_with_its_overall_mean_is_no_new_value(read_text: ReadText) -> None:
    text = drawn("train: ", 1, 2, 1, "1.00s/it") + drawn("train: ", 2, 2, 2, "1.00s/it")

    log = read_text(text + drawn("train: ", 2, 2, 6, "3.00s/it") + "\n")

    assert rows(log) == [(1, 1.0), (2, 1.0)]


def test_scaled_counts_are_not_taken_for_steps(read_text: ReadText) -> None:
    text = (
        "train:  15%|#5        | 1.50k/10.0k [20:00<1:53:20, 1.25it/s]\ntrain:  9%|#  | 900/10000 [12:00<1, 1.25it/s]\n"
    )

    log = read_text(text)

    assert rows(log) == [(900, 0.8)]
    assert "rounded_steps" in codes(log.notes)


def test_ranks_in_front_of_bars_are_told_apart(read_text: ReadText) -> None:
    text = "".join(f"[rank{r}]:{drawn('train: ', n, 9, n, f'{r + 1}.00s/it')[1:]}\n" for n in (1, 2) for r in (0, 1))

    assert by_rank(read_text(text)) == {0: [(1, 1.0), (2, 1.0)], 1: [(1, 2.0), (2, 2.0)]}


LOSS = "\n{'loss': 2.1, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.5}\n"
SUMMARY = (
    "{'train_runtime': 51.2345, 'train_samples_per_second': 15.6, 'train_steps_per_second': 1.952,"
    " 'train_loss': 1.9, 'epoch': 2.0}\n"
)


def test_two_processes_that_draw_one_bar_count_with_the_slower_one(read_text: ReadText) -> None:
    text = "".join(
        drawn("Steps: ", n, 30, n, "1.00s/it") + drawn("Steps: ", n, 30, n, "1.50s/it") for n in range(1, 21)
    )

    log = read_text(text)

    assert rows(log) == [(n, 1.5) for n in range(1, 21)]
    assert codes(log.notes) == ["unlabelled_ranks", "smoothed"]


def test_two_processes_that_draw_now_and_then_are_no_resumed_runs(read_text: ReadText) -> None:
    text = "".join(drawn("Steps: ", n + 3, 80, n, "1.00s/it") + drawn("Steps: ", n, 80, n, "1.02s/it")
                   for n in range(1, 61, 2))  # fmt: skip

    log = read_text(text)

    assert log.attempts == 1
    assert dict(rows(log))[30] == 1.0
    assert codes(log.notes) == ["unlabelled_ranks", "missing_steps", "smoothed"]


def test_a_bar_drawn_again_for_its_postfix_is_one_process(read_text: ReadText) -> None:
    text = "".join(drawn("Steps: ", n, 30, n, f"1.0{n % 9}s/it") + drawn("Steps: ", n, 30, n, f"1.0{n % 9}s/it, loss=1")
                   for n in range(1, 21))  # fmt: skip

    log = read_text(text)

    assert rows(log) == [(n, float(f"1.0{n % 9}")) for n in range(1, 21)]
    assert codes(log.notes) == ["bar_clock", "smoothed"]


def test_a_trainer_gives_its_bar_and_says_the_mean_of_its_summary(read_text: ReadText) -> None:
    bars = "".join(drawn("", n, 100, n // 2, " 2.00it/s") + (LOSS if n % 10 == 0 else "") for n in range(1, 101))

    log = read_text(bars + "\n" + SUMMARY)

    assert (log.reader, log.kind, log.ended) == ("hf_trainer", "smoothed", True)
    assert rows(log) == [(n, 0.5) for n in range(1, 101)]
    assert any(note.startswith("run_mean: the summary gives 0.512345 s a step over all 100") for note in log.notes)


@pytest.mark.parametrize(
    ("text", "step", "step_s"),
    [
        (LOSS + SUMMARY, 100, 0.512345),
        (LOSS + SUMMARY.replace(": ", ": '").replace(",", "',").replace("}", "'}"), 100, 0.512345),
        ("  Total optimization steps = 1,000\n" + SUMMARY.replace("51.2345", "5123.45"), 1000, 5.12345),
        ("  Total optimization steps = 100\n  Continuing training from global step 50\n" + SUMMARY, 50, 1.02469),
    ],
)
def test_a_trainer_without_a_bar_gives_one_mean(read_text: ReadText, text: str, step: int, step_s: float) -> None:
    log = read_text(text)

    assert (log.reader, log.kind) == ("hf_trainer", "mean")
    (found,) = rows(log)
    assert found[0] == step
    assert found[1] == pytest.approx(step_s)
    assert "one_value" in codes(log.notes)


def test_a_trainers_mean_of_unknown_steps_says_how_coarse_it_is(read_text: ReadText) -> None:
    log = read_text(SUMMARY.replace("51.2345", "51234.5").replace("1.952", "0.05"))

    assert rows(log) == [(2562, 20.0)]
    assert any("1.0% fine" in note for note in log.notes)


def test_a_callback_that_prints_step_times_goes_before_the_trainers_bar(read_text: ReadText) -> None:
    log = read_text(drawn("", 1, 10, 1, "1.00s/it") + LOSS + "step=1 step_s=0.5\n" + SUMMARY)

    assert (log.reader, rows(log)) == ("keyvalue", [(1, 0.5)])


@pytest.mark.parametrize("rich", [False, True])
def test_lightnings_bars_are_epochs_of_running_means(read_text: ReadText, rich: bool) -> None:
    text = drawn("Sanity Checking DataLoader 0: ", 2, 2, 0, "20.00it/s")
    for epoch in (0, 1):
        for n in range(1, 11):
            bar = f"Epoch {epoch}/1  ━━━━━━╺━━━ {n}/10 0:00:{n:02d} • 0:00:09 2.00it/s v_num: 0.000 loss: 0.5\n"
            own = drawn(f"Epoch {epoch}: ", n, 10, n, "2.00it/s, v_num=0, train_loss=0.5")
            text += bar if rich else own
        text += "" if rich else drawn(f"Epoch {epoch}: ", 0, 10, 0, "?it/s, v_num=0, train_loss=0.5")
        text += drawn("Validation DataLoader 0: ", 5, 5, 1, " 9.90it/s")

    log = read_text(text + "\n")

    assert (log.reader, log.kind) == ("lightning", "smoothed")
    assert rows(log) == [(n, 0.5) for n in range(1, 21)]
    assert rows(read_text(text[text.index("Epoch 1") :])) == [(n, 0.5) for n in range(11, 21)]


def test_lightnings_csv_with_a_throughput_monitor_is_read_by_its_clock(read_text: ReadText) -> None:
    log = read_text("epoch,step,train_loss,train/time,train/batches\n0,9,0.5,4.1,10\n0,19,,8.2,20\n0,29,0.4,12.2,30\n")

    assert (log.reader, log.kind, log.cumulative) == ("csv", "mean", True)
    assert rows(log) == [(19, 0.41), (29, 0.4)]


def test_lightnings_bar_without_a_total_is_read(read_text: ReadText) -> None:
    log = read_text("".join(f"\rEpoch 0: |          | {n}/? [00:0{n}<?,  2.00it/s, v_num=3]" for n in range(1, 6)))

    assert log.reader == "lightning"
    assert rows(log) == [(n, 0.5) for n in range(1, 6)]


def test_the_first_rates_of_a_resumed_trainer_count_skipped_steps_and_are_left_out(read_text: ReadText) -> None:
    text = "  Total optimization steps = 60\n  Continuing training from global step 10\n" + drawn("", 0, 60, 0, "?it/s")
    text += "{'loss': 1.0, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
    text += "".join(drawn("", n, 60, n, "8.00it/s" if n < 20 else "1.00s/it") for n in range(11, 61))

    log = read_text(text)

    assert log.reader == "hf_trainer"
    assert rows(log)[0][0] == 31
    assert {step_s for _, step_s in rows(log)} == {1.0}
    assert "resumed_bar" in codes(log.notes)


@pytest.mark.parametrize("unit", ["img", "images", "samples", "seq", "ex"])
def test_a_bar_that_counts_samples_has_no_step_times(read_text: ReadText, unit: str) -> None:
    text = "".join(f"\rtrain:  50%|##  | {n * 64}/9999 [00:0{n}<00:05, 642.50{unit}/s]" for n in range(1, 6))

    with pytest.raises(ReadError, match="A progress bar that counts samples has no step times"):
        read_text(text)
