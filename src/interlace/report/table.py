"""The arms as a table of strings: what each cell says, before anything decides how it looks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlace.compare.comparison import MANY_CANDIDATES, rejected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.analyse import Analysis, Trouble
    from interlace.compare import ArmSummary, Comparison
    from interlace.compare.ladder import Ladder, Rung, Step

MS_PER_S = 1000.0
LONG_S = 10.0
"""From here on a step time is written in seconds."""
SHOWN_IDLE_MIB = 51.2
"""Less than this is 0.0 GiB."""
SHOWN_RESOLUTION = 1e-5
"""A finer resolution than this is not worth a line."""


@dataclass(frozen=True)
class Table:
    """A header and rows of equal length; `numeric` are the columns to align right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]


def same_troubles(troubles: Sequence[Trouble]) -> list[list[Trouble]]:
    """Put together the runs that ended in the same way, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Trouble]] = {}
    for one in troubles:
        groups.setdefault((one.status, one.message), []).append(one)
    return list(groups.values())


def arms_table(arms: Sequence[ArmSummary]) -> Table:
    """Return one row an arm. Columns that no arm fills (commit, memory) are left out."""
    walls = [arm.wall_s for arm in arms if arm.baseline]
    rows = [_cells(arm, walls[0] if walls else None) for arm in arms]
    kept = [i for i, name in enumerate(HEADER) if name not in OPTIONAL or any(row[i] for row in rows)]
    return Table(
        tuple(HEADER[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        frozenset(new for new, old in enumerate(kept) if HEADER[old] in NUMERIC),
    )


HEADER = (
    "arm", "commit", "change", "runs", "median step (range of runs)", "compared (CV)", "mean", "p90", "slowest",
    "step 1", "run", "GPU memory", "allocator peak", "samples/s", "tokens/s", "ratio", "speed-up", "verdict",
)  # fmt: skip
OPTIONAL = frozenset({"commit", "change", "GPU memory", "allocator peak", "step 1", "run", "samples/s", "tokens/s"})
LEAST_NEEDED = (
    "mean", "commit", "run", "step 1", "slowest", "p90", "tokens/s", "samples/s", "allocator peak", "GPU memory",
    "compared (CV)", "what changed", "change", "ratio", "runs",
)  # fmt: skip
NUMERIC = frozenset(HEADER) - {"arm", "commit", "change", "verdict"}


def _cells(arm: ArmSummary, baseline_wall_s: float | None) -> tuple[str, ...]:
    compared = arm.comparison
    ratio = compared.ratio if compared else None
    verdict = "baseline" if arm.baseline else compared.verdict if compared else "not judged"
    return (
        arm.name,
        (arm.commit or "")[:9],
        shortened(arm.change) if arm.commit else "",
        str(arm.runs) if arm.runs == arm.planned else f"{arm.runs} of {arm.planned}",
        with_range(arm.median_s, arm.low_s, arm.high_s),
        _compared(arm),
        milliseconds(arm.mean_s),
        milliseconds(arm.p90_s),
        milliseconds(arm.max_s),
        "" if arm.step1_s is None else milliseconds(arm.step1_s),
        _whole_run(arm, baseline_wall_s),
        _peak(arm),
        "" if arm.allocated_mib is None else gib(arm.allocated_mib),
        "" if arm.samples_per_s is None else f"{arm.samples_per_s:,.0f}",
        "" if arm.tokens_per_s is None else f"{arm.tokens_per_s:,.0f}",
        "" if ratio is None else f"{ratio:.3f}",
        "" if ratio is None else f"{1 / ratio:.2f}x",
        verdict if arm.measured else "not measured",
    )


def _compared(arm: ArmSummary) -> str:
    """Write the number that the verdict compares, and how much it varies from run to run."""
    return milliseconds(arm.stat_s) + ("" if arm.cv is None else f" ({100 * arm.cv:.1f} %)")


def _peak(arm: ArmSummary) -> str:
    """Write the peak of the fullest GPU, with what was in use there before the run where that shows."""
    if arm.peak_mib is None:
        return ""
    idle = "" if arm.idle_mib is None or arm.idle_mib < SHOWN_IDLE_MIB else f" (idle {arm.idle_mib / 1024:.1f})"
    return gib(arm.peak_mib) + idle


def gib(mib: float) -> str:
    """Write memory as people quote it: 10.6 GiB."""
    return f"{mib / 1024:.1f} GiB"


def _whole_run(arm: ArmSummary, baseline_wall_s: float | None) -> str:
    """Write the wall time of a run and, beside the baseline's, its speed-up: compilation and start-up included."""
    if arm.wall_s is None or arm.baseline or not baseline_wall_s:
        return seconds(arm.wall_s)
    return f"{seconds(arm.wall_s)} ({baseline_wall_s / arm.wall_s:.2f}x)"


