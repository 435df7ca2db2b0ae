"""The only place that reads progress bars as tqdm draws them, and tells the training loop's from others. Pure.

    Training:  12%|#2        | 12/100 [00:30<03:40,  2.50s/it, loss=0.5]
    12it [00:30,  2.50s/it]

The format is that of tqdm's `format_meter`: counts may be scaled (`1.50k`), the rate flips between s/it and it/s.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from interlace.steplog.keys import RANK_WORDS
from interlace.steplog.model import Row, shorten
from interlace.steplog.numbers import parse_count
from interlace.steplog.text import LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from interlace.steplog.model import Remarks

_COUNT = r"\d[\d,]{0,15}(?:\.\d{1,9})?[kMGT]?"
_TIME = r"(?:\d+ days?, )?(?:\d+:)?\d+:\d\d"
_UNIT = r"[^\W\d][\w\-]*(?: [^\W\d][\w\-]*)?"
_RATE = rf"\s*(?P<{{0}}>\?|\d[\d,]{{{{0,15}}}}(?:\.\d+)?(?:e[+-]?\d+)?[kMGT]?)\s?(?P<{{1}}>s/\s?{_UNIT}|{_UNIT}/s)"
_BAR = re.compile(
    # Drawn, as a percentage (ncols=0), or as counts alone.
    rf"(?:(?:\d{{1,4}}%)?\|[^|\[\]]*\|\s*|\d{{1,4}}%\s+|(?<![\w.,/:\-|]))"
    rf"(?P<n>{_COUNT})/(?P<total>{_COUNT}|\?)\s*\[(?P<elapsed>{_TIME})<(?:\d+ days?, )?[^,\]]*,"
    + _RATE.format("rate", "per")
    + rf"|(?<![\w.,/])(?P<bare>{_COUNT})(?P<unit> ?{_UNIT}) \[(?P<bare_elapsed>{_TIME}),"
    + _RATE.format("bare_rate", "bare_per")
)
_RICH = re.compile(
    r"(?P<desc>Epoch \d+)/\d+\s+[^\w\s]*\s*(?P<n>\d+)/(?P<total>\d+)\s+(?P<elapsed>\d+:\d\d:\d\d)\s+.\s+\S+\s+"
    r"(?P<rate>\d+(?:\.\d+)?)(?P<per>it/s)"
)
_RANK = re.compile(rf"(?:\[(?:{RANK_WORDS})\s?_?|(?<![A-Za-z_])rank[ =_:#]?\s?)(\d+)\]?:?", re.IGNORECASE)
_OTHER_WORK = re.compile(
    r"(?<![a-z])(?:eval|valid|val\b|test|predict|infer|map|filter|load|download|fetch|tokeni|generat|sav|sanity"
    r"|prepar|process|extract|upload|read|build|cach|pars|conver|collect|comput|pack|group|resolv|import|quanti)",
    re.IGNORECASE,
)
_COUNTS_EPOCHS = re.compile(r"(?:train\w*\s)?epochs?\Z", re.IGNORECASE)
_OTHER_UNITS = frozenset(
    (
        *("epoch", "epochs", "B", "iB", "files", "file", "shards", "tokens", "token", "tok", "rows"),
        *("ex", "examples", "example", "samples", "sample", "img", "imgs", "image", "images", "seq", "seqs"),
        *("sequences", "frames", "frame", "videos", "clips", "graphs", "atoms", "docs", "items", "item"),
    )
)
"""What else than steps a bar may count: the seconds of a sample are no step's."""
_TRAINING = re.compile(r"train|epoch|step|iter|optim|tuning", re.IGNORECASE)
LONGEST_NAME = 80
_OTHER_RATE = 0.02
"""From here on two rates of one count are not one rate printed twice."""
Loop: TypeAlias = "tuple[str, int | None]"


class Bar(NamedTuple):
    """One drawing of a bar. `s_per_it` is None where the rate is not known yet; `n_rounded`: n was scaled."""

    desc: str
    n: int
    total: int | None
    elapsed_s: float
    s_per_it: float | None
    n_rounded: bool
    unit: str
    rank: int = -1
    line: int = 0

    @property
    def loop(self) -> Loop:
        """What tells one loop's bar from another's: its name without numbers, and its length unless per epoch."""
        name = re.sub(r"[\d/.]+", "N", self.desc)
        return name, (None if "poch" in name else self.total)


