"""Reader `lerobot`: the training log of lerobot-train, 0.6.1 and the later one with `step_s`.

Clock: perf_counter on each rank, without synchronising the device (`loss.item()` does it).
Includes: `step_s` has data loading and preprocessing, not logging, EMA or checkpoints; 0.6.1 has no `step_s`, so
it is `updt_s + data_s`.
Ranks: maxima over all ranks, each meter by itself, printed by rank 0.
Resolution: 1 ms as printed; `smp/s` comes from the unrounded time, so effective batch / smp/s is finer when smp/s
is in the thousands. With log_freq > 1 times are means over that many steps.
Lost: single ranks, the time of a record that was cut.

Step numbers above 999 are abbreviated (`1K`): the progress bar in front of the record, or the count of records,
gives them back.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.dates import unix_s_in
from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import parse_count, parse_number
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
_RECORD = re.compile(r"(?<![\w:/])step:(?P<step>\d[\d.]*[KMBTQ]?)\s+smpl:(?P<smpl>\S+)\s+(?P<rest>.*)")
_BEGINS = re.compile(r"(?<![\w:/])step:\d[\d.]*[KMBTQ]?\s+smpl:")
_TIMES = frozenset({"updt_s", "data_s", "step_s"})
_WHOLE_TIME = re.compile(r"\d+\.\d{3,}")
"""How lerobot prints a time; at the end of a line anything shorter is a cut one."""
_METER = re.compile(r"(?<!\S)(?P<name>[A-Za-z]\w*(?:/s)?):(?P<text>\S+)(?P<after>\s|$)")
_BAR = re.compile(r"\|\s*(\d+)/(\d+)\s*\[[^\[\]]*\]\s*(?=[A-Z]+ \d{4}-)")
_WORLD = re.compile(r"Effective batch size:.*?\bx (?P<world>\d+)(?: dp workers\b.*?)? = (?P<batch>\d+)")
_END = "End of training"
_HALF_PRINTED_S = 0.0005
_AGREE = 0.95
_ONE_RECORD = 3
_USUAL = 3


class _Meters(NamedTuple):
    """One record as printed: its step text, the bar's count in front of it, and its numbers by name."""

    step: str
    bar: int | None
    meters: dict[str, float]
    line: int
    samples: str


