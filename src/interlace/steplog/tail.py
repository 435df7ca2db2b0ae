"""The only reader of logs that still grow: the newest step, from new bytes only. No pandas, little memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from interlace.steplog import interlace_log, registry
from interlace.steplog.model import Options, Unit
from interlace.steplog.text import CHUNK_BYTES, Splitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


SEARCHED_CHARS = 1 << 18


class Tail:
    """Follows a log file, or a folder of recorder logs, and says how many steps it has seen.

    `steps()` is cheap: it reads what was written since the last call. The file need not exist yet. With
    reader="auto" the format is recognised as soon as the first record is there.
    """

    def __init__(self, path: str | Path, reader: str = "auto", pattern: str | None = None, unit: Unit = "s") -> None:
        self._path = Path(path)
        self._options = Options(pattern, unit, named=reader != "auto")
        self._reader = "pattern" if pattern is not None else reader
        if self._reader != "auto":
            registry.reader_named(self._reader).counter(self._options)  # a wrong argument fails here and now
        self._files: dict[Path, _File] = {}

    @property
    def reader(self) -> str | None:
        """Name of the reader in use; None while the format is not recognised."""
        return next((file.reader for file in self._files.values() if file.reader), None)

    @property
    def ended(self) -> bool:
        """Whether every file has said that training is over, in a format that says so (`end_marker` of its reader)."""
        return bool(self._files) and all(file.ended for file in self._files.values())

    def steps(self) -> int:
        """Return the largest step number seen so far, over all ranks; the number of records if unnumbered."""
        folder = self._path.is_dir()
        paths = sorted(self._path.glob(interlace_log.FILES)) if folder else [self._path]
        for path in paths:
            if path not in self._files:
                self._files[path] = _File(path, "interlace" if folder else self._reader, self._options)
            self._files[path].follow()
        return max((file.steps for file in self._files.values()), default=0)


class _File:
    """One file: how far it is read, and what was in it."""

    def __init__(self, path: Path, reader: str, options: Options) -> None:
        self.steps = 0
        self.ended = False
        self.reader: str | None = None
        self._marker: str | None = None
        self._path = path
        self._options = options
        self._offset = 0
        self._splitter = Splitter()
        self._count: Callable[[str], Iterable[tuple[int, int | None]]] | None = None
        self._unnumbered: dict[int, int] = {}
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._top = True
        self._asked = reader
        if reader != "auto":
            self._use(reader)

    def follow(self) -> None:
        """Read the bytes that are new."""
        if not self._path.is_file():  # not there yet; and a pipe would be waited for
            return
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:  # rotated or truncated: begin again
                    self._offset, self._splitter = 0, Splitter()
                file.seek(self._offset)
                while data := file.read(CHUNK_BYTES):
                    self._offset += len(data)
                    self._take([record.text for record in self._splitter.feed(data)])
        except (FileNotFoundError, IsADirectoryError):
            return

    def _take(self, texts: list[str]) -> None:
        if self._count is None:
            texts = self._recognised(texts)
        elif self.reader in {reader.name for reader in registry.BARS} and self._asked == "auto":
            self._better(texts)
        if self._count is not None:
            for text in texts:
                self.ended = self.ended or (self._marker is not None and self._marker in text)
                for rank, step in self._count(text):
                    self._see(rank, step)

    def _see(self, rank: int, step: int | None) -> None:
        if step is None:
            step = self._unnumbered[rank] = self._unnumbered.get(rank, self.steps if rank < 0 else 0) + 1
        elif rank in self._unnumbered:
            self._unnumbered[rank] = step
        self.steps = max(self.steps, step)

    def _recognised(self, texts: list[str]) -> list[str]:
        """Try to recognise the format; returns what may now be counted, forgets what is too old."""
        if not texts:
            return []
        self._waiting += texts
        self._waiting_chars += sum(map(len, texts))
        # At the top of a file a format may need its first lines; further down one record is enough.
        found = registry.recognised("\n".join(self._waiting if self._top else texts), self._options, top=self._top)
        if found:
            self._use(found[0].name)
        elif self._waiting_chars <= SEARCHED_CHARS:
            return []
        self._top = False
        texts, self._waiting, self._waiting_chars = self._waiting, [], 0
        return texts

    def _better(self, texts: list[str]) -> None:
        """Leave a progress bar for a format with printed times as soon as one shows."""
        found = registry.recognised("\n".join(texts), self._options, top=False, bars=False)
        if found:
            self._use(found[0].name)
            self.steps = 0

    def _use(self, reader: str) -> None:
        self.reader = reader
        found = registry.reader_named(reader)
        self._count = found.counter(self._options)
        self._marker = getattr(found, "end_marker", None)  # few formats have one, and other packages need not
