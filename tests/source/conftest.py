from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Repo:
    """A real repository in tmp_path."""

    path: Path

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def commit(self, message: str, files: dict[str, str]) -> str:
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def at(self, path: Path) -> Repo:
        """Another folder, as a repository."""
        return Repo(path)

    def new(self, name: str) -> Repo:
        """A new repository beside this one."""
        other = Repo(self.path.parent / name)
        other.path.mkdir()
        other.git("init", "--quiet", "--initial-branch=main")
        return other

    def digest(self) -> dict[str, str]:
        """Every file and link, `.git` included, with a hash of its content and its modification time."""
        paths = sorted(self.path.rglob("*"))
        return {str(path.relative_to(self.path)): _digest_of(path) for path in paths}

    def add_submodule(self, other: Repo, path: str) -> None:
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.path), path)


def _digest_of(path: Path) -> str:
    if path.is_symlink():
        return str(path.readlink())
    if path.is_file():
        return f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
    return "folder"


@pytest.fixture(autouse=True)
def _own_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2024-05-01T12:00:00+00:00")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "first").new("repo")


@pytest.fixture
def other(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "first").new("other")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
