"""The report as files: report.md, report.json and tables/*.csv in the sweep's folder."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from interlace import __version__
from interlace.files import write_json, write_text
from interlace.report.table import Table, arms_table, further_lines, headline, judgement_lines, ladder_table
from interlace.schema import FORMAT_VERSION

if TYPE_CHECKING:
    from interlace.load import LoadedSweep


def write_report(loaded: LoadedSweep) -> None:
    """Write every form of the report. Each file is complete or absent."""
    analysis, path = loaded.analysis, loaded.sweep_dir.path
    write_text(path / "report.md", markdown(loaded))
    write_json(path / "report.json", as_json(loaded))
    write_text(path / "tables" / "arms.csv", as_csv(arms_table(analysis.arms)))
    if analysis.ladder is not None:
        write_text(path / "tables" / "ladder.csv", as_csv(ladder_table(analysis.ladder, analysis.arms)))
    write_text(path / "tables" / "runs.csv", loaded.runs.to_csv(index=False))


def markdown(loaded: LoadedSweep) -> str:
    """Return the report as Markdown, ready for a pull request."""
    analysis = loaded.analysis
    lines = [f"## {headline(analysis)}", "", *_pipe_table(arms_table(analysis.arms)), ""]
    lines += [f"- {line}".replace("-   ", "  - ") for line in judgement_lines(analysis.comparisons)]
    lines += [f"- {line}" for line in further_lines(analysis)]
    if analysis.ladder is not None:
        lines += ["", "### Commit by commit", "", *_pipe_table(ladder_table(analysis.ladder, analysis.arms)), ""]
        lines += [f"- in all: {analysis.ladder.total}", *(f"- {note}" for note in analysis.ladder.notes)]
    if analysis.troubles:
        lines += ["", "### Runs that are not ok", ""]
        lines += [f"- {one.run} (attempt {one.attempt}), {one.status}: {one.message}" for one in analysis.troubles]
    if analysis.notes:
        lines += ["", "### Notes", "", *(f"- {note}" for note in analysis.notes)]
    lines += ["", "### How it was measured", "", *_how(loaded)]
    return "\n".join(lines) + "\n"


def _how(loaded: LoadedSweep) -> list[str]:
    config, plan = loaded.sweep.config, loaded.plan
    count = config.ranks.nproc_per_node
    ranks = f"{count} rank{'s' * (count != 1)} under {config.ranks.kind}"
    order = " ".join(run.arm for run in plan.runs if run.round == 1)
    return [
        (
            f"- {ranks}, workload {config.workload.name}; one run at a time, {plan.order} order, seed {plan.seed}: "
            f"round 1 was {order}"
        ),
        (
            f"- {'one discarded burn-in run, then ' if config.burn_in else ''}{config.rounds} rounds; "
            f"verdicts from the trimmed mean of {config.stats.block}-step blocks, tables show medians"
        ),
        f"- Interlace {__version__}; every run's command, environment, log and record are under `runs/`",
    ]


def _pipe_table(table: Table) -> list[str]:
    rule = ["---:" if index in table.numeric else "---" for index in range(len(table.header))]
    rows = [
        table.header,
        tuple(rule),
        *(tuple(cell.replace("|", "\\|") for cell in row) for row in table.rows),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def as_csv(table: Table) -> str:
    """Return a table as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return stream.getvalue()


def as_json(loaded: LoadedSweep) -> dict[str, Any]:
    """Return all numbers of the report, times in seconds, unrounded; None where there is none."""
    return {
        "format_version": FORMAT_VERSION,
        "interlace": __version__,
        "sweep_dir": str(loaded.sweep_dir.path.resolve()),
        "baseline": loaded.sweep.baseline,
        **asdict(loaded.analysis),
        "runs": [asdict(record) for record in loaded.records],
    }
