"""The only place that puts rows of a log in order: cleaned, numbered, one value per step and rank. Pure.

Nothing is dropped, renumbered or preferred without a note.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interlace.steplog.gaps import kind_of, note_gaps, note_kind
from interlace.steplog.model import MAX_EXTRA_COLUMNS, Parsed, Remarks, Row, StepLog, listed
from interlace.steplog.sequence import in_order
from interlace.steplog.validation import without_validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHOWN_TURNS = 4
MAX_STEP = 2**53
_NEARLY_ALL = 0.7


def assemble(parsed: Parsed, reader: str, why: str, facts: Mapping[str, str] | None = None) -> StepLog | None:
    """Turn what a reader found into a step log; None when no row has a usable time."""
    remarks = parsed.remarks
    _note_non_finite_extras(parsed.rows, remarks)
    ordered = without_validation(sorted(parsed.rows, key=lambda row: row.line), remarks)
    ordered = _without_epochs(ordered, remarks)
    ordered = in_order(ordered, _by_rank(ordered), remarks)
    rows = _numbered(_usable(_from_clock(ordered, remarks), remarks), remarks)
    if not rows:
        return None
    settled: list[Row] = []
    attempts = 1
    for rank, of_rank in sorted(_by_rank(rows).items()):
        kept, tries = _one_per_step(of_rank, rank, remarks)
        settled += kept
        attempts = max(attempts, tries)
    gap = note_gaps(_by_rank(settled), parsed.world_size, remarks)
    steps = len({row.step for row in settled})
    kind = kind_of(parsed, steps, gap, clock=_is_clock(parsed.rows))
    note_kind(kind, steps, gap, remarks)
    frame = _frame(_with_one_clock(settled, remarks))
    return StepLog(
        reader=reader,
        frame=frame,
        cumulative=bool(frame["end_s"].notna().all()),
        quantum_s=_quantum_s(frame["step_s"].to_numpy()),
        world_size=parsed.world_size,
        ended=parsed.ended,
        started_at=parsed.started_at,
        finished_at=parsed.finished_at,
        why=why,
        notes=tuple(remarks.notes),
        errors=remarks.all_errors(),
        attempts=attempts,
        reduced=parsed.reduced,
        kind=kind,
        facts=facts or {},
    )


def slowest_rank(frame: pd.DataFrame) -> pd.DataFrame:
    """Reduce a log's frame to one row a step: the slowest rank.

    Returns step, step_s (the largest over the ranks), end_s (the largest clock over the ranks: the step is
    over when its last rank is; NaN when no rank has one), rank (whose step_s it is) and ranks (how many
    ranks logged the step). A step that a rank lacks is reduced over the others and shows it in `ranks`.
    """
    by_step = frame.groupby("step", sort=True)
    slowest = frame.loc[by_step["step_s"].idxmax()]
    return pd.DataFrame(
        {
            "step": slowest["step"].to_numpy(),
            "step_s": slowest["step_s"].to_numpy(),
            "end_s": by_step["end_s"].max().to_numpy(),
            "rank": slowest["rank"].to_numpy(),
            "ranks": by_step["step_s"].count().to_numpy(),
        }
    )


def _without_epochs(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Forget step numbers that start again with each epoch; a global counter goes on."""
    for of_rank in _by_rank(rows).values():
        for before, row in pairwise(of_rank):
            epochs = _epoch(before), _epoch(row)
            if epochs[0] < epochs[1] and row.step is not None and row.step <= _step(before):
                remarks.note("per_epoch_counter", "the step counter starts again with each epoch")
                return [row._replace(step=None) for row in rows]
    return rows


def _epoch(row: Row) -> float:
    extra = row.extra or {}
    return extra.get("epoch", extra.get("Epoch", math.nan))


