from __future__ import annotations

import os
import sys
import venv
from typing import TYPE_CHECKING

import pytest

from interlace.errors import SourceError
from interlace.source import prove_import, pythonpath

if TYPE_CHECKING:
    from pathlib import Path


FILES = (
    "src/pkg/__init__.py",
    "src/pkg/train.py",
    "flat/__init__.py",
    "one.py",
    "src/space/part/__init__.py",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree with a src layout, a flat package, a module, and a namespace package."""
    for name in FILES:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path / "tree"


def prove(tree: Path, module: str, entries: list[str], **env: str) -> str:
    path = pythonpath(tree, entries, env.pop("PYTHONPATH", None))
    return prove_import(sys.executable, module, tree, {**os.environ, "PYTHONPATH": path, **env}, tree)


def refused(tree: Path, module: str, entries: list[str], **env: str) -> str:
    with pytest.raises(SourceError) as caught:
        prove(tree, module, entries, **env)
    return str(caught.value)


@pytest.mark.parametrize(
    ("module", "entries", "file"),
    [
        ("pkg", ["src"], "src/pkg/__init__.py"),
        ("pkg.train", ["src"], "src/pkg/train.py"),
        ("flat", ["."], "flat/__init__.py"),
        ("one", [".", "src"], "one.py"),
        ("space", ["src"], "src/space"),
        ("space.part", ["src"], "src/space/part/__init__.py"),
    ],
)
def test_a_module_of_the_worktree_is_proved(tree: Path, module: str, entries: list[str], file: str) -> None:
    assert prove(tree, module, entries) == str(tree / file)


def test_the_module_itself_is_not_executed(tree: Path) -> None:
    (tree / "one.py").write_text("raise SystemExit(7)")

    assert prove(tree, "one", ["."]) == str(tree / "one.py")


def test_what_a_parent_package_prints_does_not_disturb(tree: Path) -> None:
    (tree / "src/pkg/__init__.py").write_text("print('hello', end='')")

    assert prove(tree, "pkg.train", ["src"]) == str(tree / "src/pkg/train.py")


def test_an_editable_install_that_shadows_the_commit_is_named_with_what_to_do(tree: Path, tmp_path: Path) -> None:
    installed = tmp_path / "checkout/src/pkg/__init__.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")

    message = refused(tree, "pkg", ["."], PYTHONPATH=str(tmp_path / "checkout/src"))

    assert f"source.module=pkg is imported from {installed}, not from the worktree {tree}" in message
    assert "set source.pythonpath=[src] or uninstall it" in message


def test_an_editable_install_in_a_real_environment_is_found_out(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "checkout/src/pkg").mkdir(parents=True)
    (tmp_path / "checkout/src/pkg/__init__.py").write_text("")
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    (packages / "__editable__.pkg.pth").write_text(f"{tmp_path / 'checkout/src'}\n")
    python = str(tmp_path / "venv/bin/python")

    with pytest.raises(SourceError, match=r"pkg is imported from .*/checkout/src/pkg/__init__\.py, not from"):
        prove_import(python, "pkg", tree, {"PYTHONPATH": str(tree)}, tree)
    assert prove_import(python, "pkg", tree, {"PYTHONPATH": str(tree / "src")}, tree) == (
        str(tree / "src/pkg/__init__.py")
    )


def test_the_entry_of_the_worktree_wins_over_an_editable_install(tree: Path, tmp_path: Path) -> None:
    installed = tmp_path / "checkout/src/pkg/__init__.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")

    found = prove(tree, "pkg", ["src"], PYTHONPATH=str(tmp_path / "checkout/src"))

    assert found == str(tree / "src/pkg/__init__.py")


def test_the_working_folder_alone_proves_nothing(tree: Path) -> None:
    assert "source.module=one is not found" in refused(tree, "one", ["src"])


def test_a_module_that_is_in_the_worktree_but_not_on_the_path_gets_the_entry(tree: Path) -> None:
    assert refused(tree, "pkg.train", ["."]).endswith("set source.pythonpath=[src]")


def test_a_module_that_the_commit_does_not_have_is_said(tree: Path) -> None:
    message = refused(tree, "nowhere", ["."])

    assert f"source.module=nowhere is not in the worktree {tree}" in message


def test_an_installed_module_that_the_commit_does_not_have_is_said(tree: Path) -> None:
    message = refused(tree, "json", ["."])

    assert f"source.module=json is not in the worktree {tree}; {sys.executable} has " in message


def test_a_built_in_module_is_not_the_commits(tree: Path) -> None:
    assert "source.module=sys is not in the worktree" in refused(tree, "sys", ["."])


def test_a_parent_package_that_fails_shows_its_error(tree: Path) -> None:
    (tree / "src/pkg/__init__.py").write_text("raise RuntimeError('no CUDA here')")

    assert "RuntimeError: no CUDA here" in refused(tree, "pkg.train", ["src"])


def test_a_dependency_that_a_parent_package_lacks_is_named(tree: Path) -> None:
    (tree / "src/pkg/__init__.py").write_text("import a_dependency_that_is_missing")

    assert "No module named 'a_dependency_that_is_missing'" in refused(tree, "pkg.train", ["src"])


@pytest.mark.parametrize("module", ["train.py/x", "pkg-name", "", ".pkg", "a b", "--version"])
def test_what_is_no_module_name_is_refused(tree: Path, module: str) -> None:
    assert "is not a module name" in refused(tree, module, ["."])


def test_a_python_that_is_missing_is_said(tree: Path) -> None:
    with pytest.raises(SourceError, match=r"workload\.python=no-such-python cannot be started"):
        prove_import("no-such-python", "one", tree, dict(os.environ), tree)


def test_a_folder_to_run_in_that_is_missing_is_said(tree: Path) -> None:
    with pytest.raises(SourceError, match=r"mend workload\.cwd"):
        prove_import(sys.executable, "one", tree, dict(os.environ), tree / "nowhere")


def test_a_python_that_cannot_start_shows_why(tree: Path) -> None:
    with pytest.raises(SourceError, match="exit code 1"):
        prove_import("/bin/false", "one", tree, dict(os.environ), tree)


def test_a_worktree_behind_a_link_is_the_same_worktree(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)

    assert prove(tmp_path / "link", "one", ["."]) == str(tmp_path / "link/one.py")


def test_a_link_that_leads_out_of_the_worktree_is_not_the_commit(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("")
    (tree / "outside.py").symlink_to(tmp_path / "outside.py")

    assert "is imported from" in refused(tree, "outside", ["."])


def test_the_proof_leaves_no_byte_code(tree: Path) -> None:
    prove(tree, "pkg.train", ["src"])

    assert not list(tree.rglob("__pycache__"))


# ---------------------------------------------------------------- PYTHONPATH


def test_entries_come_before_what_was_inherited(tmp_path: Path) -> None:
    assert pythonpath(tmp_path, [".", "src"], "/inherited:/more") == f"{tmp_path}:{tmp_path}/src:/inherited:/more"


@pytest.mark.parametrize("inherited", [None, "", ":", "::"])
def test_empty_parts_which_mean_the_working_folder_are_dropped(tmp_path: Path, inherited: str | None) -> None:
    assert pythonpath(tmp_path, ["src"], inherited) == f"{tmp_path}/src"
    assert pythonpath(tmp_path, [], inherited) == ""


def test_an_absolute_entry_stays_as_it_is(tmp_path: Path) -> None:
    assert pythonpath(tmp_path, ["/opt/deps"], None) == "/opt/deps"


@pytest.mark.parametrize("entry", ["..", "../other", "src/../../other"])
def test_an_entry_that_leads_out_of_the_worktree_is_refused(tmp_path: Path, entry: str) -> None:
    with pytest.raises(SourceError, match="leads out of the worktree"):
        pythonpath(tmp_path, [entry], None)


def test_an_entry_with_a_separator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="make it a list"):
        pythonpath(tmp_path, ["src:lib"], None)
