"""What squeue and sacct print, as rows: job ids, state words, times. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from interlace.slurm.nodelist import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SQUEUE_FORMAT = "%i|%T|%N|%r|%M|%L|%V"
SQUEUE_COLUMNS = ("JOBID", "STATE", "NODELIST", "REASON", "TIME", "TIME_LEFT", "SUBMIT_TIME")
SACCT_FORMAT = "JobID,State,NodeList,Submit,ExitCode"
SACCT_COLUMNS = ("JobID", "State", "NodeList", "Submit", "ExitCode")

FINAL = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
    }
)  # fmt: skip
GOING_ON = frozenset(
    {
        "COMPLETING", "CONFIGURING", "EXPEDITING", "PENDING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_FED",
        "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED",
        "SUSPENDED", "UPDATE_DB",
    }
)  # fmt: skip
"""States of https://slurm.schedmd.com/job_state_codes.html; in the second set a job may run on, or run again."""

SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED",
    "RS": "RESIZING", "RV": "REVOKED", "SI": "SIGNALING", "SE": "SPECIAL_EXIT", "SO": "STAGE_OUT", "ST": "STOPPED",
    "S": "SUSPENDED", "TO": "TIMEOUT",
}  # fmt: skip

MOST_TASKS = 100_000
"""Above Slurm's largest MaxArraySize in use; a longer range is no array."""


@dataclass(frozen=True)
class Row:
    """One record of one job. Times are seconds since the epoch, or seconds; None where not said."""

    job_id: str
    state: str
    final: bool
    node: str | None = None
    reason: str | None = None
    elapsed_s: float | None = None
    left_s: float | None = None
    submitted_at: float | None = None
    exit_code: str | None = None


def parse_squeue(text: str) -> tuple[Row, ...]:
    """Read `squeue -o SQUEUE_FORMAT`, with or without its header; shorter formats of the same order too."""
    return _rows(text, SQUEUE_COLUMNS)


def parse_sacct(text: str) -> tuple[Row, ...]:
    """Read `sacct -P`: columns by its header, or those of SACCT_FORMAT. Steps (`7.batch`, `7.0`) are left out."""
    return _rows(text, SACCT_COLUMNS)


def state_of(text: str) -> tuple[str, bool]:
    """Return the plain state and whether it is final: `CANCELLED by 1000`, `OUT_OF_ME+`, `cg` and the like.

    A word that is no state, or that could be several, is returned as it stands, and is not final.
    """
    word = re.match(r"[A-Z_]*", text.strip().upper())
    stem = word[0] if word else ""
    stem = SHORT.get(stem, stem)
    if stem in FINAL | GOING_ON:
        return stem, stem in FINAL
    whole = {state for state in FINAL | GOING_ON if stem and state.startswith(stem)}
    if len(whole) == 1:
        (state,) = whole
        return state, state in FINAL
    return stem or "UNKNOWN", bool(whole) and whole <= FINAL


def job_ids(text: str) -> tuple[str, ...]:
    """Return the jobs that an id stands for: `103_[4-6%2]` is 103_4, 103_5 and 103_6, `109+0` is 109; a step is none.

    Later parts of a heterogeneous job keep their mark (`109+1`).
    """
    text = text.strip()
    if re.fullmatch(r"\d+(_\d+)?(\+0*)?", text):
        return (text.partition("+")[0],)
    if re.fullmatch(r"\d+\+\d+", text):
        return (text,)
    array = re.fullmatch(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]?", text)
    if array is None:
        return ()
    return tuple(f"{array[1]}_{task}" for part in array[2].split(",") for task in _tasks(part.strip()))


def _tasks(part: str) -> range | tuple[int, ...]:
    """Return the tasks of one range; squeue cuts long ones (`...`), and what is cut says nothing."""
    ends = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+))?", part)
    if ends is None:
        return ()
    first, last, step = int(ends[1]), int(ends[2] or ends[1]), int(ends[3] or 1)
    return range(first, last + 1, step) if 0 <= last - first < MOST_TASKS and step else ()


def duration_s(text: str) -> float | None:
    """Read Slurm's `days-hours:minutes:seconds`, or fewer parts; None for UNLIMITED, INVALID and NOT_SET."""
    parts = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", text.strip())
    if parts is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def moment(text: str) -> float | None:
    """Read `2026-02-02T10:00:00`, local time as Slurm's programs print it; None for `Unknown`, `N/A` or nothing."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _rows(text: str, columns: Sequence[str]) -> tuple[Row, ...]:
    names = [name.upper() for name in columns]
    found: list[Row] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 2:  # noqa: PLR2004 (no table: a greeting, `CLUSTER: name`)
            continue
        if "JOBID" in (upper := [cell.upper() for cell in cells]):
            names = upper
            continue
        found.extend(_read(dict(zip(names, cells, strict=False))))
    return tuple(found)


def _read(cells: Mapping[str, str]) -> Iterator[Row]:
    state, final = state_of(cells.get("STATE", ""))
    for job_id in job_ids(cells.get("JOBID", "")):
        yield Row(
            job_id=job_id,
            state=state,
            final=final,
            node=_said(cells.get("NODELIST")),
            reason=_said(cells.get("REASON")),
            elapsed_s=duration_s(cells.get("TIME", "")),
            left_s=duration_s(cells.get("TIME_LEFT", "")),
            submitted_at=moment(cells.get("SUBMIT_TIME") or cells.get("SUBMIT", "")),
            exit_code=_said(cells.get("EXITCODE")),
        )


def _said(cell: str | None) -> str | None:
    return None if cell is None or cell.lower() in NOBODY else cell
