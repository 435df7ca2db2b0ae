"""`interlace compare`: what logs that the user already has say about a change."""

from __future__ import annotations

import difflib
import json
import re
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_args

from interlace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from interlace.compare.comparison import Comparison
    from interlace.compare.given import GivenRun
    from interlace.compare.ladder import Ladder
    from interlace.compare.outcome import Outcome

HELP = """\
usage: interlace compare NAME=LOG[,LOG...] NAME=LOG[,LOG...] [more arms] [options] [--json]

Compares runs from their logs. Every NAME=... is an arm; the one called `baseline` (else the first) is what
the others are compared with. Logs of one arm are separated by commas; quote a glob ("runs/a*.log"); a folder
of per-rank logs is one run.

  order=ABBABAAB   in which order the runs were made: A is the baseline, B, C ... the other arms as given; the
                   first A is the first log of A, and so on (or the arms' names: order=base,new,new,base).
                   Without it the clocks in the logs decide. Unknown and sequential orders (AAABBB) get
                   ratios, but no verdict: drift cannot be told from the effect
  window=51:300    first and last step that count (default: 51:300, or what all logs share without a warm-up)
  block=10         steps a block: the compared number is the mean of the middle blocks; make it a multiple of the
                   steps that repeat (gradient accumulation)
  aa=LOG,LOG,...   logs of identical runs of the same session, in the order in which they were made, two a round, at
                   least four rounds: two arms are then judged with their spread as well
  samples=N        samples a step of all ranks together (or tokens=N): gives the throughput
  margin=1%        the largest change that does not matter to you
  reader=NAME      how to read the logs (default: recognised)
  pattern=REGEX    your own line, with named groups step and step_s
  unit=s|ms|us     unit of the times under pattern=
  --ladder         the arms are cumulative: also compare each with the one before it, in the order given
  --json           one JSON object a candidate, one a line

example: interlace compare baseline=a1.log,a2.log candidate=b1.log,b2.log order=ABBA
"""
OPTIONS = ("order", "window", "block", "aa", "samples", "tokens", "margin", "reader", "pattern", "unit")


@dataclass(frozen=True)
class Request:
    """The typed command line. `arms` has the baseline first, then the others as given."""

    arms: dict[str, list[Path]]
    order: str | None = None
    window: tuple[int, int] | None = None
    margin: float = 0.01
    reader: str = "auto"
    pattern: str | None = None
    unit: Any = "s"
    block: int = 10
    aa: tuple[Path, ...] = ()
    samples: float | None = None
    tokens: float | None = None
    as_json: bool = False
    ladder: bool = False


def run(argv: list[str]) -> int:
    """Compare the logs named in `argv`; results to stdout. Raises InterlaceError for bad input."""
    if "-h" in argv or "--help" in argv:
        sys.stdout.write(HELP)
        return 0
    request = parse(argv)
    outcome = judged(request)
    if request.as_json:
        for candidate in outcome.compared.candidates:
            sys.stdout.write(json.dumps(as_record(outcome, candidate), allow_nan=False) + "\n")
        return 0
    from interlace.report.given import show  # noqa: PLC0415 (--help and --json load no table)

    show(outcome)
    return 0


def parse(argv: list[str]) -> Request:
    """Typed request from the command line; UsageError says what is wrong with it."""
    from interlace.compare.given import refuse_repeats  # noqa: PLC0415 (--help stays light)

    options, named = _split(argv)
    if len(named) < 2:  # noqa: PLR2004 (a comparison has two sides)
        raise UsageError(
            f"{len(named)} arms given: compare needs two or more, as in baseline=a1.log,a2.log candidate=b1.log,b2.log"
        )
    baseline = "baseline" if "baseline" in named else next(iter(named))
    in_turn = [baseline, *(name for name in named if name != baseline)]
    arms = {name: _files(name, named[name]) for name in in_turn}
    aa = _files("aa", options["aa"]) if "aa" in options else []
    refuse_repeats({**arms, "aa": aa})
    return Request(
        arms=arms,
        order=options.get("order") or None,
        window=_window(options["window"]) if "window" in options else None,
        margin=_margin(options.get("margin", "1%")),
        reader=options.get("reader", "auto"),
        pattern=options.get("pattern"),
        unit=_unit(options.get("unit", "s")),
        block=int(_count("block", options.get("block", "10"), whole=True)),
        aa=tuple(_aa_pairs(aa)),
        samples=_count("samples", options["samples"]) if "samples" in options else None,
        tokens=_count("tokens", options["tokens"]) if "tokens" in options else None,
        as_json="--json" in argv,
        ladder="--ladder" in argv,
    )


