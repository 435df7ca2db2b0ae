"""Folders of fairchem's checksums: what is read of them, what is wrong in them, and that no run is measured by them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from interlace.cli.steps import run
from interlace.errors import ReadError, UsageError
from interlace.steplog import read
from interlace.steplog.checksums import Difference, RankStep, read_folder

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, rank: int, step: int, *, world: int = 2, loss: str = "1.5", **grads: str) -> Path:
    """Write a file as fairchem does: the loss, then each parameter and its gradient."""
    lines = [f"Loss,{loss}"]
    for name, grad in ({"w": "0.25", "b": "0.5"} | grads).items():
        lines += [f"Param,{step},module.{name},0.125", f"Grad,{step},module.{name},{grad}"]
    path = folder / f"ddp{world}.{rank}_gp0.0_step{step}.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def shown(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert run([str(folder), *more]) == 0
    return capsys.readouterr().out


def as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(folder, capsys, "--json"), parse_constant=pytest.fail)
    return found


def test_losses_and_sums_are_read_by_step_and_rank(tmp_path: Path) -> None:
    for step in (0, 10, 9):
        write(tmp_path, 0, step, loss="1.5")
        write(tmp_path, 1, step, loss="2.5")

    found = read_folder(tmp_path)

    (only,) = found.runs
    assert [(row.step, row.rank, row.loss) for row in only.rows] == [
        (0, 0, 1.5), (0, 1, 2.5), (9, 0, 1.5), (9, 1, 2.5), (10, 0, 1.5), (10, 1, 2.5)
    ]  # fmt: skip
    assert only.rows[0] == RankStep(0, 0, 1.5, 2, 0.25, 2, 0.75)
    assert (only.world_size, only.compared, only.same("parameter"), only.same("gradient")) == (2, 3, True, True)
    assert (found.notes, found.errors) == ((), ())


def test_people_are_told_that_there_are_no_step_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 0, 0)
    write(tmp_path, 1, 0, loss="2.5")

    text = shown(tmp_path, capsys)

    assert "step times  none: these are values for comparing results, no run can be measured from them" in text
    assert re.search(r"2, sum 0\.25 +2, sum 0\.75  rank 0: 1\.5  rank 1: 2\.5\n", text)
    assert "gradients   the same on all ranks, in 1 steps" in text


def test_no_step_series_is_made_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 0, 0)

    with pytest.raises(ReadError, match="they hold no times"):
        read(tmp_path)
    assert [row["step_s"] for row in as_json(tmp_path, capsys)["steps"]] == [None]


def test_the_first_difference_between_ranks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (0, 1, 2):
        write(tmp_path, 0, step)
        write(tmp_path, 1, step, b="0.75" if step else "0.5")

    (only,) = read_folder(tmp_path).runs

    assert only.first == {"gradient": Difference(1, "module.b", (0, 1), (0.5, 0.75))}
    assert "NOT the same on all ranks, first at step 1: module.b, 0.5 on rank 0 and 0.75 on rank 1" in shown(
        tmp_path, capsys
    )


def test_a_parameter_that_one_rank_lacks_is_a_difference(tmp_path: Path) -> None:
    write(tmp_path, 0, 0)
    write(tmp_path, 1, 0, extra="0.5")

    (only,) = read_folder(tmp_path).runs

    assert only.first["parameter"] == Difference(0, "module.extra", (0, 1), (None, 0.125))


def test_what_is_not_a_number_on_all_ranks_is_the_same_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, 0, 3, loss="nan", w="nan")
    write(tmp_path, 1, 3, loss="nan", w="nan")

    found = as_json(tmp_path, capsys)

    assert (found["steps"][0]["loss"], found["steps"][0]["gradient_sum"]) == (None, None)
    assert found["runs"][0]["same_gradients"] is True
    assert found["notes"] == ["non_finite: a loss, parameter or gradient is not finite at steps 3"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Grad,4,module.w,0.25", "Grad,4,module.w,", "3: this line is no `Param,STEP,NAME,NUMBER`"),
        ("Grad,4,module.w,0.25", "Grad,3,module.w,0.25", "3: this line is of step 3, the file of step 4"),
        ("Param,4,module.b", "Param,4,module.w", "4: this line stands there twice"),
        ("Loss,1.5\n", "", "1: this line is no `Loss,NUMBER`"),
        ("0.5\n", "0.", "5: this line has no end: the file is cut"),
        ("Grad,4,module.b,0.5\n", "", "4: this line is a parameter without its gradient: the file is cut"),
    ],
)
def test_a_torn_file_is_an_error_with_its_line_and_left_out(tmp_path: Path, old: str, new: str, said: str) -> None:
    write(tmp_path, 0, 4)
    torn = write(tmp_path, 1, 4)
    assert old in torn.read_text()
    torn.write_text(torn.read_text().replace(old, new))

    found = read_folder(tmp_path)

    assert [row.rank for row in found.runs[0].rows] == [0]
    assert found.runs[0].same("gradient") is None
    assert found.errors[0].startswith(f"torn_file:ddp2.1_gp0.0_step4.txt:{said}")


def test_a_folder_of_torn_files_alone_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 0, 0).write_text("Loss,1.")

    with pytest.raises(ReadError, match=r"not one of 1 checksum files is whole(.|\n)*has no end"):
        read_folder(tmp_path)


def test_steps_that_a_rank_lacks_are_an_error(tmp_path: Path) -> None:
    for rank, steps in ((0, range(5)), (1, range(3))):
        for step in steps:
            write(tmp_path, rank, step, world=3)

    found = read_folder(tmp_path)

    assert found.errors == (
        "missing_steps: rank 1 of 3 has no file of 2 steps: 3, 4",
        "missing_steps: rank 2 of 3 has no file of 5 steps: 0, 1, 2, 3, 4",
    )


def test_two_world_sizes_are_read_apart_and_said(tmp_path: Path) -> None:
    write(tmp_path, 0, 0, world=1)
    write(tmp_path, 0, 0)
    write(tmp_path, 1, 0)

    found = read_folder(tmp_path)

    assert [(each.world_size, len(each.rows)) for each in found.runs] == [(1, 1), (2, 2)]
    assert found.errors == ("several_runs: files of 2 runs (ddp1_gp0, ddp2_gp0) share the folder; each is read alone",)


def test_the_reader_asked_for_by_name_needs_such_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"reader=fairchem_checksums: \S+ is no folder of fairchem's checksum files"):
        run([str(tmp_path), "reader=fairchem_checksums"])
