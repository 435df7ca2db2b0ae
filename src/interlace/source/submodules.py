"""The only place that fills a worktree's submodules: from the user's own copies where these have the commit.

`git submodule init` in a linked worktree writes to the `.git/config` that all worktrees share, so every
setting it would write is passed on the command line instead, and each level is filled by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from interlace.errors import SourceError
from interlace.source.git import CHECKOUT_TIMEOUT_S, git_text, run_git

_STATUS = re.compile(r"([ +\-U])([0-9a-f]{40,64}) (.+)")
_DESCRIBED = re.compile(r"(.+) \(\S+\)")
_LINK_MODE = "160000"


@dataclass(frozen=True)
class Submodules:
    """Paths of submodules by state, as `git submodule status` flags them."""

    ok: tuple[str, ...] = ()
    uninitialized: tuple[str, ...] = ()
    out_of_sync: tuple[str, ...] = ()
    conflict: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every submodule is at the commit that the code around it asks for."""
        return not (self.uninitialized or self.out_of_sync or self.conflict)


@dataclass(frozen=True)
class Level:
    """One (sub)module whose own submodules are to be filled.

    `tree` is its checkout; `git_dirs` are the user's repositories that may hold copies under `modules/`;
    `url` is what relative submodule addresses are relative to; `user_tree` is the user's checkout, if any;
    `worktree` is the one that it all lies in.
    """

    worktree: Path
    tree: Path
    git_dirs: tuple[Path, ...]
    url: str
    user_tree: Path | None = None


@dataclass(frozen=True)
class _Link:
    """One submodule as `.gitmodules` and the commit have it."""

    name: str
    path: str
    sha: str
    url: str
    update: str


def parse_submodule_status(text: str) -> Submodules:
    """Read `git submodule status` (format of git-submodule(1)). Never strip the text: column one is the flag.

    Raises `SourceError` for a line that is none of it.
    """
    found: dict[str, list[str]] = {" ": [], "-": [], "+": [], "U": []}
    for line in text.split("\n"):
        if not line.strip():
            continue
        match = _STATUS.fullmatch(line)
        if not match:
            raise SourceError(f"not a line of `git submodule status`: {line!r} (was its first column cut off?)")
        flag, _, rest = match.groups()
        # Only these two flags are followed by a description in parentheses; a path may hold some of its own.
        described = _DESCRIBED.fullmatch(rest) if flag in " +" else None
        found[flag].append(described[1] if described else rest)
    return Submodules(*(tuple(found[flag]) for flag in " -+U"))


def fill_submodules(level: Level) -> tuple[Path, ...]:
    """Check out all submodules below a tree, all levels down; returns every tree that was filled.

    A submodule that the user switched off (`active = false`, `update = none`) stays empty, as in the
    user's own tree. Raises `SourceError` naming the one that cannot be had, and what to run.
    """
    links = [link for link in _links(level.tree) if not _is_off(level, link)]
    filled: list[Path] = []
    for link in links:
        below = _fill_one(level, link)
        filled += [below.tree, *fill_submodules(below)]
    _verify(level.tree, links)
    return tuple(filled)


def _fill_one(level: Level, link: _Link) -> Level:
    copy = _own_copy(level, link)
    address = _address(level, link)
    settings = {
        f"submodule.{link.name}.url": str(copy or address),
        f"submodule.{link.name}.active": "true",
        f"submodule.{link.name}.update": "checkout",
        # The user's own copy is trusted; for any other local path git's own rule holds.
        **({"protocol.file.allow": "always", "protocol.version": "2"} if copy else {}),
    }
    shallow = ("--no-recommend-shallow",) if copy else ()
    done = run_git(
        level.tree, "submodule", "--quiet", "update", "--init", "--checkout", *shallow, "--", link.path,
        config=settings, timeout_s=CHECKOUT_TIMEOUT_S, worktree=level.worktree,
    )  # fmt: skip
    if not done.ok:
        raise SourceError(_unavailable(level, link, address, done.reason))
    user_tree = level.user_tree / link.path if level.user_tree else None
    below_dirs = tuple(folder / "modules" / link.name for folder in level.git_dirs)
    own = (copy, *below_dirs) if copy else below_dirs
    return Level(level.worktree, level.tree / link.path, own, address, user_tree)


