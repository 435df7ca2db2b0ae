"""What `interlace compare` prints for people: the same table and lines as a sweep, and how the logs were taken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.compare.summary import ArmSummary, summarise_arm
from interlace.report.console import stdout
from interlace.report.table import arms_table, further_lines, judgement_lines, ladder_table
from interlace.report.terminal import print_lines, rich_table

if TYPE_CHECKING:
    from interlace.compare.outcome import Outcome


def show(outcome: Outcome) -> None:
    """Print the table, a sentence a candidate and what it rests on, then the notes."""
    console = stdout()
    compared = outcome.compared.by_arm()
    rows = []
    for arm in outcome.arms:
        runs = outcome.summaries(arm)
        row = ArmSummary(arm, len(runs), len(runs), baseline=arm == outcome.arms[0], comparison=compared.get(arm))
        row = replace(
            summarise_arm(row, runs),
            samples_per_s=outcome.per_second(arm, outcome.samples),
            tokens_per_s=outcome.per_second(arm, outcome.tokens),
        )
        rows.append(row)
    console.print(rich_table(arms_table(rows), console.width))
    print_lines(console, judgement_lines(outcome.compared.candidates))
    if outcome.ladder is not None:
        console.print(rich_table(ladder_table(outcome.ladder, rows), console.width))
        print_lines(console, outcome.ladder.footer)
    print_lines(console, further_lines(outcome.compared.candidates, outcome.payback, ladder=outcome.ladder is not None))
    print_lines(console, how_taken(outcome))
    print_lines(console, [f"note: {note}" for note in outcome.notes], "dim")


def how_taken(outcome: Outcome) -> list[str]:
    """Say which order, which steps and which reader the numbers come from."""
    readers = sorted({run.log.reader for run in outcome.ordered.runs})
    return [
        f"order: {outcome.ordered.source} ({outcome.ordered.order.kind})",
        f"window: {outcome.window_why}",
        f"reader: {', '.join(readers)}",
    ]
