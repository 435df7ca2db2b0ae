from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.steplog.series import codes, rows

if TYPE_CHECKING:
    from tests.steplog.conftest import ReadText

BANNER = "INFO 2026-01-02 03:04:00 ot_train.py:614 Effective batch size: 8 x 8 dp workers x 1 grad accum = 64\n"
END = "INFO 2026-01-02 03:05:00 ot_train.py:906 End of training\n"


def record(step: str, step_s: str = "0.027", smps: str = "2383", bar: int | None = None) -> str:
    shown = "" if bar is None else f"\rTraining:  10%|█         | {bar}/2000 [00:01<00:06,  1.63step/s]"
    return (
        f"{shown}INFO 2026-01-02 03:04:05 ot_train.py:769 step:{step} smpl:1K ep:0 epch:0.01 loss:64.872"
        f" lr:1.0e-05 data_s:0.001 prep_s:0.000 updt_s:0.026 step_s:{step_s} smp/s:{smps} kld_loss:6.391\n"
    )


def old_record(step: int, updt_s: str = "0.456", data_s: str = "0.062", smps: int = 4) -> str:
    return (f"INFO 2026-01-02 03:04:05 ot_train.py:641 step:{step} smpl:{2 * step} ep:0 epch:0.01 loss:64.872"
            f" grdn:316.298 lr:1.0e-05 updt_s:{updt_s} data_s:{data_s} smp/s:{smps} kld_loss:6.391\n")  # fmt: skip


def test_records_behind_a_progress_bar_are_read(read_text: ReadText) -> None:
    log = read_text(BANNER + record("1", "12.500", "5", bar=1) + record("2", "0.270", "237", bar=2) + END)

    assert log.reader == "lerobot"
    assert rows(log)[0] == (1, 12.5)
    assert log.world_size == 8
    assert log.ended
    assert log.started_at == 1767323045.0
    assert log.reduced == "max over ranks"
    assert log.frame["loss"].tolist() == [64.872, 64.872]


def test_the_samples_rate_gives_the_finer_time(read_text: ReadText) -> None:
    log = read_text(BANNER + record("1", "12.500", "5") + record("2", "0.027", "2383"))

    assert rows(log) == [(1, 12.5), (2, 64 / 2383)]
    assert log.frame["printed_step_s"].tolist() == [12.5, 0.027]
    assert "finer_from_smps: 1 of 2 times are 64 samples / smp/s, finer than the printed times" in log.notes


def test_a_rate_that_disagrees_with_the_printed_times_is_not_used(read_text: ReadText) -> None:
    log = read_text(BANNER + "".join(record(str(n), "0.027", "4766") for n in range(1, 4)))

    assert {step_s for _, step_s in rows(log)} == {0.027}
    assert "smps_disagrees" in codes(log.notes)


def test_abbreviated_steps_come_from_the_bar(read_text: ReadText) -> None:
    log = read_text("".join(record("999" if n == 999 else "1K", bar=n) for n in (999, 1000, 1001, 1002)))

    assert [step for step, _ in rows(log)] == [999, 1000, 1001, 1002]


def test_abbreviated_steps_are_counted_on_without_a_bar(read_text: ReadText) -> None:
    log = read_text(record("998") + record("999") + record("1K") * 3)

    assert [step for step, _ in rows(log)] == [998, 999, 1000, 1001, 1002]
    assert "counted_steps" in codes(log.notes)


def test_the_bar_of_a_resumed_run_is_shifted(read_text: ReadText) -> None:
    log = read_text(record("998", bar=1) + record("999", bar=2) + record("1K", bar=3) + record("1K", bar=4))

    assert [step for step, _ in rows(log)] == [998, 999, 1000, 1001]


def test_version_0_6_1_gives_update_plus_data(read_text: ReadText) -> None:
    log = read_text(old_record(1) + old_record(2, "0.234", "0.024", 8))

    assert rows(log) == [(1, 0.518), (2, 0.258)]
    assert codes(log.notes) == ["derived"]


def test_version_0_6_1_states_its_world_in_the_banner(read_text: ReadText) -> None:
    banner = "INFO 2026-01-02 03:04:00 ot_train.py:446 Effective batch size: 2 x 4 = 8\n"

    assert read_text(banner + old_record(1)).world_size == 4


@pytest.mark.parametrize(
    "after", ["smpl:1K", "data_s:0.001", "updt_s:0.026", "updt_s:0.026 ", "step_s:", "step_s:0.02"]
)
def test_a_record_cut_by_a_kill_is_never_a_number(read_text: ReadText, after: str) -> None:
    cut = record("3").index(after) + len(after)

    log = read_text(BANNER + record("1") + record("2") + record("3")[:cut])

    assert [step for step, _ in rows(log)] == [1, 2]


def test_a_terminal_capture_reads_like_a_file(read_text: ReadText) -> None:
    plain = BANNER + record("1", bar=1) + record("2", bar=2) + END
    captured = "\x1b[1m\x1b[33mLogs will be saved locally.\x1b[0m\n" + plain

    assert rows(read_text(captured.replace("\n", "\r\n"))) == rows(read_text(plain))


def test_a_traceback_in_the_log_is_no_trouble(read_text: ReadText) -> None:
    log = read_text("Traceback (most recent call last):\nOSError: libtorchcodec\n" * 100 + record("1"))

    assert rows(log)[0][0] == 1
    assert log.errors == ()


@pytest.mark.parametrize("cut", ["lr:1.0e-05", "prep_s:0.000 ", "updt_s:0.026 ", "step_s:", "step_s:0.02"])
def test_a_record_cut_by_the_next_one_never_takes_its_numbers(read_text: ReadText, cut: str) -> None:
    torn = record("2", "0.0271", "504").partition(cut)[0] + cut

    log = read_text(BANNER + record("1", "0.300", "213") + torn + record("3", "0.327", "196"))

    assert rows(log) == [(1, 0.3), (3, 0.327)]
    assert codes(log.errors) == ["torn_record:3"]


@pytest.mark.parametrize("cut", ["data_s:0.002", "data_s:0.002 ", "data_s:0.002 step_s:0.4", "data_s:0.002 step_s:12"])
def test_a_cut_record_with_a_line_end_is_an_error_and_not_of_the_older_format(read_text: ReadText, cut: str) -> None:
    torn = record("2").partition("data_s:")[0] + f"updt_s:0.026 {cut}\n"

    log = read_text(BANNER + record("1", "0.300", "213") + torn + record("3", "0.327", "196"))

    assert rows(log) == [(1, 0.3), (3, 0.327)]
    assert codes(log.errors) == ["torn_record:3"]


def test_a_cut_rate_is_no_finer_time(read_text: ReadText) -> None:
    records = [record(str(n), "0.005", "12345") for n in range(1, 30)]
    cut = record("30", "0.005", "12345").replace("smp/s:12345 kld_loss:6.391", "smp/s:1234")

    log = read_text(BANNER + "".join(records) + cut)

    assert rows(log)[0] == (1, 64 / 12345)
    assert rows(log)[-1] == (30, 0.005)