def _unavailable(level: Level, link: _Link, address: str, reason: str) -> str:
    where = level.user_tree or level.tree
    if "transport 'file' not allowed" in reason:
        hint = "git does not clone local paths for submodules unless protocol.file.allow=always is configured"
    else:
        hint = f"run `git -C {where} submodule update --init --recursive` once, with the network"
    return f"submodule {link.path} at {link.sha[:12]} could not be checked out from {address}: {reason}; {hint}"


def _verify(tree: Path, links: list[_Link]) -> None:
    if not links:
        return
    paths = [link.path for link in links]
    text = git_text(tree, "submodule", "status", "--", *paths, config={"submodule.active": "."})
    state = parse_submodule_status(text)
    if not state.complete:
        bad = (*state.uninitialized, *state.out_of_sync, *state.conflict)
        raise SourceError(f"submodules of {tree} are not as the commit asks: {', '.join(bad)}; start again")


def _links(tree: Path) -> list[_Link]:
    """List the submodules of a commit, less those that `.gitmodules` lacks: empty in every clone."""
    if not (tree / ".gitmodules").is_file():
        return []
    staged = git_text(tree, "ls-files", "--stage", "-z").split("\0")
    shas = {entry.partition("\t")[2]: entry.split()[1] for entry in staged if entry.startswith(f"{_LINK_MODE} ")}
    modules = _read_gitmodules(tree)
    return [
        _Link(name, path, shas[path], keys.get("url", ""), keys.get("update", "checkout"))
        for name, keys in modules.items()
        if (path := keys.get("path", "").rstrip("/")) in shas
    ]


def _read_gitmodules(tree: Path) -> dict[str, dict[str, str]]:
    listed = run_git(tree, "config", "-z", "--file", str(tree / ".gitmodules"), "--get-regexp", r"^submodule\.")
    modules: dict[str, dict[str, str]] = {}
    for item in filter(None, listed.stdout.split("\0")):
        key, _, value = item.partition("\n")
        name, _, variable = key.removeprefix("submodule.").rpartition(".")
        modules.setdefault(name, {})[variable] = value
    return modules


def _is_off(level: Level, link: _Link) -> bool:
    update = _user_setting(level, link, "update") or link.update
    return update == "none" or _user_setting(level, link, "active") == "false"


def _user_setting(level: Level, link: _Link, variable: str) -> str:
    asked = run_git(level.tree, "config", "--get", f"submodule.{link.name}.{variable}")
    return asked.stdout.strip()


def _own_copy(level: Level, link: _Link) -> Path | None:
    """Find the user's repository of this submodule that has the commit, if there is one."""
    stores = [folder / "modules" / link.name for folder in level.git_dirs]
    if ".." in Path(link.name).parts:
        stores = []
    if level.user_tree and (level.user_tree / link.path / ".git").exists():
        stores.append(level.user_tree / link.path)
    for store in filter(Path.is_dir, stores):
        if run_git(store, "cat-file", "-e", f"{link.sha}^{{commit}}").ok:
            return Path(git_text(store, "rev-parse", "--absolute-git-dir").removesuffix("\n"))
    return None


def _address(level: Level, link: _Link) -> str:
    configured = _user_setting(level, link, "url")
    return configured or resolve_url(level.url, link.url)


def resolve_url(base: str, url: str) -> str:
    """Return a submodule's address; `./` and `../` are relative to the code around it (gitmodules(5))."""
    if not url.startswith(("./", "../")):
        return url
    head, separator = base.rstrip("/"), "/"
    while url.startswith(("./", "../")):
        step, _, url = url.partition("/")
        if step == "..":
            cut = max(head.rfind("/"), head.rfind(":"))
            separator = head[cut] if cut >= 0 else "/"
            head = head[: max(cut, 0)]
    return f"{head}{separator}{url}"
