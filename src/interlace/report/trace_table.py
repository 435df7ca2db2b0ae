"""What traces say, as a table of strings with the jobs as columns, and the lines under it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from interlace.report.table import Table, count, milliseconds, shortened
from interlace.trace.verdict import LIMITS, median

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlace.trace.metrics import StepMetrics
    from interlace.trace.verdict import Diagnosis

    Cell = Callable[[Diagnosis], str]

S_PER_MS = 1e-3
SHOWN_SITES = 5
SHOWN_NAME = 60
PART_NAMES = {
    "compute": "compute",
    "exposed_comm": "communication that nothing hides",
    "exposed_mem": "copies that nothing hides",
    "idle_data": "idle: the host waits for data",
    "idle_sync": "idle: the host comes out of a sync",
    "idle_launch": "idle: the host launches",
    "idle_device": "idle: queued, not started",
}


def trace_table(jobs: Sequence[Diagnosis]) -> Table:
    """Return one column a job; a row that says nothing of any job is left out."""
    rows = [(title, *(cell(job) for job in jobs)) for title, cell in _rows()]
    kept = [row for row in rows if any(row[1:])]
    return Table(("a step", *(job.name for job in jobs)), tuple(kept), frozenset(range(1, len(jobs) + 1)))


def _rows() -> list[tuple[str, Cell]]:
    """Return the rows: their title, and what stands in the column of a job."""
    parts: list[tuple[str, Cell]] = [(title, _part(name)) for name, title in PART_NAMES.items()]
    return [
        ("without the profiler", lambda job: "" if job.step_ms is None else _ms(job.step_ms)),
        ("as profiled", _profiled),
        ("GPU at work", lambda job: _of_gpu(job, f"{100 * job.busy:.0f} %")),
        *parts,
        ("kernels", lambda job: _of_gpu(job, _kernels(job))),
        ("launch calls", lambda job: _of_gpu(job, _launches(job))),
        ("aten operators", lambda job: _number(job, lambda one: one.operators)),
        (
            "syncs (blocked)",
            lambda job: _of_gpu(
                job, f"{_number(job, lambda one: one.syncs)} ({_ms(_of(job, lambda one: one.sync_ms))})"
            ),
        ),
        (
            "allocations",
            lambda job: _number(job, lambda one: one.allocations) if _of(job, lambda one: one.allocations) else "",
        ),
        ("collectives", _collectives),
        ("waiting for late ranks", _waiting),
        ("verdict", lambda job: job.verdict or "no GPU in the trace"),
    ]


def _of(job: Diagnosis, of: Callable[[StepMetrics], float]) -> float:
    return median(job.steps, of)


def _number(job: Diagnosis, of: Callable[[StepMetrics], float]) -> str:
    return f"{_of(job, of):,.0f}"


def _ms(value_ms: float) -> str:
    return milliseconds(S_PER_MS * value_ms)


def _of_gpu(job: Diagnosis, cell: str) -> str:
    return cell if job.verdict is not None else ""


def _profiled(job: Diagnosis) -> str:
    slower = "" if job.step_ms is None else f" ({job.profiled_ms / job.step_ms:.2f}x)"
    return _ms(job.profiled_ms) + slower


def _part(name: str) -> Cell:
    def cell(job: Diagnosis) -> str:
        whole, value = sum(job.parts_ms.values()), job.parts_ms[name]
        return _of_gpu(job, f"{_ms(value)} ({100 * value / whole:.0f} %)" if whole else "")

    return cell


def _kernels(job: Diagnosis) -> str:
    mean_us, short = _of(job, lambda one: one.mean_kernel_us), _of(job, lambda one: one.short_kernels)
    return f"{_number(job, lambda one: one.kernels)} of {mean_us:.1f} us ({100 * short:.0f} % under 10 us)"


def _launches(job: Diagnosis) -> str:
    graphs = _of(job, lambda one: one.graph_launches)
    if not graphs:
        return _number(job, lambda one: one.launches)
    held = _number(job, lambda one: one.graph_kernels)
    return f"{_number(job, lambda one: one.launches)} ({count(round(graphs), 'graph')} with {held} kernels)"


def _collectives(job: Diagnosis) -> str:
    number = _of(job, lambda one: len(one.collectives))
    if not number:
        return ""
    megabytes = _of(job, lambda one: sum(each.bytes for each in one.collectives)) / 1e6
    sent = f", {megabytes:,.0f} MB" if megabytes else ""
    return f"{number:.0f}{sent}, {_ms(_of(job, lambda one: one.comm_ms))}"


def _waiting(job: Diagnosis) -> str:
    met = job.meeting
    if met is None:
        return ""
    last = f"rank {job.number_of(met.last)} last in {100 * met.last_share:.0f} %"
    return f"{100 * met.wait_share:.0f} % of communication, {last}"


def trace_lines(job: Diagnosis, *, named: bool, quote: str = "") -> list[str]:
    """Return what follows for one job: findings with what they could give, sites, kernels, doubts.

    Names out of the trace stand between `quote`s: Markdown would take `<float>` for a tag.
    """
    prefix = f"{job.name}: " if named else ""
    lines = [
        f"{prefix}{one.kind}: {one.why}; at most {_ms(one.ceiling_ms)} a step to be had: {one.lever}"
        for one in job.findings
    ]
    if job.meeting is not None:
        least = f"{_ms(job.meeting.transfer_ms)} a step when all ranks are there"
        judged = f"rank {job.number_of(job.judged)}, which most collectives wait for, is the one judged"
        lines.append(f"{prefix}communication takes {least}; {judged}")
    lines += [f"{prefix}sync: {quote}{site}{quote}: {times:g} a step" for site, times in _sites(job)]
    for name, each_ms, times in job.ranks[job.judged].longest:
        spent = f"{_ms(each_ms)} a step, {times / len(job.steps):.3g}x"
        lines.append(f"{prefix}kernel: {quote}{shortened(name, SHOWN_NAME)}{quote}: {spent}")
    return [*lines, *(f"{prefix}note: {doubt}" for doubt in job.doubts)]


def _sites(job: Diagnosis) -> list[tuple[str, float]]:
    seen: Counter[str] = Counter()
    for step in job.steps:
        seen.update(step.sync_sites)
    return [(site, round(times / len(job.steps), 1)) for site, times in seen.most_common(SHOWN_SITES)]


def limits_lines(jobs: Sequence[Diagnosis]) -> list[str]:
    """Say from where on something is a finding, where anything was judged."""
    if not any(job.verdict for job in jobs):
        return []
    limits = asdict(LIMITS)
    names = ("data", "comm", "skew", "launch", "sync", "memory", "device")
    shares = ", ".join(f"{name} {100 * limits[name]:.0f} %" for name in names)
    return [f"a finding from {shares} of a step on (skew: of communication); a ceiling is no promise"]


def as_json(job: Diagnosis) -> dict[str, Any]:
    """Return a job's diagnosis with every step of every rank; times in ms."""
    return {**asdict(job), "judged_rank": job.ranks[job.judged].rank, "limits": asdict(LIMITS)}
