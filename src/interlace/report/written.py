"""The report as files: report.md, report.json and tables/*.csv in the sweep's folder."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace import __version__, placements
from interlace.arms import own_settings
from interlace.compare.ladder import Rung
from interlace.files import SweepDir, write_json, write_text
from interlace.history import fingerprints
from interlace.report.gpu_table import gpu_rows, gpu_table
from interlace.report.phase_table import phase_table
from interlace.report.table import (
    Table,
    arms_table,
    count,
    further_lines,
    headline,
    judgement_lines,
    ladder_table,
    same_troubles,
)
from interlace.report.trace_table import limits_lines, trace_lines, trace_table
from interlace.schema import FORMAT_VERSION
from interlace.stats.run import block_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlace.analyse import Analysis
    from interlace.compare import ArmSummary
    from interlace.compare.ladder import Ladder
    from interlace.loaded import LoadedSweep
    from interlace.schema import Arm
    from interlace.trace.verdict import Diagnosis


def write_report(loaded: LoadedSweep) -> None:
    """Write every form of the report. Each file is complete or absent."""
    analysis, path = loaded.analysis, loaded.sweep_dir.path
    write_text(path / "report.md", markdown(loaded))
    write_json(path / "report.json", as_json(loaded))
    write_text(path / "tables" / "arms.csv", arms_csv(analysis))
    if analysis.ladder is not None:
        write_text(path / "tables" / "ladder.csv", ladder_csv(analysis.ladder, analysis.arms))
    if gpus := _gpus(loaded):
        write_text(path / "tables" / "gpus.csv", _csv([{**row, "held_pct": _shares(row)} for row in gpus]))
    if any(arm.phases_s for arm in analysis.arms):
        write_text(path / "tables" / "phases.csv", phases_csv(analysis))
    write_text(path / "tables" / "runs.csv", loaded.runs.to_csv(index=False))


def markdown(loaded: LoadedSweep) -> str:
    """Return the report as Markdown, ready for a pull request."""
    analysis = loaded.analysis
    lines = [f"## {headline(analysis)}", "", *_pipe_table(arms_table(analysis.arms)), ""]
    lines += [f"- {line}".replace("-   ", "  - ") for line in judgement_lines(analysis.comparisons)]
    further = further_lines(analysis.comparisons, analysis.payback, ladder=analysis.ladder is not None)
    lines += [f"- {line}" for line in further]
    if analysis.ladder is not None:
        lines += ["", "### Commit by commit", "", *_pipe_table(ladder_table(analysis.ladder, analysis.arms)), ""]
        lines += [f"- {note}" for note in analysis.ladder.footer]
    if analysis.troubles:
        lines += ["", "### Runs that are not ok", ""]
        lines += [
            f"- {', '.join(f'{one.run} (attempt {one.attempt})' for one in same)}, {same[0].status}: {same[0].message}"
            for same in same_troubles(analysis.troubles)
        ]
    if analysis.notes:
        lines += ["", "### Notes", "", *(f"- {note}" for note in analysis.notes)]
    if phases := phase_table(analysis.arms):
        lines += ["", "### Where the host spends a step", "", *_pipe_table(phases)]
    if gpus := _gpus(loaded):
        lines += ["", "### What the GPUs did", "", *_pipe_table(gpu_table(gpus))]
    if analysis.placements:
        ran_on = [f"- {line}" for line in placements.lines(analysis.placements)]
        lines += ["", "### Where the ranks ran (runs), read back while they made steps", "", *ran_on]
    lines += ["", "### How it was measured", "", *_how(loaded)]
    return "\n".join(lines) + "\n"


def traces_markdown(jobs: Sequence[Diagnosis]) -> str:
    """Return what the traces of a sweep say as Markdown, ready for a pull request."""
    lines = ["## What the profiler's traces say of a step", "", *_pipe_table(trace_table(jobs)), ""]
    lines += [f"- {line}" for job in jobs for line in trace_lines(job, named=len(jobs) > 1, quote="`")]
    return "\n".join([*lines, *(f"- {line}" for line in limits_lines(jobs))]) + "\n"


def _gpus(loaded: LoadedSweep) -> list[dict[str, Any]]:
    """Return what every GPU did under every arm, over the runs that count, without the burn-in."""
    counted = [(one.run.arm, one.record) for one in loaded.used if one.record is not None and one.run.round > 0]
    return gpu_rows(loaded.sweep.in_order(counted))


def _how(loaded: LoadedSweep) -> list[str]:
    config, plan = loaded.sweep.config, loaded.plan
    order = " ".join(run.arm for run in plan.runs if run.round == 1)
    rounds = len({run.round for run in plan.runs if run.round})
    burn_in = "one discarded burn-in run, then " if config.burn_in else ""
    ranks = count(config.ranks.nproc_per_node, "rank")
    if config.launchers.nodes > 1:
        ranks = f"{config.launchers.nodes} nodes with {ranks} each"
    order = f"{plan.order} order, seed {plan.seed}: round 1 was {order}"
    block = block_steps(config.stats.block, config.measure.period)
    verdicts = f"verdicts from the trimmed mean of {block}-step blocks, tables show medians"
    lines = [
        f"- {_node(loaded)}",
        f"- {ranks} under {config.ranks.kind}, workload {config.workload.name}; one run at a time, {order}",
        f"- {burn_in}{count(rounds, 'round')}; {verdicts}",
    ]
    if loaded.sweep.command:
        lines.append(f"- typed: `{loaded.sweep.command}`")
    lines += [f"- {arm.name}: {_differs(arm)}" for arm in loaded.sweep.arms if _differs(arm)]
    own = f"Interlace {__version__}; every run's command, environment, log and record are under `runs/`"
    return [*lines, f"- {own}"]


def _differs(arm: Arm) -> str:
    """Say what an arm is: its commit, what it sets, its environment."""
    commit = [f"commit {arm.sha}" if arm.config.commit else str(arm.subject)] if arm.sha else []
    return ", ".join([*commit, *own_settings(arm)])


def _node(loaded: LoadedSweep) -> str:
    """Write each kind of machine in one line, as pull requests do: GPUs, CPU, driver, versions."""
    folders = [loaded.sweep_dir, *(SweepDir(Path(block.folder)) for block in loaded.blocks)]
    # What is installed here is what was measured only where no arm has an environment of its own; a note tells those.
    here = not any(arm.config.workload.python for arm in loaded.sweep.arms)
    nodes = [one for folder in folders if folder.node.is_file() for one in fingerprints(folder)]
    machines = Counter(_machine(node, software=here) for node in nodes)
    told = [f"{number} x ({machine})" if number > 1 else machine for machine, number in machines.items()]
    return "; ".join(told) or "node not recorded"


def _machine(node: Mapping[str, Any], *, software: bool) -> str:
    gpus = [one["gpu"].get("name") or "GPU" for one in node.get("gpus") or []]
    kinds = [f"{gpus.count(kind)} x {kind}" for kind in sorted(set(gpus))] or ["no GPU"]
    cpu, versions = node.get("cpu") or {}, node.get("versions") or {}
    driver = f"driver {node['driver']}, CUDA {node.get('cuda_driver')}" if node.get("driver") else None
    told = [f"{name} {versions[name]}" for name in ("torch", "accelerate") if name in versions]
    parts = [
        " + ".join(kinds),
        driver,
        f"{cpu.get('threads')} CPUs ({cpu.get('model')})",
        count(len(node.get("numa") or []), "NUMA node"),
        *([f"Python {node.get('python')}", *told] if software else ()),
    ]
    return ", ".join(part for part in parts if part)


def _pipe_table(table: Table) -> list[str]:
    rule = ["---:" if index in table.numeric else "---" for index in range(len(table.header))]
    rows = [
        table.header,
        tuple(rule),
        *(tuple(cell.replace("|", "\\|") for cell in row) for row in table.rows),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


NOT_A_CELL = frozenset({"comparison", "phases_s"})


def arms_csv(analysis: Analysis) -> str:
    """Return one row an arm, every number unrounded and in the unit that its column names."""
    rows = [
        {
            **{field.name: getattr(arm, field.name) for field in fields(arm) if field.name not in NOT_A_CELL},
            **{name: getattr(arm.comparison, name, None) for name in ("ratio", "low", "high", "confidence", "verdict")},
        }
        for arm in analysis.arms
    ]
    return _csv(rows)


def phases_csv(analysis: Analysis) -> str:
    """Return one row an arm and phase: mean seconds a step on the host."""
    return _csv(
        [
            {"arm": arm.name, "phase": phase, "mean_s": mean_s}
            for arm in analysis.arms
            for phase, mean_s in arm.phases_s.items()
        ]
    )


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _shares(row: Mapping[str, Any]) -> str:
    return " ".join(f"{reason}={share:.1f}" for reason, share in row["held_pct"].items())


def ladder_csv(ladder: Ladder, arms: Sequence[ArmSummary]) -> str:
    """Return one row an arm: time ratios (below 1 is faster) against the row above and the first, with intervals.

    An arm without a run that counts has a row without numbers.
    """
    stream = io.StringIO()
    writer = csv.writer(stream)
    parts = ("ratio", "low", "high", "verdict")
    writer.writerow(["arm", *(f"{part}_vs_{which}" for which in ("previous", "first") for part in parts)])
    rungs = {rung.arm: rung for rung in ladder.rungs}
    for arm in arms:
        rung = rungs.get(arm.name, Rung(arm.name))
        writer.writerow(
            [arm.name, *(getattr(step, part, "") for step in (rung.previous, rung.first) for part in parts)]
        )
    return stream.getvalue()


def as_json(loaded: LoadedSweep) -> dict[str, Any]:
    """Return all numbers of the report, times in seconds, unrounded; None where there is none."""
    return {
        "format_version": FORMAT_VERSION,
        "interlace": __version__,
        "sweep_dir": str(loaded.sweep_dir.path.resolve()),
        "baseline": loaded.sweep.names[loaded.sweep.baseline],
        **asdict(loaded.analysis),
        "runs": [asdict(record) for record in loaded.records],
    }
