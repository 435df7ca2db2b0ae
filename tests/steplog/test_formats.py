"""What every reader of a trainer's lines must do, and what some of them do besides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
from interlace.steplog import Tail
from interlace.steplog.facts import LABELS
from interlace.steplog.registry import FIRST, GENERAL
from tests.steplog.samples import BATCH, SAMPLES, TITAN_HEAD, Sample, titan
from tests.steplog.series import by_rank, codes, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.steplog.conftest import ReadText

TIMES = [4.04, 0.41, 0.42, 0.4, 0.39, 0.41, 0.43, 0.4, 0.41, 0.41]

every_format = pytest.mark.parametrize("name", SAMPLES)


def near(found: list[tuple[int, float]], sample: Sample, times: list[float]) -> None:
    assert [step for step, _ in found] == sample.steps(len(times))
    assert [time for _, time in found] == pytest.approx(times, rel=3e-4)


@every_format
def test_a_format_is_recognised_by_its_lines_and_read_to_the_last(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]

    log = read_text(sample.log(TIMES))

    assert log.reader == name.partition(":")[0]
    near(rows(log), sample, TIMES)
    assert (log.kind, log.errors) == (sample.kind, ())


@every_format
def test_it_is_recognised_below_other_output_and_behind_a_rank_prefix(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    noise = "WARNING: some library says step after step, for a long time, 0.3 s/step\n" * 5000
    lines = "".join(f"[rank1]: {line}\n" for line in sample.log(TIMES).splitlines())

    log = read_text(noise + lines)

    assert log.reader == name.partition(":")[0]
    assert list(by_rank(log)) == [1]
    near(by_rank(log)[1], sample, TIMES)


@every_format
@pytest.mark.costly
def test_a_record_cut_anywhere_gives_its_time_or_none(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    first, cut, last = sample.steps(3)
    line = sample.line(cut, 1.37)
    # Torchtitan rounds its tokens a second.
    right = [{first: 0.41, last: 0.42}, {first: 0.41, cut: 1.37, last: 0.42}]

    for at in range(1, len(line), 2):
        text = sample.head + sample.line(first, 0.41) + "\n" + line[:at] + "\n" + sample.line(last, 0.42) + "\n"
        found = {step: round(time, 4) for step, time in rows(read_text(text))}
        assert found == pytest.approx(right[cut in found], rel=3e-4), line[:at]


@every_format
def test_a_last_line_cut_by_a_kill_gives_its_time_or_none(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    line = sample.line(sample.steps(2)[1], 1.37)

    for at in range(1, len(line), 5):
        log = read_text(sample.head + sample.line(sample.first, 0.41) + "\n" + line[:at])
        assert [time for _, time in rows(log)][1:] in ([], pytest.approx([1.37], rel=3e-4)), line[:at]
        assert log.errors == ()


def test_a_record_that_is_unlike_the_others_counts_where_nothing_is_torn(read_text: ReadText) -> None:
    sample = SAMPLES["torchtitan"]
    unlike = sample.line(50, 0.4).replace("40.12%", "N/A")

    log = read_text(sample.log([0.4] * 4) + unlike + "\n" + sample.line(60, 0.4)[:60])

    near(rows(log), sample, [0.4] * 5)
    assert log.errors == ()


@every_format
@pytest.mark.costly
def test_a_line_of_another_rank_in_the_middle_of_one_gives_right_times_or_none(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    first, second, third = sample.steps(3)
    line, other = sample.line(second, 1.37), sample.line(third, 0.55)

    for at in range(1, len(line), 4):
        log = read_text(sample.head + sample.line(first, 0.41) + "\n" + line[:at] + other + "\n" + line[at:] + "\n")
        for step, time in rows(log):
            assert time == pytest.approx({first: 0.41, second: 1.37, third: 0.55}[step], rel=3e-4), line[:at]


def test_a_record_filled_with_the_rest_of_another_ranks_is_an_error(read_text: ReadText) -> None:
    sample = SAMPLES["megatron"]
    cut, between, filled = sample.line(60, 2.2), sample.line(50, 0.4), sample.line(60, 0.5)
    at = cut.index("samples")
    text = cut[:at] + between + "\n" + filled[: at - 3] + cut[at:] + "\n" + filled[at - 3 :] + "\n"

    log = read_text(sample.log([0.4] * 4) + text)

    assert rows(log) == [(step, 0.4) for step in range(10, 60, 10)]
    assert codes(log.errors) == ["torn_record:7", "torn_record:9", "torn_record:8"]
    assert "it reads like no other record" in log.errors[2]


@every_format
def test_records_of_two_ranks_on_one_line_are_both_read(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    first, second = sample.steps(2)

    log = read_text(sample.head + sample.line(first, 0.41) + sample.line(second, 0.42) + "\n")

    near(rows(log), sample, [0.41, 0.42])


@every_format
def test_the_live_step_is_followed(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    (tmp_path / "train.log").write_text(sample.log(TIMES))

    assert Tail(tmp_path / "train.log").steps() == sample.steps(len(TIMES))[-1]


@every_format
def test_a_resumed_log_keeps_the_later_values(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]

    log = read_text(sample.log([0.5] * 6) + sample.log([0.4] * 8))

    near(rows(log), sample, [0.4] * 8)
    assert log.attempts == 2


@every_format
def test_a_time_that_is_no_number_is_dropped_and_said(read_text: ReadText, name: str) -> None:
    sample = SAMPLES[name]
    steps = sample.steps(3)
    broken = re.sub(
        r"1370\.0+|13\.70+|1\.370*|1459\.9|(?<==)46\.71\d+|5,980|4\.379\d+", "nan", sample.line(steps[1], 1.37), count=1
    )
    assert "nan" in broken

    log = read_text(sample.head + "\n".join([sample.line(steps[0], 0.41), broken, sample.line(steps[2], 0.42)]) + "\n")

    assert [step for step, _ in rows(log)] == [steps[0], steps[2]]
    assert "non_finite_step_s" in codes(log.notes) or log.errors[0].startswith("torn_record")


@pytest.mark.parametrize("reader", [*FIRST, *GENERAL], ids=lambda reader: str(reader.name))
def test_every_reader_states_its_facts(reader: object) -> None:
    assert tuple(getattr(reader, "facts", {})) == LABELS


def test_decimal_commas_are_decimals_and_ambiguous_ones_errors(read_text: ReadText) -> None:
    log = read_text("iter 1: loss 3,2, time 412,55ms, mfu 30,1%\niter 2: loss 3,2, time 1,234ms, mfu 30,1%\n")

    assert rows(log) == [(1, 0.41255)]
    assert codes(log.errors) == ["ambiguous_decimal_comma:2"]


def test_megatron_validation_is_no_step_and_its_columns_are_kept(read_text: ReadText) -> None:
    sample = SAMPLES["megatron"]
    log = read_text(sample.log([0.4] * 5) + " validation loss at iteration 50 | lm loss value: 9.0E+00 | x |\n")

    assert log.world_size == 8
    assert log.frame["lm loss"].tolist() == [9.123456] * 5
    assert log.frame["global batch size"].tolist() == [64.0] * 5


def test_deepspeed_without_its_batch_size_is_refused_and_says_why(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match=r"keep the whole output(.|\n)*does not state train_batch_size"):
        read_text(SAMPLES["deepspeed"].log(TIMES).removeprefix(BATCH))


def test_torchtitan_times_are_dates_where_there_are_dates(read_text: ReadText) -> None:
    lines = [f"[titan] 2026-01-02 03:04:{5 + s * 0.4:06.3f} - root - INFO - {titan(s, 0.1)[8:]}" for s in (1, 10, 20)]

    log = read_text("\n".join(lines).replace(".", ",", 1) + "\n")

    assert rows(log) == [(10, 0.4), (20, 0.4)]
    assert (log.kind, log.cumulative) == ("mean", True)
    assert log.frame["tps"].tolist() == [81920.0] * 2
    assert log.frame["mfu_pct"].tolist() == [40.12] * 2


def test_torchtitan_dates_in_whole_seconds_are_too_coarse(read_text: ReadText) -> None:
    lines = "".join(f"2026-01-02 03:04:{5 + step // 3:02d} {titan(step, 0.4)}\n" for step in (1, 10, 20))

    near(rows(read_text(TITAN_HEAD + lines))[1:], SAMPLES["torchtitan"], [0.4, 0.4])


@pytest.mark.parametrize(
    ("head", "times"),
    [
        (TITAN_HEAD, 2.0),
        (TITAN_HEAD.replace("['dp_shard', 'tp'], [4, 2]", "['dp_shard'], [8]"), 4.0),
        (TITAN_HEAD.replace("steps 1,", "steps 3,"), 6.0),
        (TITAN_HEAD.split("\n")[1] + "\n", 4.0),
        ("[titan] Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=2, cp=2, tp=2, ep=1\n"
         + TITAN_HEAD.split("\n")[1] + "\n", 1.0),
    ],
)  # fmt: skip
def test_torchtitan_tokens_are_shared_by_what_is_no_data_parallelism(
    read_text: ReadText, head: str, times: float
) -> None:
    line = "[titan] step:  1  loss:  8.00000  grad_norm:  1.2000  memory: 42.50GiB(53.10%)  tps: 4,096  mfu: N/A\n"

    log = read_text(head + line)

    assert rows(log) == [(1, times)]
    assert any("none is assumed" in note for note in log.notes) is ("mesh" not in head)


@pytest.mark.parametrize("head", ["", "Applied Tensor Parallelism to the model\n" + TITAN_HEAD.split("\n")[1] + "\n"])
def test_torchtitan_without_dates_and_tokens_is_refused_and_says_why(read_text: ReadText, head: str) -> None:
    with pytest.raises(ReadError, match="A torchtitan log states tokens a second"):
        read_text(head + titan(1, 0.4) + "\n")


def test_torchtitan_validation_is_left_out(read_text: ReadText) -> None:
    validation = "[titan] validate step: 20  loss:  7.10000  memory: 42.50GiB(53.10%)  tps: 9,999\n"

    log = read_text(SAMPLES["torchtitan"].log([0.4, 0.41]) + validation)

    assert len(rows(log)) == 2
    assert "validation_rows" in codes(log.notes)


def test_modded_nanogpt_is_read_by_its_clock(read_text: ReadText) -> None:
    text = "step:0/4 val_loss:10.8258 train_time:0ms step_avg:0.01ms\n"
    for step, clock in enumerate((1000, 1240, 1485, 1725), 1):
        text += f"step:{step}/4 train_time:{clock}ms step_avg:{clock / step:.2f}ms\n"
    text += "step:4/4 val_loss:7.1 train_time:1725ms step_avg:431.25ms\n"

    log = read_text(text)

    assert log.reader == "modded_nanogpt"
    assert rows(log) == [(2, 0.24), (3, 0.245), (4, 0.24)]
    assert (log.kind, log.cumulative) == ("single", True)


def test_modded_nanogpt_that_sets_its_clock_back_loses_one_step(read_text: ReadText) -> None:
    clocks = [1000, 1240, 1485, 0, 240, 480]
    log = read_text(
        "".join(f"step:{n}/6 train_loss:9.1 train_time:{t}ms step_avg:nanms\n" for n, t in enumerate(clocks, 1))
    )

    assert [step for step, _ in rows(log)] == [2, 3, 5, 6]
    assert {"not_positive_step_s", "clock_restarts"} <= set(codes(log.notes))


def test_mmengine_means_that_overlap_are_smoothed(read_text: ReadText) -> None:
    sample = SAMPLES["mmengine"]

    log = read_text("".join(sample.line(step, 0.4) + "\n" for step in range(1, 8)))

    assert log.kind == "smoothed"


def test_mmengine_validation_in_text_and_json_is_left_out(read_text: ReadText) -> None:
    val = "2026/01/02 03:04:05 - mmengine - INFO - Epoch(val)  [1][ 50/100]  eta: 0:00:10  time: 0.1  data_time: 0.01\n"
    assert len(rows(read_text(SAMPLES["mmengine"].log([0.4, 0.5]) + val))) == 2

    train = (
        '{{"lr": 0.01, "data_time": 0.01, "loss": 0.5, "time": {}, "epoch": 1, "iter": {}, "memory": 9, "step": {}}}\n'
    )
    scores = '{"coco/bbox_mAP": 0.1, "data_time": 0.1, "time": 0.2, "step": 1}\n'
    log = read_text(train.format(0.41, 50, 50) + train.format(0.42, 100, 100) + scores + train.format(0.4, 150, 150))

    assert log.reader == "mmengine_json"
    assert rows(log) == [(50, 0.41), (100, 0.42), (150, 0.4)]
    assert (log.kind, log.attempts) == ("mean", 1)


def test_fairchem_without_its_ranks_is_refused(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match="Running in local mode with N ranks"):
        read_text("".join(SAMPLES["fairchem"].line(n, 0.4) + "\n" for n in range(4)))


def test_fairchem_below_a_long_preamble_keeps_the_ranks_that_stand_above_it(read_text: ReadText) -> None:
    sample = SAMPLES["fairchem"]
    lines = sample.log([0.4, 0.41, 0.42]).removeprefix(sample.head)

    log = read_text(sample.head + "INFO:root:{'a long configuration': 1}\n" * 10000 + lines)

    near(rows(log), sample, [0.4, 0.41, 0.42])


def test_a_rate_of_evaluation_in_a_fairchem_log_is_no_step_time(read_text: ReadText) -> None:
    evaluation = "step: 120, seconds_per_step: 0.53 eta_hours: 0.2\n"

    with pytest.raises(ReadError, match="Running in local mode with N ranks"):
        read_text("".join(SAMPLES["fairchem"].line(n, 0.4) + "\n" for n in range(4)) + evaluation)


def test_fairchem_ranks_are_unlabelled_and_the_slowest_counts(read_text: ReadText) -> None:
    sample = SAMPLES["fairchem"]
    text = sample.head + "".join(sample.line(n, 0.4) + "\n" + sample.line(n, 0.5) + "\n" for n in range(12))

    log = read_text(text + "INFO:root:Training Completed 12 steps\n")

    near(rows(log), sample, [0.5] * 12)
    assert (log.world_size, log.ended) == (2, True)
    assert "unlabelled_ranks" in codes(log.notes)


def test_fairchem_of_a_cluster_takes_ranks_and_graph_parallelism_from_the_configuration(read_text: ReadText) -> None:
    config = "INFO:root:{'scheduler': {'num_nodes': 2, 'num_array_jobs': 1, 'ranks_per_node': 4},"
    config += " 'graph_parallel_group_size': 4}\n"

    log = read_text(config + SAMPLES["fairchem"].line(0, 0.4) + "\n")

    near(rows(log), SAMPLES["fairchem"], [0.4])  # 8 ranks, 4 share a batch: 2, as in the line


def test_two_trainings_of_fairchem_in_one_log_are_refused(read_text: ReadText) -> None:
    two = "INFO:fairchem.core.components.benchmark.training:Running fp32 baseline training...\n"

    with pytest.raises(ReadError, match="two runs into one log"):
        read_text(two + SAMPLES["fairchem"].log(TIMES))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INFO t.py:1 step:15K(14903) smpl:120K(119224) ep:0(0) total_loss:0.1\n", "OpenTau training log states no"),
        ("[rank 0/8] fetch=mean=  74.77ms median=   0.21ms p95= 590.96ms\n", "measures fetching alone"),
        ("{'loss': 2.1, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}\n", "Hugging Face Trainer prints"),
        ("epoch,step,train_loss\n0,9,0.5\n", "Lightning metrics.csv has step times only where"),
    ],
)
def test_what_is_known_to_hold_no_step_times_says_so(read_text: ReadText, text: str, said: str) -> None:
    with pytest.raises(ReadError, match=said):
        read_text(text)


def test_torchtitan_with_a_mesh_that_is_cut_off_is_refused(read_text: ReadText) -> None:
    head = "[titan] Building 2-D device mesh \n" + TITAN_HEAD.split("\n")[1] + "\n"

    with pytest.raises(ReadError, match="A torchtitan log states tokens a second"):
        read_text(head + titan(10, 0.4) + "\n" + titan(20, 0.4) + "\n")
