"""The only place that shows a folder of fairchem's checksums to people and programs."""

from __future__ import annotations

import json
import math
import textwrap
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.errors import UsageError
from interlace.steplog.checksums import FACTS, GLOB, NAME, is_folder, read_folder
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.steplog.checksums import Checksums, Difference, Folder, RankStep

WIDTH = 116
SHOWN_FIRST, SHOWN_LAST, SHOWN_RANKS = 3, 2, 4
KINDS = {"parameter": "parameters", "gradient": "gradients"}


def shown(path: str, reader: str, *, json_asked: bool) -> str | None:
    """Return what to print of a folder of checksums; None where the path is none and may be a log.

    Raises UsageError where the reader was asked for by name, ReadError where no file is whole.
    """
    if reader not in {"auto", NAME} or not is_folder(Path(path)):
        if reader == NAME:
            raise UsageError(f"reader={NAME}: {path} is no folder of fairchem's checksum files ({GLOB})")
        return None
    folder = read_folder(Path(path))
    return json.dumps(as_json(folder), allow_nan=False) if json_asked else as_text(path, folder)


def as_text(path: str, folder: Folder) -> str:
    """Return what people read."""
    lines = [
        path,
        f"  read by     {NAME}: {folder.files} files {GLOB}",
        "  step times  none: these are values for comparing results, no run can be measured from them. Never measure",
        "              with debug_checksums_save_path: it waits for the device twice a parameter",
    ]
    for run in folder.runs:
        lines += ["", *_run(run)]
    lines += ["", *(f"  note        {note}" for note in folder.notes)] if folder.notes else [""]
    lines += _about()
    lines += [f"  error       {error}" for error in folder.errors]
    return "\n".join(lines)


def as_json(folder: Folder) -> dict[str, Any]:
    """Return what `--json` prints: strict JSON, null for what is not finite or not there; every `step_s` is null."""
    return {
        "reader": NAME,
        "step_times": False,
        "steps": [_row(run, row) for run in folder.runs for row in run.rows],
        "runs": [_run_json(run) for run in folder.runs],
        "notes": list(folder.notes),
        "errors": list(folder.errors),
        "valid": not folder.errors,
        "facts": dict(FACTS),
    }


def _row(run: Checksums, row: RankStep) -> dict[str, Any]:
    values = {
        "loss": row.loss,
        "parameters": row.parameters,
        "parameter_sum": row.parameter_sum,
        "gradients": row.gradients,
        "gradient_sum": row.gradient_sum,
    }
    place = {"step": row.step, "rank": row.rank, "step_s": None, "world_size": run.world_size}
    return place | {name: value if math.isfinite(value) else None for name, value in values.items()}


def _run_json(run: Checksums) -> dict[str, Any]:
    found: dict[str, Any] = {"world_size": run.world_size, "groups": run.groups, "compared_steps": run.compared}
    for kind, name in KINDS.items():
        found[f"same_{name}"] = run.same(kind)
        found[f"first_{kind}_difference"] = _difference_json(run.first.get(kind))
    return found


def _difference_json(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    values = [value if value is not None and math.isfinite(value) else None for value in found.values]
    return {"step": found.step, "name": found.name, "ranks": list(found.ranks), "values": values}


def _run(run: Checksums) -> list[str]:
    by_step = [(step, list(rows)) for step, rows in groupby(run.rows, key=lambda row: row.step)]
    ranks = sorted({row.rank for row in run.rows})
    names = first_of([str(rank) for rank in ranks], SHOWN_RANKS)
    return [
        f"  ranks       {len(ranks)} ({names}), world size {run.world_size}",
        f"  steps       {len(by_step)}, {by_step[0][0]} to {by_step[-1][0]}",
        "",
        *_table(by_step),
        "",
        *(f"  {name:<11} {_sameness(run, kind)}" for kind, name in KINDS.items()),
    ]


def _table(by_step: Sequence[tuple[int, list[RankStep]]]) -> list[str]:
    lines = [f"  {'step':>8}  {'parameters':>24}  {'gradients':>24}  loss"]
    cut = len(by_step) > SHOWN_FIRST + SHOWN_LAST
    for step, rows in (*by_step[:SHOWN_FIRST], *by_step[-SHOWN_LAST:]) if cut else by_step:
        if cut and step == by_step[-SHOWN_LAST][0]:
            lines.append(f"  {'...':>8}")
        losses = "  ".join(f"rank {row.rank}: {row.loss:.6g}" for row in rows[:SHOWN_RANKS])
        more = " ..." if len(rows) > SHOWN_RANKS else ""
        of_rank = rows[0]
        parameters = f"{of_rank.parameters}, sum {of_rank.parameter_sum:.8g}"
        gradients = f"{of_rank.gradients}, sum {of_rank.gradient_sum:.8g}"
        lines.append(f"  {step:>8}  {parameters:>24}  {gradients:>24}  {losses}{more}")
    return lines


def _sameness(run: Checksums, kind: str) -> str:
    """Say whether a kind of value is the same on all ranks, else where it first is not."""
    if not run.compared:
        return "one rank a step, nothing to compare"
    found = run.first.get(kind)
    if found is None:
        return f"the same on all ranks, in {run.compared} steps"
    shown = " and ".join(
        f"{'not there' if value is None else repr(value)} on rank {rank}"
        for rank, value in zip(found.ranks, found.values, strict=True)
    )
    return f"NOT the same on all ranks, first at step {found.step}: {found.name}, {shown}"


def _about() -> list[str]:
    lines: list[str] = []
    for label, text in FACTS.items():
        first = "  about       " if not lines else " " * 14
        lines += textwrap.wrap(f"{label}: {text}", WIDTH, initial_indent=first, subsequent_indent=" " * 16)
    return lines
