"""Reader `fairchem_results`: benchmark_results.pkl of fairchem's BenchmarkTrainCallback.

Clock: time.perf_counter of one rank around train_step; the device is waited for by what the step itself reads.
Includes: forward, backward, optimizer. Not data loading, which comes before the clock starts: these times are
smaller than those of the step lines (reader `fairchem`) and not to be compared with them.
Ranks: one, and it is not said which: all ranks write the same file, the last one wins.
Resolution: that of a float.
Lost: the other ranks. The file is written after the final evaluation, a run that fails there leaves none.

Step 0 of fairchem is step 0 here. The pickle is read as plain data only (see `steplog.plain_pickle`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.errors import ReadError
from interlace.steplog.facts import facts_in
from interlace.steplog.model import FileReader, Options, Parsed, Remarks, Row
from interlace.steplog.plain_pickle import load_plain

if TYPE_CHECKING:
    from pathlib import Path

FACTS = facts_in(__doc__)

_MAGIC = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_SERIES = {"losses": "loss", "grad_norms": "grad_norm"}


class FairchemResultsReader(FileReader):
    """The reader of one file."""

    name = "fairchem_results"
    facts = FACTS

    def recognise_path(self, path: Path, head: bytes) -> str | None:
        """Recognise a pickle that names `step_times`."""
        del path
        if head.startswith(_MAGIC) and b"step_times" in head[:65536] + head[-65536:]:
            return "a pickle with `step_times`, as BenchmarkTrainCallback writes it"
        return None

    def read_path(self, path: Path, options: Options) -> Parsed:
        """Read the lists; Raises ReadError for a pickle that is anything but plain data."""
        del options
        content = load_plain(path)
        times = content.get("step_times") if isinstance(content, dict) else None
        if not isinstance(times, list):
            raise ReadError(f"{path}: `step_times` is no list in this pickle; is it fairchem's benchmark_results.pkl?")
        remarks = Remarks()
        series = {column: content.get(key) for key, column in _SERIES.items()}
        memory = _number(content.get("peak_memory_mb"))
        rows = []
        for n, time in enumerate(times):
            step_s = _number(time)
            if step_s is None:
                remarks.error("not_a_number", n, repr(time), f"step_times[{n}] is no number")
                continue
            columns = {name: _number(values[n]) for name, values in series.items() if _has(values, n)}
            columns["peak_memory_mib"] = memory or None  # 0.0 where there is no CUDA
            rows.append(Row(n, step_s, extra={k: v for k, v in columns.items() if v is not None} or None, line=n))
        remarks.note("rank_unknown", "the times are one rank's, the last that wrote the file; which, it does not say")
        return Parsed(rows, remarks, ended=True, kind="single")


def _has(values: object, n: int) -> bool:
    return isinstance(values, list) and n < len(values)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


READER = FairchemResultsReader()
