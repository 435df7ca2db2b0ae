"""Reader `llm_c`: llm.c's `step   10/1000 | loss ... | norm ... | lr ... | 123.45 ms | 50.1% bf16 MFU | 12345 tok/s`.

Clock: CUDA events of rank 0 around the step, waited for at its end (train_gpt2.py: time.time(), the device waited for).
Includes: data loading, forward, backward, all-reduce, optimizer of all micro-batches; not validation, sampling or
checkpoints. tok/s is a running average and not used.
Ranks: rank 0 alone.
Resolution: 10 us, of single steps.
Lost: the other ranks.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="llm_c",
        doc=__doc__,
        hint=" tok/s",
        begins=re.compile(r"step\s+\d+/\d+ \| (?:train )?loss "),
        record=re.compile(
            rf"step\s+(?P<step>\d+)/\d+ \| (?:train )?loss (?P<loss>{NUM})[^|]*\| norm (?P<norm>{NUM})[^|]*"
            rf"\| lr (?P<lr>{NUM}) \| \(?(?P<step_ms>{NUM}) ms \|(?: (?P<mfu_pct>{NUM})% \w+ MFU \|)?"
            rf" (?P<tokens_per_s>\d+) tok/s",
            re.IGNORECASE,
        ),
        kind="single",
        header={"world_size": re.compile(r"\| num_processes +\| (\d+) ")},
        rest=re.compile(r" ms \| .*tok/s"),
    )
)
