from __future__ import annotations

import fcntl
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlace.errors import ReadError, UsageError
from interlace.files import (
    SweepDir,
    is_locked,
    locked,
    make_sweep_dir,
    open_sweep_dir,
    read_json,
    write_json,
    write_text,
)
from interlace.schema import Plan

pytestmark = pytest.mark.costly

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_sweeps_started_in_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    taken = tmp_path / "name" / "2026-01-02_03-04-05"
    taken.mkdir(parents=True)
    (taken / "plan.json").write_text("untouched")

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_sweep_dir(tmp_path, "name", NOW).path, range(8)))

    assert len({*made, taken}) == 9
    assert (taken / "plan.json").read_text() == "untouched"


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"cannot create a folder under .*file.*set output_dir"):
        make_sweep_dir(tmp_path / "file", "name", NOW)


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    seen_before_the_rename = []

    def interrupted(_self: Path, _target: Path) -> None:
        seen_before_the_rename.append(read_json(path, dict))
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"x": 2})

    assert seen_before_the_rename == [{"x": 1}]
    assert read_json(path, dict) == {"x": 1}
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": math.nan, "y": math.inf})

    assert read_json(tmp_path / "a.json", dict) == {"x": None, "y": None}


def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    write_text(tmp_path / "plan.json", '{"order": "mirrored", ')

    with pytest.raises(ReadError, match=r"plan\.json cannot be read as Plan"):
        read_json(tmp_path / "plan.json", Plan)


def test_a_folder_that_is_no_sweep_suggests_the_newest_one_inside(tmp_path: Path) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        write_text(tmp_path / day / "plan.json", "{}")

    with pytest.raises(UsageError, match=r"did you mean .*2026-01-02"):
        open_sweep_dir(tmp_path)


def test_looking_whether_a_sweep_is_measured_neither_disturbs_nor_writes(tmp_path: Path) -> None:
    assert not is_locked(SweepDir(tmp_path))
    assert list(tmp_path.iterdir()) == []
    with locked(SweepDir(tmp_path)):
        assert is_locked(SweepDir(tmp_path))
    with (tmp_path / ".lock").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        threading.Timer(0.2, lambda: fcntl.flock(stream, fcntl.LOCK_UN)).start()
        with locked(SweepDir(tmp_path)):
            pass


def test_a_sweep_is_measured_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        locked(SweepDir(tmp_path)),
        pytest.raises(UsageError, match="interlace status"),
        locked(SweepDir(tmp_path)),
    ):
        pass
