"""The only reader of fairchem's checksum folders (`debug_checksums_save_path`): values by rank and step, no times.

Clock: none. There are no step times in these files; a run can never be measured from them.
Includes: after backward, before clipping and the optimizer: the loss of the rank's own batch, and of every parameter
that has a gradient the mean of its absolute values and that of its gradient.
Ranks: every rank writes its own file a step. Losses differ, each rank has its own batch; parameters and gradients are
the same on all ranks of a run with DDP, and need not be with FSDP, which shards them.
Resolution: that of a float.
Lost: everything but one mean a tensor: two tensors with the same mean can still differ.

The files are named `ddp{world}.{rank}_gp{groups}.{group}_step{step}.txt`, the rank counts over all nodes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from interlace.errors import ReadError
from interlace.steplog import interlace_log
from interlace.steplog.facts import facts_in
from interlace.steplog.model import Remarks, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

NAME = "fairchem_checksums"
FACTS = facts_in(__doc__)
GLOB = "ddp*_gp*_step*.txt"
_FILE = re.compile(r"ddp(?P<world>\d+)\.(?P<rank>\d+)_gp(?P<groups>\d+)\.\d+_step(?P<step>\d+)\.txt")
_KINDS = {"Param": "parameter", "Grad": "gradient"}


class File(NamedTuple):
    """What the name of a file says."""

    run: tuple[int, int]
    step: int
    rank: int
    path: Path


@dataclass(frozen=True)
class Values:
    """What one rank wrote of one step: its loss, and a mean by name of every parameter and gradient."""

    loss: float
    means: Mapping[str, Mapping[str, float]]


class Torn(NamedTuple):
    """The line where a file is not whole, and what is wrong with it."""

    line: int
    text: str
    what: str


@dataclass(frozen=True)
class RankStep:
    """One rank's step in short: how many parameters and gradients there are, and the sums of their means."""

    step: int
    rank: int
    loss: float
    parameters: int
    parameter_sum: float
    gradients: int
    gradient_sum: float


@dataclass(frozen=True)
class Difference:
    """The first tensor whose mean is not the same on two ranks; a value is None where the rank has no such tensor."""

    step: int
    name: str
    ranks: tuple[int, int]
    values: tuple[float | None, float | None]


@dataclass(frozen=True)
class Checksums:
    """The whole files of a run. `compared`: steps that two ranks or more have; `first`: where ranks differ, by kind."""

    world_size: int
    groups: int
    rows: tuple[RankStep, ...]
    compared: int
    first: Mapping[str, Difference]

    def same(self, kind: str) -> bool | None:
        """Whether all ranks agree in `parameter` or `gradient`; None where there is nothing to compare."""
        return kind not in self.first if self.compared else None


@dataclass(frozen=True)
class Folder:
    """What a folder of checksums holds: one entry a run (world size), and what is torn or missing in it."""

    files: int
    runs: tuple[Checksums, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]


def is_folder(path: Path) -> bool:
    """Whether a folder holds checksum files, and no recorder logs, which count more."""
    named = path.is_dir() and any(_FILE.fullmatch(file.name) for file in path.glob(GLOB))
    return named and not any(path.glob(interlace_log.FILES))


def read_folder(path: Path) -> Folder:
    """Read all checksum files of a folder. Raises ReadError where not one of them is whole."""
    files = sorted(_files(path))
    remarks = Remarks()
    worlds = sorted({file.run for file in files})
    if len(worlds) > 1:
        names = f"{len(worlds)} runs ({', '.join(f'ddp{world}_gp{groups}' for world, groups in worlds)})"
        remarks.errors.append(f"several_runs: files of {names} share the folder; each is read alone")
    runs = tuple(_run([file for file in files if file.run == world], remarks) for world in worlds)
    if not any(run.rows for run in runs):
        said = "\n  ".join(remarks.errors[:3])
        raise ReadError(f"{path}: not one of {len(files)} checksum files is whole.\n  {said}")
    return Folder(len(files), tuple(run for run in runs if run.rows), tuple(remarks.notes), remarks.all_errors())


def _files(path: Path) -> Iterator[File]:
    for file in path.glob(GLOB):
        if match := _FILE.fullmatch(file.name):
            world, groups, step, rank = (int(match[name]) for name in ("world", "groups", "step", "rank"))
            yield File((world, groups), step, rank, file)


