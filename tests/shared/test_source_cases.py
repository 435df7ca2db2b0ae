from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlace.source import parse_porcelain, parse_submodule_status, resolve_commit

CASES = Path(__file__).parents[2].parent / "shared" / "cases"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared folder with field cases is not here")


def case(name: str) -> tuple[Path, dict[str, Any]]:
    expected: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text())["expected"]
    return CASES / name, expected


def test_submodule_flags_are_told_apart() -> None:
    folder, expected = case("G05")

    found = parse_submodule_status((folder / "submodule_status.txt").read_text())

    assert list(found.ok) == expected["ok"]
    assert list(found.uninitialized) == expected["uninitialized"]
    assert list(found.out_of_sync) == expected["out_of_sync"]
    assert list(found.conflict) == expected["conflict"]
    assert not found.complete


def test_a_dirty_tree_is_read_with_whole_names() -> None:
    folder, expected = case("G07")

    found = parse_porcelain((folder / "porcelain.txt").read_text())

    assert list(found.tracked) == expected["tracked_changes"]
    assert list(found.untracked) == expected["untracked"]


def test_names_made_of_digits_are_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, expected = case("C02")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
    names = json.loads((folder / "shas.json").read_text())
    for args in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *args], cwd=tmp_path, check=True)
    for name in names:
        subprocess.run(["git", "branch", name], cwd=tmp_path, check=True)

    assert [resolve_commit(tmp_path, name).revision for name in names] == expected["tool_value"]