def ladder_table(ladder: Ladder, arms: Sequence[ArmSummary]) -> Table:
    """Return the commit table: each row against the one above it and against the first."""
    rows = {arm.name: arm for arm in arms}
    rungs = {rung.arm: rung for rung in ladder.rungs}
    header = ("row", "what changed", "median step", "vs previous", "vs first", "step called")
    cells = [_rung(rows[arm.name], rungs.get(arm.name)) for arm in arms]
    return Table(header, tuple(cells), frozenset({2, 3, 4}))


def _rung(arm: ArmSummary, rung: Rung | None) -> tuple[str, ...]:
    name = arm.name
    change = shortened(arm.change)
    if not arm.measured:
        return (name, change, "", "", "", "not measured")
    if rung is None:
        return (name, change, milliseconds(arm.median_s), "", "", "not judged")
    called = "baseline"
    if rung.previous:
        called = rung.previous.verdict
        if called == "within noise" and not rung.previous.low <= 1.0 <= rung.previous.high:
            called += " (adjusted)"  # the interval is this row's alone
    return (name, change, milliseconds(arm.median_s), _change(rung.previous), _change(rung.first), called)


def _change(step: Step | None) -> str:
    """Write `-4.4 % (-5.1 to -3.7)`: less time is faster."""
    if step is None:
        return ""
    middle, low, high = (100.0 * (value - 1.0) for value in (step.ratio, step.low, step.high))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def with_range(middle_s: float | None, low_s: float | None, high_s: float | None) -> str:
    """Write `28.0 ms (27.0 / 29.0)`: the median over runs, and their range."""
    if middle_s is None or low_s is None or high_s is None:
        return "-"
    if low_s == high_s:
        return milliseconds(middle_s)
    if middle_s >= LONG_S:
        return f"{middle_s:.2f} s ({low_s:.2f} / {high_s:.2f})"
    digits = _digits(middle_s)
    low, high = (f"{value * MS_PER_S:.{digits}f}" for value in (low_s, high_s))
    return f"{milliseconds(middle_s)} ({low} / {high})"


def milliseconds(value_s: float | None) -> str:
    """Write a step time with a sensible number of digits: 8.593 ms, 28.04 ms, 151.2 ms, 12.7 s."""
    if value_s is None:
        return "-"
    if value_s >= LONG_S:
        return f"{value_s:.1f} s"
    return f"{value_s * MS_PER_S:.{_digits(value_s)}f} ms"


def _digits(value_s: float) -> int:
    """About four figures: 4.567 ms, 28.04 ms, 151.2 ms, 1204 ms."""
    ms = abs(value_s) * MS_PER_S
    return 3 if ms < 10 else 2 if ms < 100 else 1 if ms < 1000 else 0  # noqa: PLR2004 (powers of ten)


def seconds(value_s: float | None) -> str:
    """Write a duration in seconds."""
    return "" if value_s is None else f"{value_s:.{2 if value_s < 10 else 1}f} s"  # noqa: PLR2004 (powers of ten)