def _from_clock(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Take step times from the cumulative clock where the log has nothing else; the first step has none."""
    if not _is_clock(rows):
        return rows
    remarks.note("from_clock", "step times are differences of the cumulative clock; the first record has none")
    timed, over_gaps = [], []
    for of_rank in _by_rank(rows).values():
        usual = _usual_gap(of_rank)
        for before, row in pairwise(of_rank):
            steps = _step(row) - _step(before) if row.step is not None else 1
            if usual and steps > usual:
                over_gaps.append(row)
            elif steps > 0:
                timed.append(row._replace(step_s=round((row.end_s - before.end_s) / steps, 9)))
    if over_gaps:
        text = f"{len(over_gaps)} differences over missing steps were left out, they are means{_at(over_gaps)}"
        remarks.note("clock_gaps", text)
    return sorted(timed, key=lambda row: row.line)


def _usual_gap(rows: list[Row]) -> int | None:
    """Return the distance of nearly all records of a rank, None where there is no such distance."""
    gaps = Counter(_step(b) - _step(a) for a, b in pairwise(rows) if b.step is not None)
    usual, times = gaps.most_common(1)[0] if gaps else (0, 0)
    return usual if times > _NEARLY_ALL * gaps.total() else None


def _is_clock(rows: list[Row]) -> bool:
    """Whether the log has a cumulative clock and nothing else."""
    return bool(rows) and all(math.isnan(row.step_s) and math.isfinite(row.end_s) for row in rows)


def _usable(rows: list[Row], remarks: Remarks) -> list[Row]:
    odd = [row for row in rows if max(_step(row), row.rank) > MAX_STEP or (row.step is not None and row.step < 0)]
    if odd:
        remarks.note("bad_step", f"{len(odd)} rows have a step below 0, or a step or rank above {MAX_STEP}: dropped")
        dropped = {id(row) for row in odd}
        rows = [row for row in rows if id(row) not in dropped]
    broken = [row for row in rows if not math.isfinite(row.step_s)]
    if broken:
        remarks.note("non_finite_step_s", f"{len(broken)} rows without a finite step time dropped{_at(broken)}")
    finite = [row for row in rows if math.isfinite(row.step_s)]
    negative = [row for row in finite if row.step_s <= 0]
    if negative:
        remarks.note("not_positive_step_s", f"{len(negative)} rows with a time of zero or less dropped{_at(negative)}")
    return [row for row in finite if row.step_s > 0]


def _at(rows: list[Row]) -> str:
    steps = [row.step for row in rows if row.step is not None]
    return f" (steps {listed(steps)})" if steps else ""


def _numbered(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Count rows in their order where the log has no numbers; refuse to mix both."""
    without = sum(row.step is None for row in rows)
    if not without:
        return rows
    if without < len(rows):
        remarks.note("unnumbered_rows", f"{without} of {len(rows)} rows have no step number and were dropped")
        return [row for row in rows if row.step is not None]
    remarks.note("numbered_by_order", "the log has no step numbers: steps are counted from 1 in its order")
    seen: Counter[int] = Counter()
    numbered = []
    for row in rows:
        seen[row.rank] += 1
        numbered.append(row._replace(step=seen[row.rank]))
    return numbered


def _by_rank(rows: list[Row]) -> dict[int, list[Row]]:
    ranks: dict[int, list[Row]] = {}
    for row in rows:
        ranks.setdefault(row.rank, []).append(row)
    return ranks


def _one_per_step(rows: list[Row], rank: int, remarks: Remarks) -> tuple[list[Row], int]:
    """Keep one row a step, the later one of a resumed run; returns the rows and the number of attempts."""
    times_each = Counter(row.step for row in rows)
    if max(times_each.values()) == 1 and all(_step(a) < _step(b) for a, b in pairwise(rows)):
        return rows, 1
    if rank < 0 and (ranks := _unlabelled_ranks(rows, times_each)):
        remarks.note(
            "unlabelled_ranks",
            f"each step is there {ranks} times and the log does not say whose: the slowest of them was taken",
        )
        return _slowest_rows(rows), 1
    if (times := _unlabelled_ranks(rows, times_each)) and _differ(rows, times_each):
        remarks.note(
            "several_at_once",
            f"each step of rank {rank} is there {times} times: several trainings wrote into this log at once, or it has"
            " parts of steps; the last of them was taken",
        )
        return [row for _, row in sorted({_step(row): row for row in rows}.items())], 1
    return _latest(rows, f" of rank {rank}" if rank >= 0 else "", remarks)


def _unlabelled_ranks(rows: list[Row], times_each: Counter[int | None]) -> int:
    """How many ranks write into this log without saying so; 0 when repeats have another reason.

    Ranks stay together, so a step's rows stand close to each other; a resumed run goes back once, far.
    """
    usual, steps = Counter(times_each.values()).most_common(1)[0]
    if usual == 1 or steps < 0.9 * len(times_each):
        return 0
    turns_back = sum(_step(b) <= _step(a) for a, b in pairwise(rows))
    return usual if turns_back > len(times_each) * (usual - 1) / 2 else 0


def _differ(rows: list[Row], times_each: Counter[int | None]) -> bool:
    """Whether the times that one step has are mostly others: a logger that says everything twice repeats them."""
    return 2 * len({(row.step, row.step_s) for row in rows}) > len(rows) + len(times_each)


def _slowest_rows(rows: list[Row]) -> list[Row]:
    best: dict[int, Row] = {}
    for row in rows:
        step = _step(row)
        if step not in best or row.step_s > best[step].step_s:
            best[step] = row
    return [best[step] for step in sorted(best)]


def _latest(rows: list[Row], whose: str, remarks: Remarks) -> tuple[list[Row], int]:
    kept: dict[int, Row] = {}
    back: list[tuple[int, int]] = []
    doubled: list[int] = []
    replaced: set[int] = set()
    previous: int | None = None
    for row in rows:
        step = _step(row)
        if step == previous:
            doubled.append(step)
        elif previous is not None and step < previous:
            back.append((previous, step))
        if step in kept and step != previous:
            replaced.add(step)
        kept[step] = row
        previous = step
    if doubled:
        remarks.note(
            "duplicate_steps",
            f"steps {listed(doubled)}{whose} stand twice in a row: the later value was kept",
        )
    if back:
        turns = ", ".join(f"{a} -> {b}" for a, b in back[:SHOWN_TURNS]) + (" ..." if len(back) > SHOWN_TURNS else "")
        remarks.note(
            "resumed",
            f"the step counter{whose} goes back ({turns}): {len(back) + 1} attempts, the later value of"
            f" {len(replaced)} repeated steps was kept",
        )
    return [kept[step] for step in sorted(kept)], len(back) + 1


def _with_one_clock(rows: list[Row], remarks: Remarks) -> list[Row]:
    """Drop the cumulative clock where it does not run through the whole log of a rank."""
    for of_rank in _by_rank(rows).values():
        clock = [row.end_s for row in of_rank]
        if all(math.isnan(t) for t in clock):
            continue
        if not all(a < b for a, b in pairwise(clock)) or not math.isfinite(clock[0]):
            remarks.note("clock_restarts", "the cumulative clock has gaps or goes back: single step times are used")
            return [row._replace(end_s=math.nan) for row in rows]
    return rows


def _note_non_finite_extras(rows: Iterable[Row], remarks: Remarks) -> None:
    found: dict[str, list[int]] = {}
    for row in rows:
        for name, value in (row.extra or {}).items():
            if not math.isfinite(value) and row.step is not None:
                found.setdefault(name, []).append(row.step)
    for name, steps in found.items():
        remarks.note(f"non_finite_{name}", f"{name} is not finite at steps {listed(steps)}")


def _frame(rows: list[Row]) -> pd.DataFrame:
    columns: dict[str, object] = {
        "step": np.array([row.step for row in rows], dtype=np.int64),
        "rank": np.array([row.rank for row in rows], dtype=np.int64),
        "step_s": np.array([row.step_s for row in rows], dtype=np.float64),
        "end_s": np.array([row.end_s for row in rows], dtype=np.float64),
    }
    names = dict.fromkeys(name for row in rows for name in row.extra or ())
    for name in [name for name in names if name not in columns][:MAX_EXTRA_COLUMNS]:
        columns[name] = np.array([(row.extra or {}).get(name, math.nan) for row in rows], dtype=np.float64)
    return pd.DataFrame(columns)


def _quantum_s(values: np.ndarray) -> float | None:
    """Return the smallest gap between distinct values, above conversion noise; None for fewer than two."""
    gaps = np.diff(np.unique(values))
    real = gaps[gaps > 1e-12 * float(np.max(values))]
    return float(f"{real.min():.6g}") if real.size else None


def _step(row: Row) -> int:
    return -1 if row.step is None else row.step