def _run(files: Sequence[File], remarks: Remarks) -> Checksums:
    """Read one run, step by step, so that only one step's names are in memory."""
    world, groups = files[0].run
    rows: list[RankStep] = []
    first: dict[str, Difference] = {}
    compared = 0
    for step in sorted({file.step for file in files}):
        of_step = {file.rank: file for file in files if file.step == step}
        whole = {rank: found for rank, file in of_step.items() if (found := _values(file, remarks))}
        rows += [_short(step, rank, values) for rank, values in whole.items()]
        compared += len(whole) > 1
        for kind in _KINDS.values():
            if kind not in first and (difference := _difference(step, kind, whole)):
                first[kind] = difference
    _note_missing(files, world, remarks)
    if odd := [row.step for row in rows if not math.isfinite(row.loss + row.gradient_sum + row.parameter_sum)]:
        remarks.note("non_finite", f"a loss, parameter or gradient is not finite at steps {listed(odd)}")
    return Checksums(world, groups, tuple(rows), compared, first)


def _note_missing(files: Sequence[File], world: int, remarks: Remarks) -> None:
    """Say which rank lacks which steps; a rank without any file lacks all of them."""
    steps = {file.step for file in files}
    lacks = {rank: steps - {file.step for file in files if file.rank == rank} for rank in range(world)}
    remarks.errors += [
        f"missing_steps: rank {rank} of {world} has no file of {len(missing)} steps: {listed(missing)}"
        for rank, missing in lacks.items()
        if missing
    ]


def _values(file: File, remarks: Remarks) -> Values | None:
    """Read one file; None, and an error with the line, for one that is torn or of another step."""
    read = _parsed(file.path.read_text(errors="replace"), file.step)
    if isinstance(read, Torn):
        why = f"this line {read.what}; the file was left out"
        remarks.error(f"torn_file:{file.path.name}", read.line, read.text, why)
        return None
    return read


def _parsed(text: str, step: int) -> Values | Torn:
    """Read the text of one file, whose name says it is of this step."""
    lines = text.split("\n")
    means: dict[str, dict[str, float]] = {kind: {} for kind in _KINDS.values()}
    loss = _number(lines[0].removeprefix("Loss,")) if lines[0].startswith("Loss,") else None
    if loss is None:
        return Torn(1, lines[0], "is no `Loss,NUMBER`")
    for n, line in enumerate(lines[1:-1], 2):
        if what := _take(line, step, means):
            return Torn(n, line, what)
    if lines[-1]:
        return Torn(len(lines), lines[-1], "has no end: the file is cut")
    if alone := means["parameter"].keys() ^ means["gradient"].keys():
        return Torn(len(lines) - 1, min(alone), "is a parameter without its gradient: the file is cut")
    return Values(loss, means)


def _take(line: str, step: int, means: dict[str, dict[str, float]]) -> str | None:
    """Take one line in; returns what is wrong with it."""
    kind, _, rest = line.partition(",")
    number, _, named = rest.partition(",")
    name, _, value = named.rpartition(",")
    mean = _number(value)
    if kind not in _KINDS or not name or mean is None:
        return "is no `Param,STEP,NAME,NUMBER` or `Grad,...`"
    if number != str(step):
        return f"is of step {number}, the file of step {step}"
    if name in means[_KINDS[kind]]:
        return "stands there twice"
    means[_KINDS[kind]][name] = mean
    return None


def _number(text: str) -> float | None:
    try:
        return float(text) if text.strip() == text else None
    except ValueError:
        return None


def _short(step: int, rank: int, values: Values) -> RankStep:
    parameters, gradients = values.means["parameter"], values.means["gradient"]
    sums = math.fsum(parameters.values()), math.fsum(gradients.values())
    return RankStep(step, rank, values.loss, len(parameters), sums[0], len(gradients), sums[1])


def _difference(step: int, kind: str, ranks: Mapping[int, Values]) -> Difference | None:
    """Return the first tensor of a step, in the order of the files, that another rank has not or has differently."""
    tensors = [(rank, values.means[kind]) for rank, values in sorted(ranks.items())]
    for rank, means in tensors[1:]:
        base, reference = tensors[0]
        for name in [*reference, *(name for name in means if name not in reference)]:
            pair = reference.get(name), means.get(name)
            if pair[0] != pair[1] and not all(value is not None and math.isnan(value) for value in pair):
                return Difference(step, name, (base, rank), pair)
    return None
