"""A log in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from interlace.steplog import StepLog, read

if TYPE_CHECKING:
    from pathlib import Path


class ReadText(Protocol):
    def __call__(self, text: str | bytes, **options: str) -> StepLog: ...


@pytest.fixture
def read_text(tmp_path: Path) -> ReadText:
    """Write a text to train.log and read it."""

    def reading(text: str | bytes, **options: str) -> StepLog:
        path = tmp_path / "train.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path, **options)  # type: ignore[arg-type]

    return reading
