"""Reader `opentau`: OpenTau's profile_step, its JSON or its console output.

Clock: perf_counter on each rank, with the device waited for at the end of every phase; these times are longer
than unsynchronised ones of other trainers and not to be compared with them.
Includes: waiting for data, forward, backward, clipping, optimizer, gathering: one step each.
Ranks: each rank's own mean (JSON and the console's list); the slowest one is OpenTau's global step time. Without
CUDA it keeps rank 0's mean alone. Phases are rank 0's.
Resolution: that of a float in the JSON; 10 us on the console, 0.1 ms for its single steps.
Lost: single steps: there is one mean a rank over all measured steps, which stand as one record. A console that
ends before its summary has single steps of rank 0, one in fifty.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from interlace.errors import ReadError
from interlace.steplog.dates import unix_s_in
from interlace.steplog.facts import facts_in
from interlace.steplog.model import FileReader, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import NUMBER, parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from interlace.steplog.model import Options
    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)

AGGREGATES = frozenset({"total", "backward_step"})
"""What stands beside the phases and is a sum of them: the whole step; backward, clipping, optimizer and scheduler."""

_PROGRESS = re.compile(rf"step (?P<step>\d+)/\d+ done \(last step total=(?P<ms>{NUMBER})ms\)", re.IGNORECASE)
_SETUP = re.compile(r"warmup=(\d+),? measured=(\d+),? (?:num_processes|ranks)=(\d+)")
_RANKS = re.compile(r"per-rank step time means \(ms\): \[([^\]]*)\]")
_GLOBAL = re.compile(rf"global step time: +({NUMBER}) ?ms")
_PHASE = re.compile(
    rf"(?<!\w)(?P<name>\w+) +mean= *(?P<mean>{NUMBER})ms +median= *(?P<median>{NUMBER})ms +p95= *(?P<p95>{NUMBER})ms"
)


class OpenTauReader(FileReader):
    """The reader; the JSON is seen as a whole, the console line by line."""

    name = "opentau"
    anywhere = True
    text = True
    facts = FACTS
    end_marker = '"per_rank_peak_reserved_gb"'
    """The last entry of the JSON, which rank 0 writes after its last step."""
    states_group = True
    """The world size that the log states is that of the process group, whatever was started."""

    def recognise_path(self, path: Path, head: bytes) -> str | None:
        """Recognise the keys of the JSON."""
        del path
        if head.lstrip()[:1] == b"{" and b'"phase_means_s"' in head and b'"per_rank_step_time_s"' in head:
            return "profile_step's JSON, with `per_rank_step_time_s`"
        return None

    def read_path(self, path: Path, options: Options) -> Parsed:
        """Read the JSON's means of all ranks. Raises ReadError for one that is cut."""
        del options
        return _from_json(path)

    def recognise(self, head: str) -> str | None:
        """Recognise the profiler's own lines."""
        for pattern in (_RANKS, _PROGRESS):
            if match := pattern.search(head):
                return f"profile_step's console, with `{shorten(match[0], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the console."""
        del options
        console = _Console()
        for record in records:
            console.take(record)
        return console.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the steps of progress lines."""
        del options
        return lambda text: [(0, int(match["step"])) for match in _PROGRESS.finditer(text)]


def _from_json(path: Path) -> Parsed:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        times = [float(time) for time in content["per_rank_step_time_s"]]
        last = int(content["warmup"]) + int(content["measured"])
    except (ValueError, KeyError, TypeError) as error:
        raise ReadError(f"{path}: the JSON is cut, or not profile_step's ({type(error).__name__}: {error})") from error
    remarks = Remarks()
    phases = _phases({name: float(time) for name, time in content["phase_means_s"].items()})
    columns = [phases if rank == 0 else {} for rank in range(len(times))]
    for rank, gb in enumerate((content.get("per_rank_peak_alloc_gb") or [])[: len(times)]):
        if gb > 0:  # 0 where there is no CUDA: nothing was measured
            columns[rank] = {**columns[rank], "peak_allocated_mib": float(gb) * 1e9 / 2**20}
    return _means(times, last, columns, content.get("num_processes"), remarks)


def _phases(means_s: dict[str, float]) -> dict[str, float]:
    return {f"phase.{name}": mean_s for name, mean_s in means_s.items() if name not in AGGREGATES}


def _means(
    times: list[float], last: int, columns: list[dict[str, float]], world: int | None, remarks: Remarks
) -> Parsed:
    text = f"one mean a rank over the measured steps, written as step {last}; the log has no single steps"
    remarks.note("one_value", text)
    if world and len(times) < world:
        text = f"profile_step kept the mean of {len(times)} of {world} ranks, as it does without CUDA"
        remarks.note("one_rank", f"{text}; a slower rank would not be seen")
    rows = [Row(last, time, rank, extra=columns[rank] or None, line=rank) for rank, time in enumerate(times)]
    return Parsed(rows, remarks, world, ended=True, kind="mean")


class _Console:
    """What the console says, as it goes by."""

    def __init__(self) -> None:
        self.single: list[Row] = []
        self.phases: dict[str, float] = {}
        self.ranks: list[float] = []
        self.slowest: float | None = None
        self.last = 0
        self.world: int | None = None
        self.dates: list[float] = []

    def take(self, record: Record) -> None:
        """Take one line in."""
        text = record.text
        if match := _SETUP.search(text):
            self.last, self.world = int(match[1]) + int(match[2]), int(match[3])
        for match in _PROGRESS.finditer(text):
            self.single.append(Row(int(match["step"]), _ms(match["ms"]), 0, line=record.line))
            self.dates += [at for at in (unix_s_in(text),) if at is not None]
        if match := _PHASE.search(text):
            self.phases[match["name"]] = _ms(match["mean"])
        if match := _RANKS.search(text):
            self.ranks = [_ms(time) for time in match[1].split(",")]
        if match := _GLOBAL.search(text):
            self.slowest = _ms(match[1])

    def parsed(self) -> Parsed:
        """Return the means of the summary, else the single steps; never both."""
        remarks = Remarks()
        columns = _phases(self.phases)
        if self.ranks:
            found = _means(self.ranks, self.last, [columns] + [{} for _ in self.ranks[1:]], self.world, remarks)
            self._check(remarks)
            return found
        if self.single:
            remarks.note("no_summary", "the profiler did not get to its summary: single steps of rank 0 are shown")
        first, last = (self.dates[0], self.dates[-1]) if self.dates else (None, None)
        return Parsed(self.single, remarks, self.world, started_at=first, finished_at=last, kind="single")

    def _check(self, remarks: Remarks) -> None:
        if self.single:
            text = f"{len(self.single)} single steps of rank 0 in the progress lines were left out, the means are used"
            remarks.note("single_steps", text)
        if self.slowest is not None and abs(self.slowest - max(self.ranks)) > 0.01 * self.slowest:
            text = f"the slowest rank's mean is {max(self.ranks):.6g} s, the global step time {self.slowest:.6g} s"
            remarks.note("disagrees", text)


def _ms(text: str) -> float:
    value = parse_number(text).value
    return float("nan") if value is None else float(f"{value / 1e3:.15g}")


READER = OpenTauReader()