def bars_in(text: str, line: int = 0) -> Iterator[Bar]:
    """Yield every bar that is drawn in a text."""
    if "/s" not in text and "s/" not in text:
        return
    end = 0
    for match in _BAR.finditer(text):
        if LOST in match[0]:
            continue
        before = text[end : match.start()]
        end = match.end()
        name = _RANK.sub("", before)[-LONGEST_NAME:].rpartition("]")[2].strip(" :\t")
        ranks = _RANK.findall(before)
        bar = _bar(match, name, int(ranks[-1]) if ranks else -1, line)
        if bar:
            yield bar
    if "•" in text:
        for match in _RICH.finditer(text):
            n, total, rate = int(match["n"]), int(match["total"]), float(match["rate"])
            yield Bar(
                desc=match["desc"],
                n=n,
                total=total,
                elapsed_s=_seconds(match["elapsed"]),
                s_per_it=1 / rate if rate else None,
                n_rounded=False,
                unit="it",
                line=line,
            )


def _bar(match: re.Match[str], name: str, rank: int, line: int) -> Bar | None:
    n = parse_count(match["n"] or match["bare"])
    total = parse_count(match["total"]) if match["total"] not in {None, "?"} else None
    if n.value is None or (total and total.value is None):
        return None
    per = match["per"] or match["bare_per"]
    unit = per.removesuffix("/s") if per.endswith("/s") else per.removeprefix("s/").strip()
    return Bar(
        desc=name,
        n=round(n.value),
        total=None if total is None or total.value is None else round(total.value),
        elapsed_s=_seconds(match["elapsed"] or match["bare_elapsed"]),
        s_per_it=_s_per_it(match["rate"] or match["bare_rate"], per),
        n_rounded=n.rounded,
        unit=unit,
        rank=rank,
        line=line,
    )


