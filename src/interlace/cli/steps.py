"""`interlace steps FILE`: the only command that explains what was read out of one log."""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from interlace import steplog
from interlace.cli import checksums
from interlace.errors import UsageError
from interlace.steplog.dates import iso
from interlace.steplog.events import event_notes
from interlace.steplog.summary import Summary, shown_time, summarise

if TYPE_CHECKING:
    import pandas as pd

    from interlace.steplog import StepLog, Unit

HELP = """\
usage: interlace steps FILE [reader=NAME] [pattern=REGEX] [unit=s|ms|us|ns] [window=FIRST:LAST] [--json]

Show which step times stand in a training log, how they were recognised, and what had to be left out.
FILE is a log, an event file of TensorBoard, a W&B run, fairchem's benchmark_results.pkl; or a folder: the recorder's
per-rank logs (rank-*.jsonl), event files, an offline W&B run, or fairchem's checksums (values of each rank, no times).

  reader=NAME        auto (default), or one of:
{readers}
  pattern=REGEX      your own regular expression, with a named group for the time: step_s, step_ms or step_us
                     (or end_s for a cumulative clock); step, rank and any other number are optional groups
  unit=ms            what times are in when nothing in the log says so (default: s)
  window=51:300      the steps that are summed up (default: these if the log has them, else all but the first)
  --json             the same as one JSON object: reader, steps, notes, errors, ...

examples:
  interlace steps train.log
  interlace steps outputs/quickstart/2026-01-02_03-04-05/runs/003-r1-baseline/steps
  interlace steps train.log pattern='iter (?P<step>\\d+).*?(?P<step_ms>[\\d.]+) ms'
  interlace steps metrics.csv unit=ms window=101:500 --json
"""

KEYS = ("reader", "pattern", "unit", "window")
SHOWN_FIRST, SHOWN_LAST, SHOWN_RANKS = 3, 2, 8
WIDTH = 116
KINDS = {
    "single": "single step times",
    "mean": "means over the steps between two records",
    "smoothed": "running averages, no single step times",
    "not said": "step times as logged",
}
"""What one value is, in words."""


@dataclass(frozen=True)
class Arguments:
    """What was asked on the command line."""

    path: str
    reader: str = "auto"
    pattern: str | None = None
    unit: str = "s"
    window: tuple[int, int] | None = None
    as_json: bool = False


def run(argv: list[str]) -> int:
    """Run the command. Raises UsageError for wrong arguments, ReadError for a log without step times."""
    if not argv or {"-h", "--help"} & set(argv):
        names = textwrap.fill(
            ", ".join(steplog.names()[1:]), WIDTH, initial_indent=" " * 21, subsequent_indent=" " * 21
        )
        sys.stdout.write(HELP.replace("{readers}", names))
        return 0 if argv else UsageError.exit_code
    asked = parse(argv)
    if asked.pattern is None and (text := checksums.shown(asked.path, asked.reader, json_asked=asked.as_json)):
        sys.stdout.write(text + "\n")
        return 0
    log = steplog.read(asked.path, reader=asked.reader, pattern=asked.pattern, unit=cast("Unit", asked.unit))
    series = steplog.slowest_rank(log.frame)
    summary = summarise(series["step"].tolist(), series["step_s"].tolist(), asked.window)
    if asked.as_json:
        text = json.dumps(as_json(log, series, summary), allow_nan=False)
    else:
        text = as_text(asked.path, log, series, summary)
    sys.stdout.write(text + "\n")
    return 0


def parse(argv: list[str]) -> Arguments:
    """Turn arguments into `Arguments`. Raises UsageError naming the valid keys."""
    values: dict[str, str] = {}
    paths: list[str] = []
    as_json = False
    for argument in argv:
        key, equals, value = argument.removeprefix("--").partition("=")
        if argument == "--json":
            as_json = True
        elif equals and (key in KEYS or key.isidentifier()):
            values[_known(key, argument)] = value
        elif argument.startswith("-"):
            meant = _meant(argument, ("--json", "--help"))
            raise UsageError(f"interlace steps has no option {argument}{meant}; it takes --json and --help")
        else:
            paths.append(argument)
    if len(paths) != 1:
        what = f"{len(paths)} are named: {', '.join(paths)}" if paths else "none is named"
        raise UsageError(f"interlace steps reads one log, {what}; try `interlace steps FILE`")
    window = _window(values.pop("window")) if "window" in values else None
    return Arguments(path=paths[0], window=window, as_json=as_json, **values)


def as_json(log: StepLog, series: pd.DataFrame, summary: Summary) -> dict[str, Any]:
    """Return what `--json` prints: strict JSON, null for what is not finite."""
    return {
        "reader": log.reader,
        "steps": _step_rows(log, series),
        "notes": _notes(log, summary),
        "errors": list(log.errors),
        "valid": not log.errors,
        "why": log.why,
        "world_size": log.world_size,
        "ended": log.ended,
        "attempts": log.attempts,
        "cumulative": log.cumulative,
        "kind": log.kind,
        "facts": dict(log.facts),
        "quantum_s": log.quantum_s,
        "reduced": log.reduced,
        "started_at": log.started_at,
        "finished_at": log.finished_at,
        "summary": {
            "first": summary.first,
            "last": summary.last,
            "n": summary.n,
            "median_s": summary.median_s,
            "mean_s": summary.mean_s,
            "p90_s": summary.p90_s,
            "max_s": summary.max_s,
            "outlier_steps": [step for step, _ in summary.outliers],
        },
    }


def _notes(log: StepLog, summary: Summary) -> list[str]:
    return [*log.notes, *summary.notes, *event_notes(log.frame, (summary.first, summary.last))]


