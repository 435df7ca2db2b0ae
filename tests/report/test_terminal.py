from __future__ import annotations

from typing import TYPE_CHECKING

from interlace.report.terminal import TerminalObserver
from interlace.schema import Run

if TYPE_CHECKING:
    import pytest


def test_waiting_that_has_just_begun_is_told_without_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    observer = TerminalObserver({"a": "a"}, 1, 1)
    for waited_s in (0.0, 61.0):
        observer.run_starts(Run(0, 1, "a"), 1, 1, None)
        observer.waiting(["others use GPU 0"], waited_s)

    first, later = (line for line in capsys.readouterr().err.splitlines() if "waiting" in line)
    assert first.endswith("waiting for an empty node: others use GPU 0")
    assert later.endswith("waiting for an empty node for 1:01: others use GPU 0")
