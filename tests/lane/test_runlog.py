"""Which of a run's streams its steps are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.lane.runlog import find_steps
from interlace.settings import MeasureConfig

if TYPE_CHECKING:
    from pathlib import Path


def test_a_bar_on_one_stream_never_goes_before_printed_times_on_the_other(tmp_path: Path) -> None:
    bars = "".join(f"\rtrain:  50%|#####     | {n}/100 [00:50<00:50,  1.00s/it]" for n in range(1, 100))
    (tmp_path / "stderr.log").write_text(bars)
    (tmp_path / "stdout.log").write_text("".join(f"step={n} step_s=0.5\n" for n in range(10, 100, 10)))

    found = find_steps(tmp_path, MeasureConfig())

    assert found.path == tmp_path / "stdout.log"
    assert found.log is not None
    assert (found.log.reader, len(found.log.frame)) == ("keyvalue", 9)


def test_a_bar_is_read_where_there_is_nothing_better(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("\rtrain:  50%|#####     | 5/10 [00:50<00:50,  1.00s/it]\n")
    (tmp_path / "stdout.log").write_text("loading\n")

    found = find_steps(tmp_path, MeasureConfig())

    assert found.log is not None
    assert (found.log.reader, found.log.kind) == ("tqdm", "smoothed")
