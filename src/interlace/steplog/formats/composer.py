r"""Reader `composer`: the console log of MosaicML's Composer and LLM Foundry, a block of lines a record.

    [batch=120/4800]:
         Train time/batch: 119
         Train throughput/batches_per_sec: 0.5123

Clock: Composer's wall clock of training, which stands still during evaluation; a time is 1 / batches_per_sec, a rolling
average over the last batches (SpeedMonitor's window_size), marked as smoothed.
Includes: data loading, forward, backward, optimizer of all micro-batches; not evaluation.
Ranks: the rank that prints, mostly rank 0.
Resolution: four decimals of batches a second; finer, by samples_per_sec and the samples of a batch, where all batches
have the same size.
Lost: single batches, and the first window_size of them, which have no rate yet.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import NUMBER, parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)
RATE, SAMPLES_RATE = "throughput/batches_per_sec", "throughput/samples_per_sec"
BATCH, SAMPLES = "time/batch", "time/sample"
HALF_DIGIT = 0.5e-4
_HEAD = re.compile(r"\[(?:Eval )?(?:epoch|(?P<unit>batch)|sample|token|iteration|second)=(?P<count>\d+)")
_FIELD = re.compile(rf"(?:\A|[\s\]:])Train (?P<key>[\w/.-]+): (?P<number>{NUMBER})\s*\Z", re.IGNORECASE)
_RANK = re.compile(r"\[(?:default|rank)\s?(\d+)\]", re.IGNORECASE)
_KEPT = ("loss/train/total", SAMPLES_RATE, "throughput/tokens_per_sec", "time/train", "time/val")


class Block:
    """The fields of one record while its lines go by."""

    def __init__(self, line: int, rank: int, head: re.Match[str] | None = None) -> None:
        self.line, self.rank = line, rank
        self.fields: dict[str, float] = {}
        self.twice: str | None = None
        self._batch = int(head["count"]) if head and head["unit"] and "Eval" not in head[0] else None

    def take(self, key: str, text: str) -> None:
        """Take a field in; the same one again in a block means that two blocks ran into each other."""
        value = parse_number(text, count=True).value
        if key in self.fields:
            self.twice = key
        if value is not None:
            self.fields[key] = value

    def trouble(self) -> str | None:
        """Return why this is not one record: parts of two that ran into each other."""
        if self.twice:
            return f"{self.twice} stands twice in a record: two ran into each other"
        if self._batch is not None and self._batch != self.fields[BATCH] + 1:
            return f"the record of batch {self._batch} says {BATCH} {self.fields[BATCH]:g}: two ran into each other"
        return None


class ComposerReader:
    """The reader; may begin anywhere in a log."""

    name = "composer"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise a batch counter and a rate of batches, as Composer names them."""
        rate = re.search(rf"^.*Train {RATE}: .*$", head, re.MULTILINE) if f"Train {BATCH}: " in head else None
        return f"Composer's console, with `{shorten(rate[0], 60)}`" if rate else None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read every block."""
        del options
        blocks = _Blocks()
        for record in records:
            blocks.take(record)
        return blocks.parsed()

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the batches of a line."""
        del options

        def steps_in(text: str) -> Iterable[tuple[int, int | None]]:
            match = _FIELD.search(text)
            value = parse_number(match["number"], count=True).value if match and match["key"] == BATCH else None
            return [] if value is None else [(_rank_in(text), int(value) + 1)]

        return steps_in


class _Blocks:
    """What is gathered while the lines go by; each rank has its own unfinished block."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.remarks = Remarks()
        self.without_rate = 0
        self._finer: list[float | None] = []
        self._open: dict[int, Block] = {}

    def take(self, record: Record) -> None:
        """Take one line in; a last line without an end is cut."""
        rank = _rank_in(record.text)
        if head := _HEAD.search(record.text):
            self._close(rank)
            self._open[rank] = Block(record.line, rank, head)
        elif (match := _FIELD.search(record.text)) and record.ended:
            self._open.setdefault(rank, Block(record.line, rank)).take(match["key"], match["number"])

    def parsed(self) -> Parsed:
        """Close what is open, and say how times were worked out."""
        for rank in list(self._open):
            self._close(rank)
        if self.without_rate:
            text = f"{self.without_rate} records have no rate yet: it begins when SpeedMonitor's window is full"
            self.remarks.note("rows_without_time", text)
        finer = [step_s for step_s in self._finer if step_s is not None]
        if self.rows and len(finer) == len(self.rows):
            self.rows = [row._replace(step_s=step_s) for row, step_s in zip(self.rows, finer, strict=True)]
            self.remarks.note(
                "derived", "times are samples of a batch / samples_per_sec, finer than 1 / batches_per_sec"
            )
        elif self.rows:
            self.remarks.note("derived", "times are 1 / batches_per_sec")
        return Parsed(self.rows, self.remarks, kind="smoothed")

    def _close(self, rank: int) -> None:
        block = self._open.pop(rank, None)
        if block is None or BATCH not in block.fields:
            return
        if why := block.trouble():
            self.remarks.error("torn_record", block.line, f"Train {BATCH}: {block.fields[BATCH]:g}", why)
        elif not block.fields.get(RATE):
            self.without_rate += 1
        else:
            step_s = float(f"{1 / block.fields[RATE]:.12g}")
            self._finer.append(_by_samples(block.fields))
            extra = {key: block.fields[key] for key in _KEPT if key in block.fields}
            self.rows.append(
                Row(int(block.fields[BATCH]) + 1, step_s, block.rank, extra=extra or None, line=block.line)
            )


def _by_samples(fields: dict[str, float]) -> float | None:
    """Return a batch's time by its samples, where both rates say the same; all batches must have one size."""
    rate, samples_rate = fields[RATE], fields.get(SAMPLES_RATE)
    # Both counters are those of the batch's start, so their ratio is the size of the batches before it.
    size = fields.get(SAMPLES, 0.0) / fields[BATCH] if fields[BATCH] else 0.0
    if not samples_rate or not size or abs(samples_rate / size - rate) > HALF_DIGIT + 1e-9:
        return None
    return float(f"{size / samples_rate:.12g}")


def _rank_in(text: str) -> int:
    found = _RANK.findall(text)
    return int(found[-1]) if found else -1


READER = ComposerReader()
