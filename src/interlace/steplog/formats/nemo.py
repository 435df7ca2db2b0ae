"""Readers `nemo` (printed lines) and `nemo_bar` (progress bar): `train_step_timing in s` of NVIDIA NeMo.

Clock: time.time() around one batch of Lightning, on the rank that prints; the device is waited for only where
sync_cuda is set, or where the step itself reads something back.
Includes: forward, backward, optimizer of all micro-batches, and the data where the step fetches it itself (Megatron
models); not the hooks between batches, validation or checkpoints.
Ranks: the printing rank alone.
Resolution: four digits (lines), 1 ms (bar). A line is a mean over log_interval steps.
Lost: what happens between batches. A bar's steps are its own count; its global_step is abbreviated from 1000 on. With
log_interval above 1 NeMo divides the first record of the lines, of one step, by log_interval, too: it is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.steplog.formats.line_end import LineEndReader
from interlace.steplog.formats.per_epoch import PerEpochReader
from interlace.steplog.gaps import usual_gap
from interlace.steplog.lines import NUM, LineFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from interlace.steplog.model import Options, Parsed, Remarks, Row
    from interlace.steplog.text import Record

HINT = "train_step_timing in s"


class NemoReader(LineEndReader):
    """Reads the lines, and leaves out a first record that NeMo divides by too much."""

    def seconds_of(self, fields: Mapping[str, str], header: Mapping[str, float]) -> tuple[float, float] | str:
        """Return the time; a line that ends with it is whole in the first record, and where older versions print it."""
        if fields["behind"] != "|" and fields["iteration"] != "0" and "consumed_samples" not in fields:
            return "torn_record: the line ends with the time, which other records of NeMo do not"
        return super().seconds_of(fields, header)

    def said(self, rows: list[Row], header: Mapping[str, float], remarks: Remarks) -> None:
        """Leave out records of the first step of an attempt, where a record is a mean over several."""
        del header
        if usual_gap(rows, 1) == 1:
            return
        odd = [row for row in rows if row.extra and row.extra.get("iteration") == 0]
        if odd:
            text = "NeMo divides the record of iteration 0, which is of one step, by log_interval: it was left out"
            remarks.note("first_record", text)
            rows[:] = [row for row in rows if row not in odd]


class NemoBarReader(PerEpochReader):
    """Reads the bar, which Lightning draws twice a step: first with the new count and the old values."""

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the last drawing of each count."""
        parsed = super().parse(records, options)
        place: dict[int, int] = {}
        kept: list[Row] = []
        for row in parsed.rows:
            at = place.get(row.rank)
            if at is not None and kept[at].step == row.step:
                kept[at] = row
            else:
                place[row.rank] = len(kept)
                kept.append(row)
        return replace(parsed, rows=kept)


LINES = NemoReader(
    LineFormat(
        name="nemo",
        doc=__doc__,
        hint=HINT,
        begins=re.compile(r"Training epoch \d+, iteration \d+/"),
        record=re.compile(
            r"Training epoch (?P<epoch>\d+), iteration (?P<iteration>\d+)/\d+ \| (?:lr: \S+ \| )?"
            rf"(?:consumed_samples: (?P<consumed_samples>{NUM}) \| )?(?:[^|]+ \| )*?"
            rf"global_step: (?P<step>\d+) \| (?:[^|]+ \| )*?{HINT}: (?P<step_s>{NUM})\s*(?P<behind>\||\Z)",
            re.IGNORECASE,
        ),
        pairs=re.compile(
            rf"\| (?P<key>lr|reduced_train_loss|consumed_samples|global_batch_size): (?P<number>{NUM})(?=\s*(?:\||\Z))",
            re.IGNORECASE,
        ),
        kind="mean",
    )
)

BAR = NemoBarReader(
    LineFormat(
        name="nemo_bar",
        doc=__doc__,
        hint=HINT,
        begins=re.compile(r"Epoch \d+: (?=.*\[)"),
        record=re.compile(
            r"Epoch (?P<epoch>\d+): [^\[\]]*\| *(?P<n>\d+)/(?P<of>\d+) \[[^\[\]]*?[ ,]"
            rf"{HINT}=(?P<step_s>{NUM})[,\]]",
            re.IGNORECASE,
        ),
        pairs=re.compile(
            rf"[ ,](?P<key>reduced_train_loss|consumed_samples)=(?P<number>{NUM})(?=[,\]])", re.IGNORECASE
        ),
        kind="single",
    ),
    first_epoch=0,
)
