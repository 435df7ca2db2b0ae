"""What tests compare: the rows of a log, and the codes of what was said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlace.steplog import StepLog


def rows(log: StepLog) -> list[tuple[int, float]]:
    return list(zip(log.frame["step"].tolist(), log.frame["step_s"].tolist(), strict=True))


def by_rank(log: StepLog) -> dict[int, list[tuple[int, float]]]:
    found: dict[int, list[tuple[int, float]]] = {}
    for step, rank, step_s in log.frame[["step", "rank", "step_s"]].itertuples(index=False):
        found.setdefault(int(rank), []).append((int(step), float(step_s)))
    return found


def codes(remarks: tuple[str, ...]) -> list[str]:
    """Return the code words in front of notes or errors, without the one every unlabelled log has."""
    return [r.split(": ")[0] for r in remarks if not r.startswith("rank_unknown")]
