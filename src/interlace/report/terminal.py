"""What a person sees on a terminal: tables on stdout, progress on stderr."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from interlace import placements
from interlace.plan import estimate_left_s
from interlace.report.console import Quiet
from interlace.report.table import (
    Table,
    arms_table,
    count,
    further_lines,
    headline,
    judgement_lines,
    ladder_table,
    milliseconds,
    narrowed,
    same_troubles,
)
from interlace.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from interlace.analyse import Analysis
    from interlace.files import SweepDir
    from interlace.schema import Run, RunRecord

REPORT_DIR = "interlace report DIR"
"""What records and reports say of their own folder, wherever it lies; a terminal names it."""
SHOWN_RUNS = 3
COLOURS = {"faster": "green", "slower": "red", "within noise": "yellow", "not judged": "dim"}


def print_analysis(analysis: Analysis, console: Console, directory: Path) -> None:
    """Print the table, a sentence a candidate, the runs that failed, and what has to be noted of a sweep's folder."""
    here = f"interlace report {shlex.quote(_short(directory))}"
    troubles = [
        f"{same[0].status}: {first_of([one.run for one in same], SHOWN_RUNS)}: {same[0].message}; {same[0].log}"
        for same in same_troubles(analysis.troubles)
    ]
    console.print(headline(analysis), style="bold")
    console.print(rich_table(arms_table(analysis.arms), console.width))
    print_lines(console, judgement_lines(analysis.comparisons))
    if analysis.ladder is not None:
        console.print(rich_table(ladder_table(analysis.ladder, analysis.arms), console.width))
        print_lines(console, analysis.ladder.footer)
    print_lines(console, further_lines(analysis.comparisons, analysis.payback, ladder=analysis.ladder is not None))
    print_lines(console, [line.replace(REPORT_DIR, here) for line in troubles], "red")
    print_lines(console, [f"note: {note.replace(REPORT_DIR, here)}" for note in analysis.notes], "dim")
    print_lines(console, [f"ran on: {line}" for line in placements.lines(analysis.placements)], "dim")
    if analysis.left:
        print_lines(console, [f"{count(analysis.left, 'run')} of the plan still to do"], "yellow")


def print_lines(console: Console, lines: Sequence[str], style: str = "") -> None:
    """Print lines as they are: no markup in them is understood, and none is folded."""
    for line in lines:
        console.print(Text(line, style), soft_wrap=True)


def rich_table(table: Table, width: int) -> RichTable:
    """Lay a table out; where it is too wide, the columns that say least are left out (the files have them)."""
    fitting = narrowed(table, width)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(fitting.header):
        drawn.add_column(name, justify="right" if index in fitting.numeric else "left", overflow="fold")
    for row in fitting.rows:
        drawn.add_row(*(Text(cell) for cell in row[:-1]), Text(row[-1], COLOURS.get(row[-1], "")))
    return drawn


def next_steps(sweep_dir: SweepDir, *, left: int) -> list[str]:
    """Say where the files are and what to type next."""
    shown = shlex.quote(_short(sweep_dir.path))
    resume = [f"go on:       interlace resume {shown}"] if left else []
    found = any(True for where in ("runs", "lanes/*/runs") for _ in sweep_dir.path.glob(f"{where}/*/traces"))
    traces = [f"traces:      interlace trace {shown}"] if found else []
    return [f"files:       {shown}", *resume, f"report:      interlace report {shown}", *traces]


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def minutes(value_s: float) -> str:
    """Write 95 s as 1:35."""
    whole = max(0, round(value_s))
    hours, rest = divmod(whole, 3600)
    text = f"{rest // 60}:{rest % 60:02d}"
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else text


class TerminalObserver:
    """A progress line that is rewritten on a terminal, and a line per finished run everywhere."""

    def __init__(self, names: dict[str, str], total: int, rounds: int) -> None:
        self._console = Quiet(stderr=True, highlight=False, markup=False, emoji=False)
        self._names = names
        self._total = total
        self._rounds = rounds
        self._done: list[RunRecord] = []
        self._live: Live | None = None
        self._first: tuple[int, float] | None = None
        self._said_waiting = False

    def run_starts(self, run: Run, number: int, total: int, steps: int | None) -> None:
        """Begin a progress line."""
        self._run, self._number, self._steps, self._total = run, number, steps, total
        self._first, self._said_waiting = None, False
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self.progress(0, 0.0)

    def progress(self, steps_seen: int, elapsed_s: float) -> None:
        """Rewrite the progress line."""
        if steps_seen and self._first is None:
            self._first = (steps_seen, elapsed_s)
        self._rewrite(self._line(steps_seen, elapsed_s))

    def waiting(self, reasons: Sequence[str], waited_s: float) -> None:
        """Say why the run has not started yet; once where the line cannot be rewritten."""
        already = f" for {minutes(waited_s)}" if round(waited_s) else ""
        line = f"{self._where()}  waiting for an empty node{already}: {'; '.join(reasons)}"
        if self._live is None and not self._said_waiting:
            self.say(line)
        self._said_waiting = True
        self._rewrite(line)

    def _rewrite(self, line: str) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def _line(self, steps_seen: int, elapsed_s: float) -> str:
        left_s = max(0.0, self._estimate_s(steps_seen, elapsed_s) - elapsed_s)
        of = f" of {self._steps}" if self._steps else ""
        rate = self._rate(steps_seen, elapsed_s)
        return f"{self._where()}  step {steps_seen}{of}  {rate}  about {minutes(left_s)} left"

    def _estimate_s(self, steps_seen: int, elapsed_s: float) -> float:
        """Estimate the time of this run and those after it: from finished ones, else from this one's own pace."""
        runs = self._total - self._number + 1
        if not self._done and steps_seen and self._steps:
            return runs * elapsed_s * max(1.0, self._steps / steps_seen)
        return estimate_left_s(runs, self._done)

    def _rate(self, steps_seen: int, elapsed_s: float) -> str:
        """Return the steps per second since the first one was seen: start-up is no training."""
        if self._first is None or elapsed_s <= self._first[1]:
            return "starting"
        return f"{(steps_seen - self._first[0]) / (elapsed_s - self._first[1]):.1f} steps/s"

    def _where(self) -> str:
        turn = f"round {self._run.round} of {max(self._rounds, self._run.round)}" if self._run.round else "burn-in"
        return f"run {self._number} of {self._total}  {turn}  {self._names[self._run.arm]}"

    def run_ends(self, record: RunRecord) -> None:
        """Replace the progress line by the run's result."""
        self.close()
        self._done.append(record)
        left = estimate_left_s(self._total - self._number, self._done)
        self.say(f"{self._where()}  {self._result(record)}  about {minutes(left)} left")

    def _result(self, record: RunRecord) -> str:
        if record.status == "ok" and record.steps is not None:
            waited = f"  waited {record.gate_wait_s:.0f} s" if record.gate_wait_s >= 1 else ""
            return f"{milliseconds(record.steps.median_s)} a step  {record.wall_s:.1f} s{waited}"
        message = record.cause.message.splitlines()[0] if record.cause else ""
        return f"{record.status}: {message}"

    def say(self, text: str) -> None:
        """Print one line."""
        with contextlib.suppress(OSError):
            self._console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        """Take the progress line away."""
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()
            self._live = None