def as_text(path: str, log: StepLog, series: pd.DataFrame, summary: Summary) -> str:
    """Return what people read."""
    lines = [f"{path}", f"  read by     {log.why}", *_facts(log, series), "", *_table(log, series), ""]
    lines.append(f"  window      steps {summary.first} to {summary.last}, {summary.n} of them ({summary.why})")
    lines.append(f"  median      {shown_time(summary.median_s)}")
    lines.append(f"  mean        {shown_time(summary.mean_s)}")
    lines.append(f"  p90, max    {shown_time(summary.p90_s)}, {shown_time(summary.max_s)}")
    first = series.iloc[0]
    if int(first["step"]) == 1 and summary.first > 1:
        ratio = float(first["step_s"]) / summary.median_s
        lines.append(
            f"  step 1      {shown_time(float(first['step_s']))}, {ratio:.1f} x the median (not in the window)"
        )
    lines += [f"  note        {note}" for note in _notes(log, summary)]
    lines += _about(log)
    lines += [f"  error       {error}" for error in log.errors]
    return "\n".join(lines)


def _facts(log: StepLog, series: pd.DataFrame) -> list[str]:
    steps = f"{len(series)}, {int(series['step'].iloc[0])} to {int(series['step'].iloc[-1])}"
    world = "" if log.world_size is None else f", world size {log.world_size}"
    resolution = "not known, all values are equal" if log.quantum_s is None else shown_time(log.quantum_s)
    clock = f"cumulative; {KINDS[log.kind]}" if log.cumulative else f"{KINDS[log.kind]}, no cumulative clock"
    facts = [
        f"  steps       {steps}",
        f"  ranks       {_ranks(log)}{world}",
        f"  clock       {clock}; resolution {resolution}",
    ]
    if log.started_at is not None:
        facts.append(f"  recorded    {iso(log.started_at)}{', to its end' if log.ended else ''}")
    return facts


def _about(log: StepLog) -> list[str]:
    """Say what is known of this format's times, from its reader."""
    lines: list[str] = []
    for label, text in log.facts.items():
        first = f"  {log.reader[:11]:<11} " if not lines else " " * 14
        lines += textwrap.wrap(f"{label}: {text}", WIDTH, initial_indent=first, subsequent_indent=" " * 16)
    return lines


def _ranks(log: StepLog) -> str:
    ranks = [int(rank) for rank in sorted(log.frame["rank"].unique())]
    if ranks == [-1]:
        return log.reduced or "not said"
    names = ", ".join(str(rank) for rank in ranks[:SHOWN_RANKS]) + (" ..." if len(ranks) > SHOWN_RANKS else "")
    return f"{len(ranks)} ({names})" + ("; the slowest one counts" if len(ranks) > 1 else "")


def _table(log: StepLog, series: pd.DataFrame) -> list[str]:
    shown: list[dict[str, Any] | None]
    if len(series) > SHOWN_FIRST + SHOWN_LAST:
        ends = (series.head(SHOWN_FIRST), series.tail(SHOWN_LAST))
        first, last = (_step_rows(replace(log, frame=_of_steps(log, end)), end) for end in ends)
        shown = [*first, None, *last]
    else:
        shown = [*_step_rows(log, series)]
    lines = [f"  {'step':>8}  {'step time':>12}"]
    for row in shown:
        if row is None:
            lines.append(f"  {'...':>8}")
            continue
        ranks = row.get("ranks", {})
        per_rank = "  ".join(f"rank {rank}: {shown_time(t)}" for rank, t in list(ranks.items())[:SHOWN_RANKS])
        lines.append(f"  {row['step']:>8}  {shown_time(row['step_s']):>12}  {per_rank}".rstrip())
    return lines


def _of_steps(log: StepLog, series: pd.DataFrame) -> pd.DataFrame:
    return log.frame[log.frame["step"].isin(series["step"])]


def _step_rows(log: StepLog, series: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one dict a step; the further columns only where a log has one value a step."""
    frame = log.frame
    known = {"step", "rank", "step_s", "end_s"}
    extra = [name for name in frame.columns if name not in known] if frame["step"].is_unique else []
    columns = {str(name): frame[name].tolist() for name in extra}
    ranks = _per_rank(frame)
    rows = []
    for n, (step, step_s, end_s) in enumerate(zip(series["step"], series["step_s"], series["end_s"], strict=True)):
        row: dict[str, Any] = {"step": int(step), "step_s": float(step_s)}
        if math.isfinite(end_s):
            row["end_s"] = float(end_s)
        if step in ranks:
            row["ranks"] = ranks[step]
        rows.append(row | {name: _finite(values[n]) for name, values in columns.items()} | row)
    return rows


def _per_rank(frame: pd.DataFrame) -> dict[int, dict[str, float]]:
    """Return step -> {"0": seconds, ...}; empty where the log does not tell ranks apart."""
    found: dict[int, dict[str, float]] = {}
    for step, rank, step_s in zip(frame["step"], frame["rank"], frame["step_s"], strict=True):
        if rank >= 0:
            found.setdefault(step, {})[str(rank)] = float(step_s)
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _window(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text.strip())
    if not match or int(match[1]) > int(match[2]) or int(match[1]) < 1:
        raise UsageError(f"window={text} is no range of steps; write window=51:300")
    return int(match[1]), int(match[2])


def _known(key: str, argument: str) -> str:
    if key not in KEYS:
        raise UsageError(f"{argument}: {key} is not a key of interlace steps{_meant(key, KEYS)};"
                         f" valid keys: {', '.join(KEYS)}")  # fmt: skip
    return key


def _meant(word: str, choices: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, choices, 1)
    return f" (did you mean {close[0]}?)" if close else ""
