"""Who else computed on the GPUs while a run was on: what was sighted, and one pure judgement of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interlace.monitor.occupancy import Owner  # noqa: TC001 (msgspec reads it at run time)
from interlace.schema import Foreigner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from interlace.monitor.readings import GpuProcess

LEAST_LOOKS = 2
"""A process of ours that is just ending is listed by the driver a moment longer than it can be told whose it is."""

FIRST_S = 1.0
"""No rank reaches a GPU so soon: the interpreter has not even imported torch."""


@dataclass(frozen=True)
class Sighting:
    """One process on one GPU over the looks in which it was listed; times in seconds of the run.

    `owner` is the best that any look found: a process once known as ours stays ours.
    """

    pid: int
    uuid: str
    name: str | None
    owner: Owner
    first_s: float
    last_s: float
    looks: int = 1
    used_mib: float | None = None


class Sightings:
    """Collects the looks of a run. `owner` tells whose a pid is; it is asked until it says `own`."""

    def __init__(self, owner: Callable[[int], Owner]) -> None:
        self._owner = owner
        self._seen: dict[tuple[int, str], Sighting] = {}

    def look(self, listed: Iterable[GpuProcess], t_s: float) -> None:
        """Take in one process list."""
        for process in listed:
            key = (process.pid, process.uuid or "unknown")
            before = self._seen.get(key)
            owner = "own" if before and before.owner == "own" else self._owner(process.pid)
            if before is None:
                self._seen[key] = Sighting(*key, process.name, owner, t_s, t_s, used_mib=process.used_mib)
            else:
                used_mib = max((one for one in (before.used_mib, process.used_mib) if one is not None), default=None)
                self._seen[key] = replace(
                    before, owner=owner, last_s=t_s, looks=before.looks + 1, used_mib=used_mib,
                    name=before.name or process.name,
                )  # fmt: skip

    def all(self) -> tuple[Sighting, ...]:
        """Return every process seen, in the order of their coming."""
        return tuple(self._seen.values())


def foreigners(
    sightings: Iterable[Sighting],
    index_of: Mapping[str, int | None],
    own_ranks: Mapping[str, int],
    *,
    host_pids: bool,
) -> tuple[Foreigner, ...]:
    """Return who was not ours, in two looks at least.

    `own_ranks` is the number of our ranks on each GPU (UUID). In a container whose pids are not the driver's
    (`host_pids` false, and none of ours was recognised) every pid looks foreign. Then those that are there from the
    first second, in which no rank reaches a GPU, are foreign, and of the later ones as many are ours as we have ranks
    on the GPU, the earliest first.
    """
    seen = tuple(sightings)
    strange = [one for one in seen if one.owner != "own" and one.looks >= LEAST_LOOKS]
    if not host_pids and not any(one.owner == "own" for one in seen):
        strange = _beyond_our_ranks(strange, own_ranks)
    return tuple(
        Foreigner(
            one.pid, one.name, one.uuid, index_of.get(one.uuid), round(one.first_s, 1), round(one.last_s, 1),
            one.used_mib,
        )
        for one in strange
    )  # fmt: skip


def _beyond_our_ranks(strange: list[Sighting], own_ranks: Mapping[str, int]) -> list[Sighting]:
    kept = []
    for uuid in dict.fromkeys(one.uuid for one in strange):
        here = sorted((one for one in strange if one.uuid == uuid), key=lambda one: one.first_s)
        early = [one for one in here if one.first_s < FIRST_S]
        kept += [*early, *here[len(early) + own_ranks.get(uuid, 0) :]]
    return kept