class LerobotReader:
    """The reader; records come below the configuration and any warnings."""

    name = "lerobot"
    anywhere = True
    facts = FACTS
    end_marker = _END
    """Text after which no step comes, and nothing that is measured is lost."""

    def recognise(self, head: str) -> str | None:
        """Recognise `step:1 smpl:2 ... step_s:` or, of 0.6.1, `... updt_s: data_s:`."""
        for line in head.split("\n") if "smpl:" in head else ():
            match = _RECORD.search(line)
            if match and (key := next((k for k in ("step_s:", "updt_s:") if k in match["rest"]), None)):
                return f"'{key}' records like `{shorten(match[0], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read all records, number them, and take the finer of the two times that each record states."""
        del options
        remarks = Remarks()
        found: list[_Meters] = []
        world_size = batch = None
        ended = False
        dates: list[float] = []
        for record in records:
            if match := _WORLD.search(record.text):
                world_size, batch = int(match["world"]), int(match["batch"])
            ended = ended or _END in record.text
            for piece in _pieces(record):
                match = _RECORD.search(piece.text)
                if match and (meters := _meters(match, piece, remarks)):
                    found.append(meters)
                    dates += [t for t in (unix_s_in(piece.text[: match.start()]),) if t is not None]
        found = _of_one_version(found, remarks)
        rows = _rows(found, batch or _batch_of(found), remarks)
        if rows and world_size and world_size > 1:
            remarks.note("reduced", f"times are maxima over {world_size} ranks, as lerobot reduces them")
        return Parsed(
            rows,
            remarks,
            world_size,
            ended,
            started_at=dates[0] if dates else None,
            finished_at=dates[-1] if dates else None,
            reduced="max over ranks",
            kind="mean",
        )

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the step of a record, where it is printed in full."""
        del options

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            match = _RECORD.search(text)
            if not match or "updt_s:" not in match["rest"]:
                return []
            step = int(match["step"]) if match["step"].isdigit() else None
            return [(-1, step or _bar(text[: match.start()]))]

        return steps_in


def _pieces(record: Record) -> list[Record]:
    """Cut a line before each record that begins in it: a killed run's last line goes on with the next run's."""
    cuts = [0, *(match.start() for match in _BEGINS.finditer(record.text)), len(record.text)]
    if len(cuts) <= _ONE_RECORD:
        return [record]
    # What stands before the first record (its bar, its date) belongs to it.
    pieces = [record._replace(text=record.text[a:b], ended=True) for a, b in pairwise([0, *cuts[2:]])]
    return [*pieces[:-1], pieces[-1]._replace(ended=record.ended)]


def _of_one_version(found: list[_Meters], remarks: Remarks) -> list[_Meters]:
    """Refuse records without step_s where others have it: they are cut, and not of 0.6.1.

    Where records were torn, those whose meters no other record has are refused too.
    """
    if remarks.torn:
        found = _alike(found, remarks)
    if not any("step_s" in record.meters for record in found):
        return found
    for record in found:
        if "step_s" not in record.meters:
            remarks.error("torn_record", record.line, f"step:{record.step} smpl:{record.samples}", "no step_s")
    return [record for record in found if "step_s" in record.meters]


def _alike(found: list[_Meters], remarks: Remarks) -> list[_Meters]:
    times = Counter(tuple(record.meters) for record in found)
    if max(times.values(), default=0) < _USUAL:
        return found
    for record in found:
        if times[tuple(record.meters)] == 1:
            why = "it has other meters than all others, another writer's may be in it"
            remarks.error("torn_record", record.line, f"step:{record.step} smpl:{record.samples}", why)
    return [record for record in found if times[tuple(record.meters)] > 1]


def _meters(match: re.Match[str], record: Record, remarks: Remarks) -> _Meters | None:
    values: dict[str, float] = {}
    if LOST in match[0]:
        remarks.error("torn_record", record.line, match[0], "bytes of it are lost")
        return None
    for meter in _METER.finditer(match["rest"]):
        if meter["name"] in values or meter["name"] == "smpl":
            remarks.error("torn_record", record.line, match[0], f"{meter['name']} stands in it twice, it is two in one")
            return None
        whole = meter["after"] or record.ended
        if not meter["after"] and meter["name"] in _TIMES and not _WHOLE_TIME.fullmatch(meter["text"]):
            whole = False
        value = parse_number(meter["text"]).value if whole else None
        if value is not None:
            values[meter["name"]] = value
    # A cut record of the later format must not pass for a whole one of 0.6.1, which has no prep_s.
    old = {"updt_s", "data_s"} <= values.keys() and "prep_s" not in values
    if "step_s" not in values and not old:
        if record.ended:
            remarks.error("torn_record", record.line, match[0], "no step_s, and not both of updt_s and data_s")
        else:
            remarks.note("truncated_tail", f"the last record is cut and was dropped: `{shorten(match[0], 60)}`")
        return None
    bar = _bar(record.text[: match.start()])
    return _Meters(match["step"], bar, values, record.line, match["smpl"])


def _bar(text: str) -> int | None:
    bars = _BAR.findall(text)
    return int(bars[-1][0]) if bars else None


def _batch_of(found: list[_Meters]) -> int | None:
    """Return the samples a step, from a first record that prints both counts in full."""
    for record in found:
        if record.step.isdigit() and record.samples.isdigit() and int(record.step):
            samples, rest = divmod(int(record.samples), int(record.step))
            return samples if not rest else None
    return None


def _rows(found: list[_Meters], batch: int | None, remarks: Remarks) -> list[Row]:
    steps = _steps(found, remarks)
    printed = [_printed_s(record.meters) for record in found]
    finer = _finer(found, printed, batch, remarks)
    if found and any("step_s" not in record.meters for record in found):
        remarks.note("derived", "the log has no step_s (lerobot 0.6.1 or older): it is updt_s + data_s")
    return [
        Row(step, finer.get(n, printed[n]), extra=_columns(record.meters), line=record.line)
        for n, (step, record) in enumerate(zip(steps, found, strict=True))
    ]


def _columns(meters: dict[str, float]) -> dict[str, float]:
    return {("printed_step_s" if name == "step_s" else name): value for name, value in meters.items()}


def _printed_s(meters: dict[str, float]) -> float:
    # Rounded: 0.203 + 0.012 must not become 0.21500000000000002.
    return meters["step_s"] if "step_s" in meters else round(meters["updt_s"] + meters["data_s"], 6)


def _finer(found: list[_Meters], printed: list[float], batch: int | None, remarks: Remarks) -> dict[int, float]:
    """Return, by record, batch / (smp/s) where it is finer than the printed time and agrees with it."""
    if not batch:
        return {}
    finer: dict[int, float] = {}
    agree = asked = fine = 0
    for n, record in enumerate(found):
        rate = record.meters.get("smp/s", 0.0)
        if rate < 1:
            continue
        half_printed = _HALF_PRINTED_S * (1 if "step_s" in record.meters else 2)
        half = batch / (rate - 0.5) - batch / rate
        asked += 1
        agrees = abs(batch / rate - printed[n]) <= half + half_printed * 1.01
        agree += agrees
        fine += half < half_printed
        # A rate that was cut (`smp/s:1234` of 12345) is no finer time.
        if agrees and half < half_printed:
            finer[n] = batch / rate
    if not fine:
        return {}
    if agree < _AGREE * asked:
        remarks.note("smps_disagrees", f"{batch} samples / smp/s does not give the printed times; those were used")
        return {}
    remarks.note(
        "finer_from_smps",
        f"{len(finer)} of {len(found)} times are {batch} samples / smp/s, finer than the printed times",
    )
    return finer


def _steps(found: list[_Meters], remarks: Remarks) -> list[int | None]:
    """Return each record's step: as printed below 1000, else from the bar before it, else counted on."""
    shift = _bar_shift(found)
    gap = _usual_gap(found)
    steps: list[int | None] = []
    counted = 0
    for record in found:
        previous = steps[-1] if steps else None
        if record.step.isdigit():
            step = int(record.step)
        elif shift is not None and record.bar is not None and _agrees(record.bar + shift, record.step):
            step = record.bar + shift
        elif previous is not None:
            step = previous + gap
            counted += 1
        else:
            step = int(parse_count(record.step).value or 0)
            remarks.note("rounded_steps", f"the log begins at step {record.step}: steps are counted from {step}")
        steps.append(step)
    if counted:
        remarks.note("counted_steps", f"{counted} abbreviated step numbers (as in 1K) were counted on, not read")
    return steps


def _bar_shift(found: list[_Meters]) -> int | None:
    """Return step minus bar (a resumed run's bar starts at 0 again); None where it is not steady."""
    shifts = {int(r.step) - r.bar for r in found if r.bar is not None and r.step.isdigit()}
    if not shifts:
        return 0
    return shifts.pop() if len(shifts) == 1 else None


def _usual_gap(found: list[_Meters]) -> int:
    exact = [int(r.step) for r in found if r.step.isdigit()]
    gaps = [b - a for a, b in pairwise(exact) if b > a]
    return max(set(gaps), key=gaps.count) if gaps else 1


def _agrees(step: int, printed: str) -> bool:
    """Whether lerobot prints `step` like this, give or take its rounding."""
    number = parse_count(printed)
    scale = {"K": 1e3, "M": 1e6}.get(printed[-1], 1e9)
    return number.value is not None and abs(step - number.value) <= scale / 2


READER = LerobotReader()
