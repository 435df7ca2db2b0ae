"""The only table of what keys of a log mean: counters, step times with their units, ranks, splits. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from interlace.steplog.numbers import UNITS, unit_named

if TYPE_CHECKING:
    from interlace.steplog.model import Unit

STEP_KEYS = (
    "global_step", "global_iter", "acc_iter", "trainer/global_step", "step", "steps", "step_num", "iteration",
    "iter", "iters", "it", "train_step", "current_steps", "_step",
)  # fmt: skip
"""Counters, the global ones first: a per-epoch counter starts again and again."""

RANK_KEYS = ("rank", "global_rank")
RANK_WORDS = "default|rank|train|trainer|worker"
"""What launchers write before a rank's number in brackets, in front of its lines; for regular expressions."""

END_KEYS = ("end_s", "t_s", "elapsed_s", "elapsed_time_s")
RUN_CLOCK_KEYS = ("_runtime",)
"""Clocks of a tracker: they run on through everything, so they count only where no step time is logged."""

COUNTED_WITH_CLOCK = ("batches", "samples")
"""Beside one of these a `time` is a cumulative clock (Lightning's ThroughputMonitor)."""

CLOCK_KEYS = ("timestamp", "_timestamp", "ts", "unix_s", "wall_time", "datetime", "date", "asctime", "time")
SPLIT_KEYS = ("mode", "split", "phase", "stage", "subset", "set", "loop", "job", "type", "event", "kind")
FLAG_KEYS = ("eval", "is_eval", "val", "is_val", "validation", "is_validation")
TRAIN_FLAG_KEYS = ("train", "is_train", "training", "is_training")
NOT_TRAINING = frozenset((
    *("val", "valid", "validate", "validating", "validation", "eval", "evaluate", "evaluating", "evaluation"),
    *("test", "testing", "dev", "predict", "predicting", "prediction", "infer", "inference", "sanity"),
))  # fmt: skip

_UNIT_WORD = rf"(?P<unit>{UNITS})"
_NAMED = re.compile(
    rf"(?:train_|elapsed_)?(?:end_to_end|(?:step|iter|iteration)(?:_(?:time|duration))?|batch_(?:time|duration)"
    rf"|time_per_(?:step|iter|iteration|it)|time/(?:step|iter|iteration|it))_{_UNIT_WORD}",
    re.IGNORECASE,
)
_PER = re.compile(rf"{_UNIT_WORD}(?:_per_|/)(?:step|iter|iteration|it)", re.IGNORECASE)
_BARE = re.compile(
    r"(?:train_|elapsed_)?(?:step|iter|iteration|batch)_(?:time|duration)"
    r"|(?:elapsed_)?time_per_(?:step|iter|iteration|it)|time/(?:step|iter|iteration|it)",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\s*[\(\[]\s*([^\)\]]+?)\s*[\)\]]$")
_COUNTED = re.compile(r"tps|tok|token|sample|smp|image|frame|flop|param|count|num|item|byte|mem", re.IGNORECASE)


class TimeKey(NamedTuple):
    """That a key states a step's time, and in which unit; None: its name does not say."""

    unit: Unit | None


def normal(name: str) -> str:
    """Return a key in one spelling: lower case, `_` for spaces and dashes, `(ms)` as `_ms`."""
    name = _BRACKETED.sub(r"_\1", name.strip().strip("\"'"))
    return re.sub(r"[\s\-]+", "_", name).lower()


def time_key(name: str) -> TimeKey | None:
    """Say whether a key is a step's time: `step_s`, `iter_time_ms`, `time per step`, `ms/step` ... else None.

    Times of parts (data, forward), of other things (time_to_first, eval) and rates are none.
    """
    plain = normal(name)
    if NOT_TRAINING & set(re.split(r"[/.]", plain)):
        return None
    for candidate in (plain, plain.rsplit("/", 1)[-1], plain.rsplit(".", 1)[-1]):
        for shape in (_NAMED, _PER):
            if match := shape.fullmatch(candidate):
                unit = unit_named(match["unit"])
                return TimeKey(unit) if unit else None
        if _BARE.fullmatch(candidate):
            return TimeKey(None)
    return None


@lru_cache(maxsize=4096)
def is_count(name: str) -> bool:
    """Whether a key counts or sums something, so that `1,234` under it means thousands."""
    return bool(_COUNTED.search(name)) or normal(name) in STEP_KEYS


def is_training(split: object) -> bool:
    """Whether a row marked with this split belongs to training: `val_unseen`, `eval step` do not."""
    return re.split(r"[\W_]", str(split).strip().lower())[0] not in NOT_TRAINING
