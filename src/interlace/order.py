"""Orders of runs: making them before a sweep, and judging the one in which given runs were made.

The only place that knows what a mirrored order is. Pure, and imports nothing heavy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlace.settings import Order

Kind = Literal["interleaved", "alternating", "sequential", "irregular", "unknown"]

NOT_INTERLEAVED = "arms were not interleaved; drift is not separated from the effect"
UNKNOWN = "the order of the runs is not known; drift cannot be separated from the effect"


@dataclass(frozen=True)
class JudgedOrder:
    """What an order of runs is worth.

    `rounds` gives every run, in the order of time, the number of its round from 1 on (a round may be
    incomplete); it is empty where the order is not known. `reason` says why no verdict may be given, None
    where it may.
    """

    kind: Kind
    rounds: tuple[int, ...]
    reason: str | None
    notes: tuple[str, ...] = ()


def order_runs_mirrored(arms: Sequence[str], rounds: int, seed: int) -> tuple[tuple[str, ...], list[list[str]]]:
    """Thue-Morse mirrored rounds of any number of arms: AB BA BA AB for two, four rounds.

    Round r (from 0) runs forward if r has an even number of ones in binary, else backward, which cancels
    linear drift at even numbers of rounds and quadratic drift at multiples of four. The base order is drawn
    from `seed`.
    """
    base = _shuffled(arms, random.Random(seed))  # noqa: S311 (a reproducible order, not a secret)
    order = [list(base) if r.bit_count() % 2 == 0 else list(reversed(base)) for r in range(rounds)]
    return tuple(base), order


def order_runs_random(arms: Sequence[str], rounds: int, seed: int) -> tuple[tuple[str, ...], list[list[str]]]:
    """Every round shuffled anew. Sensible from about six rounds on; mirrored is better below."""
    source = random.Random(seed)  # noqa: S311 (a reproducible order, not a secret)
    order = [_shuffled(arms, source) for _ in range(rounds)]
    return tuple(order[0] if order else arms), order


def order_runs_sequential(arms: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """All runs of one arm, then all of the next, as (round, arm). Gets ratios but never a verdict."""
    return [(r, arm) for arm in arms for r in range(1, rounds + 1)]


def order_screen(baseline: str, candidates: Sequence[str], seed: int) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    """One round for a ranking of many candidates: each once, the baseline at start, middle and end.

    Returns the order of the candidates, drawn from `seed`, and every run as (1, arm).
    """
    shuffled = _shuffled(candidates, random.Random(seed))  # noqa: S311 (a reproducible order, not a secret)
    half = (len(shuffled) + 1) // 2
    turn = [baseline, *shuffled[:half], baseline, *shuffled[half:], baseline]
    return tuple(shuffled), [(1, arm) for arm in turn]


def order_runs(
    order: Order, arms: Sequence[str], rounds: int, seed: int
) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    """Give the base order and every run in turn as (round from 1 on, arm), for any order that treats arms alike."""
    if order == "sequential":
        return tuple(arms), order_runs_sequential(arms, rounds)
    make = order_runs_mirrored if order == "mirrored" else order_runs_random
    base, listed = make(arms, rounds, seed)
    return base, [(number, arm) for number, row in enumerate(listed, start=1) for arm in row]


def _shuffled(arms: Sequence[str], source: random.Random) -> list[str]:
    shuffled = list(arms)
    source.shuffle(shuffled)
    return shuffled


def unknown_order() -> JudgedOrder:
    """Judge runs of which nobody knows the order."""
    return JudgedOrder("unknown", (), UNKNOWN)


def judge_order(runs: Sequence[str]) -> JudgedOrder:
    """Judge the arms of runs in the order of time, as in list("ABBABAAB").

    Runs are cut into rounds, each arm at most once in a round. Where that leaves fewer complete rounds than
    every arm has runs, the order is irregular: other cuts would give other pairs, so there is no verdict.
    """
    arms = sorted(set(runs))
    fewest = min(runs.count(arm) for arm in arms) if arms else 0
    rounds = _cut(runs)
    if len(arms) > 1 and len(runs) > len(arms) and _blocks(runs) == len(arms):
        return JudgedOrder("sequential", rounds, NOT_INTERLEAVED)
    complete = _complete(runs, rounds, len(arms))
    if len(complete) < fewest:
        reason = (
            f"the order {shown(runs)} does not fall into rounds of every arm once "
            f"({len(complete)} of {fewest} do); drift is not separated from the effect"
        )
        return JudgedOrder("irregular", rounds, reason)
    left_out = len(runs) - len(complete) * len(arms)
    notes = [f"{left_out} of {len(runs)} runs are in no round that has every arm once"] if left_out else []
    kind: Kind = "interleaved"
    if len(complete) > 1 and len(set(complete)) == 1:
        kind = "alternating"
        notes.append(f"every round ran in the same order ({shown(runs)}): a steady drift is not cancelled, ABBA would")
    elif not _balanced(complete):
        even = "" if len(complete) % 2 == 0 else "; an even number of rounds is better"
        notes.append(f"some arms ran earlier in their rounds than others: a part of a steady drift remains{even}")
    return JudgedOrder(kind, rounds, None, tuple(notes))


def shown(runs: Sequence[str]) -> str:
    """Write an order in one word where every arm is one letter, else with spaces; long ones are cut."""
    text = ("" if all(len(arm) == 1 for arm in runs) else " ").join(runs)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 (one line of a terminal)


def _cut(runs: Sequence[str]) -> tuple[int, ...]:
    """Round of each run: a new one begins where the arm has already run, or the round is full."""
    arms, current, number, rounds = len(set(runs)), set[str](), 1, []
    for arm in runs:
        if arm in current or len(current) == arms:
            current, number = set(), number + 1
        current.add(arm)
        rounds.append(number)
    return tuple(rounds)


def _complete(runs: Sequence[str], rounds: tuple[int, ...], arms: int) -> list[tuple[str, ...]]:
    by_round: dict[int, list[str]] = {}
    for arm, number in zip(runs, rounds, strict=True):
        by_round.setdefault(number, []).append(arm)
    return [tuple(row) for row in by_round.values() if len(row) == arms]


def _balanced(complete: list[tuple[str, ...]]) -> bool:
    """Tell whether every arm came equally late on average, so that a steady drift cancels."""
    places = {arm: sum(row.index(arm) for row in complete) for arm in complete[0]} if complete else {}
    return len(complete) < 2 or len(set(places.values())) == 1  # noqa: PLR2004 (one round cancels nothing)


def _blocks(runs: Sequence[str]) -> int:
    return sum(1 for i, arm in enumerate(runs) if i == 0 or arm != runs[i - 1])
