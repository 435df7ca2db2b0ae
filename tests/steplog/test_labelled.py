"""Numbers that a launcher puts in front of every line are ranks, and numbers that a trainer puts there are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.steplog.series import by_rank, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.steplog.conftest import ReadText

SLOW = 7


def step_line(step: int, rank: int) -> str:
    return f"step={step} step_s={0.5 if rank == SLOW else 0.4} loss=1.5"


def log_of(label: Callable[[int, int], str], ranks: Sequence[int], steps: int = 6) -> str:
    """Return what ranks print in turn, every other step the other way round."""
    lines = ["some library says hello", "another one, too", "iteration begins"]
    text = [f"{label(0, rank)}{line}" for line in lines for rank in ranks]
    for step in range(1, steps + 1):
        text += [f"{label(step, rank)}{step_line(step, rank)}" for rank in (ranks if step % 2 else ranks[::-1])]
    return "\n".join(text) + "\n"


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(lambda _step, rank: f"{rank}: ", id="srun -l"),
        pytest.param(lambda _step, rank: f"{rank:2d}: ", id="srun -l, padded"),
        pytest.param(lambda _step, rank: f"{rank:02d}: ", id="zeros in front"),
        pytest.param(lambda _step, rank: f"[1,{rank}]<stdout>: ", id="mpirun --tag-output"),
        pytest.param(lambda _step, rank: f"[prterun-n1-77@1,{rank}]<stderr>: ", id="Open MPI 5"),
        pytest.param(lambda _step, rank: f"[{rank}] ", id="mpiexec -l"),
    ],
)
def test_a_launchers_labels_are_ranks(read_text: ReadText, label: Callable[[int, int], str]) -> None:
    log = read_text("srun: job 7 queued\n" + log_of(label, range(12)))

    assert sorted(by_rank(log)) == list(range(12))
    assert by_rank(log)[SLOW] == [(step, 0.5) for step in range(1, 7)]
    assert by_rank(log)[0] == [(step, 0.4) for step in range(1, 7)]


@pytest.mark.parametrize(
    ("label", "ranks"),
    [
        pytest.param(lambda step, rank: f"{100 * step + rank}: ", range(2), id="line numbers"),
        pytest.param(lambda step, _rank: f"{step // 3}: ", range(1), id="epochs"),
        pytest.param(lambda _step, _rank: "0: ", range(1), id="one of them"),
        pytest.param(lambda _step, rank: f"{40 + 3 * rank}: ", range(2), id="not from 0 on"),
    ],
)
def test_other_numbers_are_none(read_text: ReadText, label: Callable[[int, int], str], ranks: Sequence[int]) -> None:
    log = read_text(log_of(label, ranks))

    assert list(by_rank(log)) == [-1]
    assert [step for step, _ in rows(log)] == [1, 2, 3, 4, 5, 6]


def test_labels_on_some_lines_only_are_none(read_text: ReadText) -> None:
    labelled = log_of(lambda _step, rank: f"{rank}: ", range(2))

    log = read_text(labelled + "a line of nobody\n" * 20)

    assert list(by_rank(log)) == [-1]