def _files(name: str, value: str) -> list[Path]:
    """Return the files of an arm; where there are none, its name may be that of an option, misspelt."""
    from interlace.compare.given import files_of  # noqa: PLC0415 (--help stays light)

    try:
        return files_of(name, value)
    except UsageError as error:
        meant = [] if name in OPTIONS else difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.7)
        if not meant:
            raise
        raise UsageError(f"{error}; did you mean the option {meant[0]}={value}?") from error


def _split(argv: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options and arms, each as given."""
    options: dict[str, str] = {}
    named: dict[str, str] = {}
    for word in argv:
        if word in ("--json", "--ladder"):
            continue
        key, equals, value = word.partition("=")
        if word.startswith("-"):
            raise UsageError(
                f"unknown option '{word}': options are {', '.join(f'{o}=' for o in OPTIONS)} and --json, --ladder"
            )
        if not equals or not key or not value:
            raise UsageError(f"'{word}': expected NAME=LOG[,LOG...] or one of {', '.join(f'{o}=' for o in OPTIONS)}")
        target = options if key in OPTIONS else named
        if key in target:
            if key in OPTIONS:
                raise UsageError(f"the option {key!r} is given twice: {target[key]} and {value}; give one")
            raise UsageError(f"the arm {key!r} is given twice: name its logs once, separated by commas")
        target[key] = value
    return options, named


def _window(text: str) -> tuple[int, int]:
    from interlace.stats.run import check_window  # noqa: PLC0415 (--help stays light)

    match = re.fullmatch(r"\s*(\d+)\s*[:-]\s*(\d+)\s*", text)
    if match is None:
        raise UsageError(f"window={text}: give the first and the last step, as in window=51:300")
    return check_window((int(match[1]), int(match[2])))


def _margin(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*", text)
    value = float(match[1]) / (100.0 if match[2] else 1.0) if match else 0.0
    if match is None or not 0.0 < value < 0.5:  # noqa: PLR2004 (half of the step time is no margin)
        raise UsageError(f"margin={text}: give a percentage under 50 %, as in margin=1% (or 0.01)")
    return value


def _count(name: str, text: str, *, whole: bool = False) -> float:
    value = float(text) if re.fullmatch(r"\d+" if whole else r"\d+(\.\d+)?", text) else 0.0
    if value <= 0:
        raise UsageError(f"{name}={text}: give a {'whole ' if whole else ''}number above 0")
    return value


def _aa_pairs(logs: Sequence[Path]) -> Sequence[Path]:
    if logs and (len(logs) % 2 or len(logs) < 8):  # noqa: PLR2004 (four rounds of two)
        raise UsageError(f"aa= names {len(logs)} logs; give two a round, and at least four rounds (8 logs)")
    return logs


def _unit(text: str) -> str:
    from interlace.steplog.model import Unit  # noqa: PLC0415 (--help stays light)

    if text not in get_args(Unit):
        raise UsageError(f"unit={text}: choose one of {', '.join(get_args(Unit))}")
    return text


def judged(request: Request) -> Outcome:
    """Read, measure and compare. Raises ReadError for a log that cannot be used, naming it."""
    from interlace.compare import given  # noqa: PLC0415 (--help loads no pandas)
    from interlace.compare.compare import compare  # noqa: PLC0415
    from interlace.compare.ladder import climb  # noqa: PLC0415
    from interlace.compare.outcome import Outcome  # noqa: PLC0415
    from interlace.compare.pays import costs_of, payback  # noqa: PLC0415
    from interlace.compare.step_notes import log_notes  # noqa: PLC0415

    arms = tuple(request.arms)
    runs = [_read(arm, path, request) for arm, paths in request.arms.items() for path in paths]
    ordered = given.in_order(runs, arms, request.order)
    window, why = given.window_for(runs, request.window)
    measured = given.measure(ordered.runs, window, request.block)
    aa = [_read("aa", path, request) for path in request.aa]
    aa_s = [stats.summary.stat_s for stats in given.measure(aa, window, request.block)]
    failed, unlike = given.unlike(ordered, arms[0], arms)
    frame = given.runs_frame(ordered, measured)
    reason = ordered.order.reason
    rounds = list(zip(aa_s[::2], aa_s[1::2], strict=True)) or None
    rules: dict[str, Any] = {"arms": arms, "margin": request.margin, "failed": failed, "aa_rounds": rounds}
    compared = compare(frame, arms[0], not_judged=reason, **rules)
    if ordered.order.kind == "alternating" and (reason := given.leaking_drift(compared.drift)):
        compared = compare(frame, arms[0], not_judged=reason, **rules)
    notes = (
        *ordered.order.notes,
        *ordered.notes,
        *given.pairs_to_judge(ordered, arms),
        *unlike,
        *compared.notes,
        *log_notes(ordered.runs, measured),
    )
    costs = {
        arm: costs_of(stats.summary for run, stats in zip(ordered.runs, measured, strict=True) if run.arm == arm)
        for arm in arms
    }
    verdicts = {one.arm: one.verdict for one in compared.candidates}
    rungs = climb(frame, arms, margin=request.margin) if request.ladder and reason is None else None
    return Outcome(
        arms,
        ordered,
        measured,
        compared,
        window,
        why,
        notes,
        tuple(payback(arms[0], costs, verdicts)),
        rungs,
        request.samples,
        request.tokens,
    )


def _read(arm: str, path: Path, request: Request) -> GivenRun:
    from interlace.compare.given import GivenRun  # noqa: PLC0415 (--help loads no pandas)
    from interlace.steplog import read  # noqa: PLC0415

    log = read(path, reader=request.reader, pattern=request.pattern, unit=request.unit)
    return GivenRun(arm, str(path), log)


def as_record(outcome: Outcome, candidate: Comparison) -> dict[str, Any]:
    """One candidate as strict JSON; times in seconds, ratios candidate / baseline, null where not known."""
    drift = outcome.compared.drift
    return {
        "arm": candidate.arm,
        "baseline": candidate.baseline,
        "ratio": candidate.ratio,
        "low": candidate.low,
        "high": candidate.high,
        "verdict": candidate.verdict,
        "sentence": candidate.sentence,
        "confidence": candidate.confidence,
        "speedup": candidate.speedup,
        "rounds": candidate.rounds,
        "rounds_faster": candidate.rounds_faster,
        "round_ratios": list(candidate.round_ratios),
        "provisional": candidate.provisional,
        "method": candidate.method,
        "p_value": candidate.p_value,
        "p_holm": candidate.p_holm,
        "noise_floor": candidate.noise_floor,
        "resolution": candidate.resolution,
        "drift": None if drift is None else drift.total,
        "order": outcome.ordered.order.kind,
        "order_source": outcome.ordered.source,
        "window": list(outcome.window),
        "window_source": outcome.window_why,
        "runs": {arm: _arm_record(outcome, arm) for arm in (candidate.baseline, candidate.arm)},
        "notes": [*candidate.notes, *outcome.notes],
        "ladder": _rung(outcome.ladder, candidate.arm),
        "payback": list(outcome.payback),
        "samples_per_s": outcome.per_second(candidate.arm, outcome.samples),
        "tokens_per_s": outcome.per_second(candidate.arm, outcome.tokens),
    }


def _rung(ladder: Ladder | None, arm: str) -> dict[str, Any] | None:
    """Return an arm's row of the commit table, and what the whole of it comes to; None without one."""
    rung = next((rung for rung in ladder.rungs if rung.arm == arm), None) if ladder else None
    return {**asdict(rung), "total": ladder.total} if ladder and rung else None


def _arm_record(outcome: Outcome, arm: str) -> list[dict[str, Any]]:
    return [
        {
            "log": run.name,
            "reader": run.log.reader,
            "stat_s": stats.summary.stat_s,
            "median_s": stats.summary.median_s,
            "mean_s": stats.summary.mean_s,
            "steps": stats.summary.n,
        }
        for run, stats in zip(outcome.ordered.runs, outcome.measured, strict=True)
        if run.arm == arm
    ]
