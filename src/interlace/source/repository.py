"""The only place that decides whether a folder is a usable git repository, and says why when it is not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlace.errors import SourceError
from interlace.source.git import GitResult, run_git


@dataclass(frozen=True)
class Repository:
    """A repository as git sees it; all paths absolute, links resolved.

    `top` is the work tree (the repository itself when bare), `git_dir` belongs to this work tree,
    `common_dir` is shared by all worktrees of the repository.
    """

    top: Path
    git_dir: Path
    common_dir: Path
    bare: bool

    @property
    def name(self) -> str:
        """What people call it: the folder's name, without `.git`."""
        hidden = self.common_dir.name.startswith(".")
        return self.common_dir.parent.name if hidden else self.common_dir.name.removesuffix(".git")


def open_repository(path: Path) -> Repository:
    """Return the repository whose work tree is `path` (or the bare one that is `path`).

    git is asked, nothing is guessed from a `.git` folder: in a worktree and in a submodule it is a file.
    Raises `SourceError` for anything else, with what to do.
    """
    folder = _folder(path)
    asked = run_git(folder, "rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--git-dir", "--git-common-dir")
    if not asked.ok:
        raise SourceError(_refusal(folder, asked))
    bare, inside_git_dir, git_dir, common_dir = asked.stdout.split("\n")[:4]
    git_path, common_path = ((folder / found).resolve() for found in (git_dir, common_dir))
    if bare == "true":
        return Repository(common_path, git_path, common_path, bare=True)
    if inside_git_dir == "true":
        raise SourceError(f"source.repo={path} is the inside of a repository; give the folder that holds it")
    return Repository(_top(folder), git_path, common_path, bare=False)


def _folder(path: Path) -> Path:
    folder = path.expanduser().resolve()
    if not folder.exists():
        raise SourceError(f"source.repo={path}: there is no such folder ({folder}); give the repository's path")
    if not folder.is_dir():
        raise SourceError(f"source.repo={path} is a file; give the folder of the repository")
    return folder


def _top(folder: Path) -> Path:
    """Return the work tree, which must be the folder itself.

    A folder inside it could be a submodule that was never initialised: git would then quietly answer
    for the repository around it.
    """
    asked = run_git(folder, "rev-parse", "--show-toplevel")
    if not asked.ok:
        raise SourceError(f"source.repo={folder} has no work tree: {asked.reason}")
    top = Path(asked.stdout.removesuffix("\n")).resolve()
    if top != folder:
        raise SourceError(
            f"source.repo={folder} is a folder inside the repository {top}, not a repository; "
            f"give source.repo={top} (or initialise it, if it is a submodule)"
        )
    return top


def _refusal(folder: Path, asked: GitResult) -> str:
    where = f"source.repo={folder}"
    text = asked.stderr
    if "dubious ownership" in text or "is owned by someone else" in text:
        return (
            f"{where} belongs to another user and git will not read it; if you trust it: "
            f"git config --global --add safe.directory '{folder}'"
        )
    if "safe.bareRepository" in text or "cannot use bare repository" in text:
        return f"{where} is a bare repository, which your git setting safe.bareRepository forbids; give a clone"
    if "not a git repository" in text and (folder / ".git").is_file():
        return (
            f"{where}: its .git file points to a repository that is not there ({asked.reason}); "
            "if it was moved, run `git worktree repair` in the main repository"
        )
    if "not a git repository" in text:
        return f"{where} is not a git repository; give the folder of a clone, or `git init` and commit there"
    return f"{where} cannot be read by git: {asked.reason}"
