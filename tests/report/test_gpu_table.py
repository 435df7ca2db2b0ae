from __future__ import annotations

from interlace.report.gpu_table import gpu_rows, gpu_table
from interlace.schema import GpuSeen, Run, RunRecord


def record(*gpus: GpuSeen) -> RunRecord:
    return RunRecord(Run(0, 1, "a"), 1, "ok", 0.0, 1.0, 0, gpus=gpus)


def test_peaks_are_the_highest_and_all_else_is_the_middle_of_the_runs() -> None:
    held = {"sw_power_cap": 80.0}
    runs = [
        ("a", record(GpuSeen("GPU-1", 0, 10854.4, 517.0, None, 1980.0, 61.0, 500.0, 90.0, held))),
        ("a", record(GpuSeen("GPU-1", 0, 10752.0, 517.0, None, 1960.0, 63.0, 520.0, 92.0))),
    ]

    (cells,) = gpu_table(gpu_rows(runs)).rows

    assert cells == ("a", "0", "10.6 GiB (0.5 GiB)", "1,970 MHz", "510 W", "63 C", "91 %", "sw_power_cap 40 %")


def test_a_gpu_of_one_of_several_nodes_has_its_nodes_name_and_a_row_of_its_own() -> None:
    gpus = [GpuSeen("GPU-1", 0, 1024.0, None, node=name) for name in ("n0", "n1")]

    rows = gpu_table(gpu_rows([("a", record(*gpus))])).rows

    assert [cells[1] for cells in rows] == ["n0 0", "n1 0"]


def test_what_is_not_known_is_a_dash() -> None:
    (cells,) = gpu_table(gpu_rows([("a", record(GpuSeen("lost:1", -1, None, None, "GPU is lost")))])).rows

    assert cells == ("a", "lost:1", "-", "-", "-", "-", "-", "")
