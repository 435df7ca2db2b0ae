"""The only list of things that are recognised and hold no step times, each with what to do instead. Pure.

What the user meets in an error is worth a sentence: that the file was understood, and where the times are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from interlace.steplog import checksums

if TYPE_CHECKING:
    from pathlib import Path

LOOKED_AT_CHARS = 2000
"""Of a line; the patterns search it from each of its words on."""

_TEXTS = (
    (
        re.compile(r"step: *\d+ .*\btps: [\d,]+"),
        (
            "A torchtitan log states tokens a second, and neither dates nor what a step's tokens are (`Trainer is"
            " initialized with local batch size ...`): keep its whole output."
        ),
    ),
    (
        re.compile(r"Step \d+ \| .*tokens_per_second_per_gpu:"),
        (
            "torchtune's log file states tokens a second, and not the tokens of a step; the bar on its error stream is"
            " read (reader=tqdm), or log a step's time beside it."
        ),
    ),
    (
        re.compile(r"step:\S+\(\d+\) smpl:\S+\(\d+\)"),
        "An OpenTau training log states no step time; its profile_step prints them (reader=opentau).",
    ),
    (
        re.compile(r"\[rank \d+/\d+\] fetch=mean="),
        "OpenTau's profile_dataloader measures fetching alone; its profile_step measures steps.",
    ),
    (
        re.compile(r'"samples_ms": \['),
        "OpenTau's benchmark_inference measures single inferences, not training steps.",
    ),
    (
        re.compile(r'"baseline_steps_per_second"'),
        "fairchem's TrainingBenchmarkRunner reports one mean for each of two runs; read their logs apart.",
    ),
    (
        re.compile(r"components\.benchmark\.training:"),
        "fairchem's TrainingBenchmarkRunner writes two runs into one log; run the two configurations apart.",
    ),
    (
        re.compile(r"\[[\d:]+<[\d:?]+, *[\d.,]+[kM]? ?(?:img|imgs|image|images|sample|samples|seq|seqs|ex|examples)/s"),
        "A progress bar that counts samples has no step times, and no one says here how many make a step.",
    ),
    (
        re.compile(r"CurrSamplesPerSec="),
        "DeepSpeed's throughput lines need `train_batch_size ... N` of its start-up output; keep the whole output.",
    ),
    (
        re.compile(r"'train/samples_per_second\(approx\)':"),
        (
            "fairchem's step lines need its `Running in local mode with N ranks` or its configuration line above them;"
            " keep the whole output, or read benchmark_results.pkl."
        ),
    ),
    (
        re.compile(r"\{'loss': .*'(?:learning_rate|epoch)': "),
        (
            "A Hugging Face Trainer prints losses; its times are in the progress bar and in the summary at the end"
            " ('train_runtime'): keep stderr as well."
        ),
    ),
    (
        re.compile(r'"log_history": \['),
        "A Trainer's trainer_state.json has no step times; read the log of the run.",
    ),
    (
        re.compile(r"\A\s*epoch,(?:.*,)?step(?:,|$)|\A\s*(?:.*,)?epoch,step(?:,|$)", re.MULTILINE),
        "A Lightning metrics.csv has step times only where the module or a ThroughputMonitor logs them.",
    ),
    (
        re.compile(r"\A\s*[\[{]\s*\n"),
        "A JSON document over many lines is not read: write one object a line (as `jq -c '.[]'` does).",
    ),
)


def text(head: str) -> str | None:
    """Return what is known of a text without step times, None where it is nothing known."""
    begins = "\n".join(line[:LOOKED_AT_CHARS] for line in head.split("\n"))
    return next((sentence for pattern, sentence in _TEXTS if pattern.search(begins)), None)


def folder(path: Path) -> str | None:
    """Return what is known of a folder without step times, None where it is nothing known."""
    if (path / "started.json").is_file():
        return _of_a_run(path)
    if not checksums.is_folder(path):
        return None
    return (
        f"checksum files of fairchem ({checksums.GLOB}: losses, and means of parameters and gradients by rank and step)"
        " are for comparing results; they hold no times. `interlace steps` shows them; never measure with"
        " debug_checksums_save_path, which adds host syncs"
    )


def _of_a_run(path: Path) -> str:
    """Name what the run of a sweep may have written its steps to, as the sweep looks for them."""
    recorder = [path / "steps"] if any((path / "steps").glob("rank-*.jsonl")) else []
    logs = [log for where in ("log-*", "stdout.log", "stderr.log", "nodes/*/std*.log") for log in path.glob(where)]
    named = [*recorder, *(log for log in logs if log.stat().st_size)]
    return f"it is the folder of a run; name the log in it: {' or '.join(map(str, named)) or 'none, it wrote nothing'}"
