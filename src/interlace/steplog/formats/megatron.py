"""Reader `megatron`: the training log of Megatron-LM, Megatron-DeepSpeed and their kin.

Clock: the `interval-time` timer of the rank that prints (the last one), which waits for its device; in newer
versions all ranks meet at a barrier first, so that it is the slowest rank's time.
Includes: everything between two log lines but evaluation and checkpoints, data loading too.
Ranks: the printing rank alone, its own time.
Resolution: 0.1 ms, of a mean over log_interval steps (10 ms where it is printed in seconds).
Lost: single steps, single ranks.
"""

from __future__ import annotations

import re

from interlace.steplog.lines import NUM, LineFormat, LineReader

READER = LineReader(
    LineFormat(
        name="megatron",
        doc=__doc__,
        hint="iteration (",
        begins=re.compile(r"iteration\s+\d+/\s*\d+\s*\|"),
        record=re.compile(
            r"iteration\s+(?P<step>\d+)/\s*(?P<total>\d+)\s*\|(?:[^|]*\|)*?"
            rf"\s*elapsed time (?:per|this) iteration \((?P<unit>ms|s)\):?\s*(?P<step_s>{NUM})\s*\|",
            re.IGNORECASE,
        ),
        pairs=re.compile(
            rf"\|\s*(?!elapsed |avg |average )(?P<key>[A-Za-z][\w /()-]*?):?\s+(?P<number>{NUM})\s*(?=\|)"
        ),
        kind="mean",
        header={"world_size": re.compile(r"using world size: (\d+)")},
        rest=re.compile(r"elapsed time (?:per|this) iteration \("),
    )
)