def _s_per_it(rate: str, per: str) -> float | None:
    value = None if rate == "?" else parse_count(rate).value
    if not value:
        return None
    if not per.endswith("/s"):
        return value
    scaled = per[0] in "kMGT" and len(per) > len("k/s")
    return 1 / (value * ({"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[per[0]] if scaled else 1.0))


def _seconds(text: str) -> float:
    days, _, clock = text.rpartition(", ")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + (86400.0 * int(days.split()[0]) if days else 0.0)


def is_training(bar: Bar) -> bool:
    """Whether a bar may count steps: neither its name nor its unit speaks of other work, or of epochs."""
    other = _OTHER_WORK.search(bar.desc) or _COUNTS_EPOCHS.match(bar.desc)
    return not other and bar.unit not in _OTHER_UNITS


def main_loop(bars: Sequence[Bar], remarks: Remarks, length: int | None = None) -> list[Bar]:
    """Return the drawings of the training loop's bar, and say by what it was chosen and which others are there.

    `length`: the steps of the training, where the log states them.
    """
    loops: dict[Loop, list[Bar]] = {}
    for bar in bars:
        loops.setdefault(bar.loop, []).append(bar)
    mine = {loop: drawn for loop, drawn in loops.items() if is_training(drawn[0])}
    mine = {loop: drawn for loop, drawn in mine.items() if not _is_outer(drawn, mine, loop)}
    if not mine:
        return []
    chosen = max(
        mine,
        key=lambda loop: (
            length is not None and loop[1] == length,
            bool(_TRAINING.search(loop[0])),
            _spent_s(mine[loop]),
        ),
    )
    drawn = mine[chosen]
    if not _TRAINING.search(chosen[0]):
        counted = f" of {chosen[1]}" if chosen[1] else ""
        remarks.note("unnamed_bar", f"the bar{counted} is taken for the training loop; nothing in its name says so")
    others = [
        f"{name or 'no name'}{f' ({total})' if total else ''}" for name, total in loops if (name, total) != chosen
    ]
    if others:
        remarks.note("other_bars", f"{len(others)} other bars were left out: {shorten(', '.join(others), 80)}")
    return drawn


def _is_outer(drawn: Sequence[Bar], loops: Mapping[Loop, Sequence[Bar]], own: Loop) -> bool:
    """Whether a bar counts passes of another one (epochs of batches): that one starts about as often as it counts."""
    counts = max(bar.n for bar in drawn)
    starts = [1 + sum(b.n < a.n for a, b in pairwise(inner)) for loop, inner in loops.items() if loop != own]
    return any(2 * start >= counts for start in starts)


def _spent_s(drawn: Iterable[Bar]) -> float:
    """Return how long a loop's bars were on, all their starts together."""
    spent = last = 0.0
    for bar in drawn:
        spent += bar.elapsed_s - last if bar.elapsed_s >= last else bar.elapsed_s
        last = bar.elapsed_s
    return spent


class LiveCount:
    """Counts the steps of one loop's bar while it is drawn: of the first that is named after training.

    `unnamed`: the first bar that may be the training's will do. Other bars never count: one of a thousand files
    that are prepared must not look like a thousand steps.
    """

    def __init__(self, *, unnamed: bool = False) -> None:
        self._unnamed = unnamed
        self._loop: Loop | None = None
        self._done: dict[int, int] = {}
        self._last: dict[int, Bar] = {}

    def __call__(self, text: str) -> list[tuple[int, int | None]]:
        """Return (rank, step) for each drawing of the loop in a text."""
        return [(bar.rank, self._step(bar)) for bar in bars_in(text) if self._counts(bar)]

    def _counts(self, bar: Bar) -> bool:
        if self._loop is None and is_training(bar) and (self._unnamed or _TRAINING.search(bar.desc)):
            self._loop = bar.loop
        return bar.loop == self._loop and not bar.n_rounded and bar.n > 0

    def _step(self, bar: Bar) -> int:
        before = self._last.get(bar.rank)
        if before and _begins_again(bar, before):
            self._done[bar.rank] = self._done.get(bar.rank, 0) + (before.total or before.n)
        self._last[bar.rank] = bar
        return self._done.get(bar.rank, 0) + bar.n


def rows_of(drawn: Sequence[Bar], remarks: Remarks) -> list[Row]:
    """Turn the drawings of one loop into rows: each drawn count once, epochs counted on."""
    rows: list[Row] = []
    done: dict[int, int] = {}
    last: dict[int, Bar] = {}
    rounded = per_epoch = 0
    several = _several_draw(drawn)
    for bar in drawn:
        before = last.get(bar.rank)
        if before and _begins_again(bar, before):
            per_epoch += 1
            done[bar.rank] = done.get(bar.rank, 0) + (before.total or before.n)
        last[bar.rank] = bar
        rounded += bar.n_rounded
        # A count that is drawn again, at the latest at the close, has another rate: that of the whole bar.
        again = before is not None and before.n == bar.n and (not several or bar.n == bar.total)
        if bar.s_per_it is None or not bar.n or bar.n_rounded or again:
            continue
        columns = {"elapsed_s": bar.elapsed_s} | ({"total": float(bar.total)} if bar.total else {})
        rows.append(Row(done.get(bar.rank, 0) + bar.n, bar.s_per_it, bar.rank, extra=columns, line=bar.line))
    if rounded:
        remarks.note("rounded_steps", f"{rounded} drawings have scaled counts (as in 1.5k) and were not used")
    if per_epoch:
        remarks.note("per_epoch_counter", f"the bar begins again {per_epoch} times: steps are counted on")
    if several:
        text = "several processes draw this bar and do not say which rank they are: the slowest value of a count counts"
        remarks.note("unlabelled_ranks", text)
        return _slowest_of_counts(rows)
    _note_clock(drawn, remarks)
    return rows


def _several_draw(drawn: Sequence[Bar]) -> bool:
    """Whether several processes draw without a rank: counts go to and fro, or each count has two rates.

    One process goes back only where it starts again, and draws a count anew with about the same rate.
    """
    pairs = [(a, b) for a, b in pairwise(drawn) if a.rank < 0 and a.s_per_it and b.s_per_it]
    turns = sum(b.n < a.n and not _begins_again(b, a) for a, b in pairs)
    other = sum(a.n == b.n and abs(a.s_per_it / b.s_per_it - 1) > _OTHER_RATE for a, b in pairs)  # type: ignore[operator]
    return turns > max(3, len(pairs) // 10) or 2 * other > len({bar.n for bar in drawn})


def _slowest_of_counts(rows: list[Row]) -> list[Row]:
    best: dict[int | None, Row] = {}
    for row in rows:
        if row.step not in best or row.step_s > best[row.step].step_s:
            best[row.step] = row._replace(line=rows[0].line)
    return [best[step] for step in sorted(best, key=lambda step: step or 0)]


def _begins_again(bar: Bar, before: Bar) -> bool:
    """Whether this is the bar of the next epoch: the one before was full, or is named after its epoch."""
    if bar.n * 2 > before.n or bar.elapsed_s > before.elapsed_s or bar.n == before.n:
        return False
    return before.n == before.total or ("poch" in bar.desc and bar.desc != before.desc)


def _note_clock(drawn: Sequence[Bar], remarks: Remarks) -> None:
    """Say what the bar's own clock gives over its longest stretch: coarse, and no running average."""
    best = (0, 0.0)
    start = drawn[0] if drawn else None
    for before, bar in pairwise(drawn):
        if start is None or bar.n < before.n or bar.elapsed_s < before.elapsed_s or bar.rank != start.rank:
            start = bar
        best = max(best, (bar.n - start.n, bar.elapsed_s - start.elapsed_s))
    steps, seconds = best
    if steps and seconds:
        text = f"{seconds / steps:.4g} s a step over {steps} steps, to within {2 / steps:.2g} s"
        remarks.note("bar_clock", f"the bar's own clock (whole seconds) gives {text}")
