"""Numbers that a launcher puts in front of every line are ranks, and numbers that a trainer puts there are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlace.errors import ReadError
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
    assert not [note for note in log.notes if note.startswith("rank_unknown")]
    assert by_rank(log)[SLOW] == [(step, 0.5) for step in range(1, 7)]
    assert by_rank(log)[0] == [(step, 0.4) for step in range(1, 7)]


def steps_of(numbers: Sequence[int], label: Callable[[int], str], *, each_its_own: bool = True) -> str:
    """Return a line for each number, with a step of its own or none at all."""
    step = "step={} " if each_its_own else ""
    return "".join(f"{label(n)}{step.format(at)}step_s=0.4 loss=1.5\n" for at, n in enumerate(numbers))


TWICE = [*range(10), *range(10)]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param(steps_of(range(100, 140), lambda n: f"{n}: "), 40, id="line numbers"),
        pytest.param(steps_of([n // 5 for n in range(20)], lambda n: f"{n}: "), 20, id="epochs"),
        pytest.param(steps_of([0, 0, 1, 1, 2, 2, 1, 1, 2, 2], lambda n: f"{n}: "), 10, id="epochs of a resumed run"),
        pytest.param(steps_of(TWICE, lambda n: f"{n}: "), 20, id="batches of an epoch"),
        pytest.param(steps_of(TWICE, lambda n: f"{n}: ", each_its_own=False), 20, id="batches, no other number"),
        pytest.param(steps_of(TWICE, lambda n: f"[{n}] "), 20, id="batches in brackets"),
        pytest.param(steps_of(TWICE, lambda n: f"{n:02d}:30:01 "), 20, id="the time of the day"),
        pytest.param(steps_of([0, 1] * 10, lambda n: f"{n}: "), 20, id="two numbers in alternation"),
        pytest.param(
            "".join(f"{n // 6}: step={n % 6} step_s=0.4\n" for n in range(18)), 6, id="epochs that count anew"
        ),
        pytest.param(log_of(lambda _step, _rank: "0: ", range(1)), 6, id="one of them"),
        pytest.param(log_of(lambda _step, rank: f"{40 + 3 * rank}: ", range(2)), 6, id="not from 0 on"),
    ],
)
def test_other_numbers_are_none(read_text: ReadText, text: str, steps: int) -> None:
    log = read_text(text)

    assert list(by_rank(log)) == [-1]
    assert len(rows(log)) == steps


@pytest.mark.parametrize("own", ["rank={} ", "[rank{}]: ", "[rank {}] ", "[default{}]:"])
def test_what_a_line_itself_says_is_its_rank(read_text: ReadText, own: str) -> None:
    """A task of srun a node, and torchrun in each."""
    text = "".join(
        f"{node}: {own.format(4 * node + local)}step={step} step_s={0.9 if (node, local) == (1, 1) else 0.4}\n"
        for step in range(1, 7) for local in range(4) for node in (0, 1)
    )  # fmt: skip

    log = read_text(text)

    assert sorted(by_rank(log)) == list(range(8))
    assert by_rank(log)[5] == [(step, 0.9) for step in range(1, 7)]


def test_several_ranks_behind_one_label_are_not_one(read_text: ReadText) -> None:
    """A task of srun a node, ranks that do not say which they are in each."""
    times = {(node, local): 0.9 if (node, local) == (1, 0) else 0.4 for node in (0, 1) for local in (0, 1)}

    log = read_text("".join(f"{n}: step={s} step_s={t}\n" for s in range(1, 9) for (n, _), t in times.items()))

    assert by_rank(log) == {-1: [(step, 0.9) for step in range(1, 9)]}


def test_two_records_on_one_line_leave_a_label_nothing_to_name(read_text: ReadText) -> None:
    lines = [f"{rank}: step={step} step_s=0.{4 + rank}\n" for step in range(1, 9) for rank in (0, 1)]
    lines[2:4] = [f"{lines[2].strip()}{lines[3]}"]

    assert list(by_rank(read_text("".join(lines)))) == [-1]


def test_a_bar_that_all_ranks_draw_is_none_of_theirs(read_text: ReadText) -> None:
    bars = "".join(
        f"{rank}: train: {n:3d}%|##| {n}/100 [00:{n // 2:02d}<00:50, {2 - rank}.00it/s]\n"
        for n in range(1, 50) for rank in (0, 1)
    )  # fmt: skip

    assert list(by_rank(read_text(bars))) == [-1]


def test_an_error_shows_the_line_as_it_stands_in_the_file(read_text: ReadText) -> None:
    with pytest.raises(ReadError, match=r"\| 0: took 0\.4"):
        read_text("".join(f"{rank}: took 0.4\n" for _ in range(5) for rank in (0, 1)))


def test_labels_on_some_lines_only_are_none(read_text: ReadText) -> None:
    labelled = log_of(lambda _step, rank: f"{rank}: ", range(2))

    log = read_text(labelled + "a line of nobody\n" * 20)

    assert list(by_rank(log)) == [-1]
