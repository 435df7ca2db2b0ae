"""Reader `hf_trainer`: what a Hugging Face Trainer (also TRL's, and others built on it) prints.

Clock: time.time() of rank 0. The Trainer prints no step times. Its bar has a running average, marked as smoothed;
its summary at the end has the time of the whole training, which gives one mean over all steps.
Includes: everything: data loading, evaluation, checkpoints, and the first step. With gradient accumulation a step
is one optimizer step.
Ranks: rank 0 alone.
Resolution: of the bar 10 ms for s/it and two decimals for it/s; of the summary 0.1 ms, divided by the steps.
Lost: single steps. Without the bar only one number is left, first step and all.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from interlace.steplog.bars import Bar, LiveCount, bars_in, is_training, main_loop, rows_of
from interlace.steplog.facts import facts_in
from interlace.steplog.model import Options, Parsed, Remarks, Row, shorten
from interlace.steplog.numbers import NUMBER, parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlace.steplog.text import Record

FACTS = facts_in(__doc__)

_SUMMARY = re.compile(r"\{[^{}]*'train_runtime': [^{}]*\}")
_LOSSES = re.compile(r"\{[^{}]*'loss': [^{}]*'(?:learning_rate|epoch)': [^{}]*\}")
_PAIR = re.compile(rf"'(?P<key>\w+)': ['\"]?(?P<number>{NUMBER})['\"]?(?=[,}}])", re.IGNORECASE)
_STEPS = re.compile(r"Total optimization steps = ([\d,]+)")
_RESUMED = re.compile(r"Continuing training from global step ([\d,]+)")
_SMOOTHING = 0.3
"""tqdm's own: the share of the newest rate in its running average."""
_FADED = 0.01
_EXACT_UP_TO_S = 500.0
"""Up to here train_runtime x train_steps_per_second, which has three decimals, gives the number of steps."""


class HfTrainerReader:
    """The reader of bar and summary."""

    name = "hf_trainer"
    anywhere = True
    facts = FACTS

    def recognise(self, head: str) -> str | None:
        """Recognise the summary, or lines of losses beside a bar."""
        if match := _SUMMARY.search(head):
            return f"the Trainer's summary, `{shorten(match[0], 60)}`"
        match = _LOSSES.search(head)
        if match and any(bar.s_per_it for line in head.split("\n") for bar in bars_in(line) if is_training(bar)):
            return f"the Trainer's bar, with losses like `{shorten(match[0], 60)}`"
        return None

    def parse(self, records: Iterable[Record], options: Options) -> Parsed:
        """Read the bar; the one mean of the summary only where there is no bar."""
        del options
        remarks = Remarks()
        bars: list[Bar] = []
        summary: tuple[dict[str, float], Record] | None = None
        steps: int | None = None
        skipped = resumed_at = 0
        for record in records:
            bars += bars_in(record.text, record.line)
            if match := _STEPS.search(record.text):
                steps = int(match[1].replace(",", ""))
            if match := _RESUMED.search(record.text):
                skipped, resumed_at = int(match[1].replace(",", "")), record.line
            for match in _SUMMARY.finditer(record.text):
                if summary:
                    remarks.note("two_summaries", "the log holds several trainings: the last summary counts")
                summary = _numbers(match[0]), record
        length = steps or (_stated(summary[0]) if summary else None) or _first_length(bars)
        drawn = _without_skipped(main_loop(bars, remarks, length), skipped, resumed_at, remarks)
        rows = rows_of(drawn, remarks)
        mean = _mean(summary[0], steps or _length(drawn), skipped, remarks) if summary else None
        if mean and rows:
            text = f"{mean[1]:.6g} s a step over all {mean[0]} steps, the first and all else between included"
            remarks.note("run_mean", f"the summary gives {text}")
        if mean and not rows and summary:
            text = f"the log has one mean over {mean[0]} steps, the first one included; too small if it stopped early"
            remarks.note("one_value", text)
            row = Row(mean[0], mean[1], extra=summary[0], line=summary[1].line)
            return Parsed([row], remarks, ended=True, kind="mean")
        return Parsed(rows, remarks, ended=summary is not None, kind="smoothed")

    def counter(self, options: Options) -> Callable[[str], Iterable[tuple[int, int | None]]]:
        """Return a function that lists the counts of the first bar, which is the training's."""
        del options
        return LiveCount(unnamed=True)


def _without_skipped(drawn: list[Bar], skipped: int, resumed_at: int, remarks: Remarks) -> list[Bar]:
    """Leave out what a resumed run draws first: the bar counts the skipped steps as done in its first one."""
    if not skipped:
        return drawn
    fading = math.ceil(math.log(skipped / _FADED) / -math.log(1 - _SMOOTHING))
    kept = [bar for bar in drawn if bar.line < resumed_at or bar.n > skipped + fading]
    text = (
        f"the bar counts {skipped} skipped steps as done at once: its rates up to step {skipped + fading} were left out"
    )
    remarks.note("resumed_bar", text)
    return kept


def _numbers(text: str) -> dict[str, float]:
    found = {match["key"]: parse_number(match["number"]).value for match in _PAIR.finditer(text)}
    return {key: value for key, value in found.items() if value is not None}


def _stated(summary: dict[str, float]) -> int | None:
    """Return the number of steps that a summary's two rates give, where they give it exactly."""
    runtime, rate = summary.get("train_runtime"), summary.get("train_steps_per_second")
    return round(runtime * rate) if runtime and rate and runtime <= _EXACT_UP_TO_S else None


def _first_length(bars: list[Bar]) -> int | None:
    """Return the length of the first bar that may be the training's: it is drawn before any evaluation."""
    return next((bar.total for bar in bars if is_training(bar)), None)


def _length(drawn: list[Bar]) -> int | None:
    """Return the length of the training bar where it ran to its end."""
    last = drawn[-1] if drawn else None
    return last.total if last and last.n == last.total else None


def _mean(summary: dict[str, float], steps: int | None, skipped: int, remarks: Remarks) -> tuple[int, float] | None:
    """Return the number of steps and their mean time; the summary counts steps before a resumption too."""
    runtime, rate = summary.get("train_runtime"), summary.get("train_steps_per_second")
    if not runtime:
        return None
    if steps is None and rate and (runtime <= _EXACT_UP_TO_S or skipped):
        steps = round(runtime * rate)
    if steps and steps > skipped:
        return steps - skipped, runtime / (steps - skipped)
    if not rate or steps:
        return None
    remarks.note(
        "coarse_mean", f"the number of steps is not said: 1 / train_steps_per_second, {0.0005 / rate:.1%} fine"
    )
    return round(runtime * rate), 1 / rate


READER = HfTrainerReader()