def further_lines(comparisons: Sequence[Comparison], payback: Sequence[str], *, ladder: bool = False) -> list[str]:
    """Return what several candidates come to together: rejected settings, the price of what pays once.

    The rows of a ladder are no settings to choose from: they are judged row by row.
    """
    lines = list(payback)
    if not ladder and (unwanted := rejected(comparisons)):
        lines.append(f"measured against the noise floor, rejected: {', '.join(unwanted)}")
    faster = [one for one in comparisons if one.verdict == "faster" and one.ratio is not None]
    if not ladder and len(comparisons) >= MANY_CANDIDATES and faster:
        best = min(faster, key=lambda one: one.ratio or 1.0)
        lines.append(
            f"the best of several looks better than it is: measure {best.arm} against the baseline alone "
            "in four fresh rounds before you quote it"
        )
    return lines


def narrowed(table: Table, width: int) -> Table:
    """Leave out columns until the table fits: those first whose numbers matter least for a decision."""
    for name in LEAST_NEEDED:
        if sum(max(len(row[i]) for row in (table.header, *table.rows)) + 2 for i in range(len(table.header))) <= width:
            break
        kept = [i for i, title in enumerate(table.header) if title != name]
        table = Table(
            tuple(table.header[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in table.rows),
            frozenset(new for new, old in enumerate(kept) if old in table.numeric),
        )
    return table


def shortened(text: str, most: int = 44) -> str:
    """Cut a commit's subject to what a column can show; report.json has the whole."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}\u2026"


def count(number: int, noun: str) -> str:
    """Write `1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def per_cent(share: float) -> str:
    """Write a share without exponents: 0.39 %, 4 %, 110 %, under 0.01 %."""
    value = 100.0 * share
    if value < 0.01:  # noqa: PLR2004 (nothing to see)
        return "under 0.01 %"
    return f"{value:.0f} %" if value >= 9.5 else f"{value:.2g} %"  # noqa: PLR2004 (two figures)


def judgement_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence a candidate, and under it what it rests on: ratios by round, noise floor, remarks."""
    lines = []
    for one in comparisons:
        lines.append(f"{one.arm}: {one.sentence}")
        if len(one.round_ratios) > 1:
            ratios = " ".join(f"{ratio:.4f}" for ratio in one.round_ratios)
            lines.append(f"  ratio by round: {ratios}; {one.rounds_faster} of {len(one.round_ratios)} faster")
        lines += [f"  {note}" for note in one.notes]
    lines += _floors(comparisons)
    bounds = [one.resolution for one in comparisons if one.resolution is not None]
    if bounds and max(bounds) > SHOWN_RESOLUTION:
        lines.append(f"resolution of the logs: {100.0 * max(bounds):.2g} %")
    return lines


def _floors(comparisons: Sequence[Comparison]) -> list[str]:
    """Write one line for each way in which a noise floor was found, the lowest first, with its range over the arms."""
    by_source: dict[str, dict[str, float]] = {}
    for one in comparisons:
        if one.noise_floor is not None and one.noise_floor_source is not None:
            by_source.setdefault(one.noise_floor_source, {})[one.arm] = one.noise_floor
    lowest_first = sorted(by_source.items(), key=lambda found: min(found[1].values()))
    fewest = min(map(len, by_source.values())) if len(by_source) > 1 else 0
    return [_floor(source, floors, named=len(floors) == fewest) for source, floors in lowest_first]


def _floor(source: str, floors: Mapping[str, float], *, named: bool) -> str:
    low, high = per_cent(min(floors.values())), per_cent(max(floors.values()))
    of_arms = f": {', '.join(floors)}" if named else ""
    return f"noise floor: +-{low}{'' if low == high else f' to {high}'} ({source}{of_arms})"


def headline(analysis: Analysis) -> str:
    """Say what the numbers are; of the slowest rank only where the logs hold several."""
    first, last = analysis.window
    whose = " of the slowest rank" if analysis.several_ranks else ""
    rounds = f"{len(analysis.rounds)} of {analysis.planned_rounds} rounds complete"
    if not analysis.interleaved:
        rounds = f"{count(analysis.planned_rounds, 'round')}, not interleaved"
    return f"{analysis.sweep}: step time{whose}, steps {first} to {last}; {rounds}"
