"""Why a job waits, in plain words, and whether waiting can ever help. Pure.

Many sites accept a job that can never start (`EnforcePartLimits=NO`, the default) and leave it pending for good.
"""

from __future__ import annotations

import re

_FOR_EVER = (
    (r"PartitionTimeLimit", "it asks for more time than its partition allows (launchers.timeout_min)"),
    (r"PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows"),
    (r"(Partition|Node)\w*(Config|Constraint)|BadConstraints", "no node has what it asks for"),
    (r"DependencyNeverSatisfied", "it waits for a job that did not end as wanted"),
    (
        r"(Assoc|QOS)(Max|Min)\w*(PerJob|PerNode)\w*|\w+MaxWallDurationPerJob\w*",
        "it asks for more than one job may have",
    ),
    (r"(Invalid|AccountNotAllowed|QOSNotAllowed)\w*", "its account or QOS may not run there"),
    (r"ReservationDeleted|Reservation.*deleted", "its reservation is gone"),
    (r"(Assoc|QOS)Min\w*", "it asks for less than a job has to"),
    (r"JobHeld\w+|.*requeued (in )?held.*|.*requested hold.*", "it is held; `scontrol release ID` lets it go on"),
)

_FOR_NOW = (
    (r"Resources", "it waits for nodes to become free"),
    (r"Priority", "jobs of higher priority come first"),
    (r"Partition(Down|Inactive)", "its partition takes no jobs now"),
    (r"ReqNodeNotAvail.*|Nodes required for job are .*", "nodes it needs are down, drained or reserved"),
    (r"Reservation", "its reservation has not begun"),
    (r"BeginTime", "its start time has not come (a requeued job waits two minutes)"),
    (r"Dependency", "it waits for another job"),
    (r"Licenses", "a licence is in use"),
    (
        r"(Assoc|QOS)(Grp|Max)\w*|(Association|QOS|Job)\w*Limit|MaxJobs\w*",
        "your account or QOS has as much in use as it may",
    ),
)


def never_starts(reason: str | None) -> str | None:
    """Say why a pending job with this reason of Slurm's does not start by itself; None when it may."""
    return _first(_FOR_EVER, reason)


def waits_for(reason: str | None) -> str | None:
    """Say what a pending job waits for: in our words where they are known, or in Slurm's."""
    if not reason:
        return None
    return never_starts(reason) or _first(_FOR_NOW, reason) or reason


def _first(known: tuple[tuple[str, str], ...], reason: str | None) -> str | None:
    said = (reason or "").strip()
    return next((f"{words} [{said}]" for pattern, words in known if re.fullmatch(pattern, said, re.IGNORECASE)), None)
