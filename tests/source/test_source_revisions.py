from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, cast

import pytest

from interlace.errors import SourceError
from interlace.source import Commit, expand_range, resolve_commit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.source.conftest import Repo

pytestmark = pytest.mark.costly


def refused(repo: Path, revision: str) -> str:
    with pytest.raises(SourceError) as caught:
        resolve_commit(repo, revision)
    return str(caught.value)


def test_a_branch_resolves_to_its_full_sha_with_subject_and_time(repo: Repo) -> None:
    sha = repo.commit("the subject\n\nthe body", {"a": "1"})

    assert resolve_commit(repo.path, "main") == Commit(sha, "main", "the subject", 1714564800.0)


@pytest.mark.parametrize("revision", ["main~1", "HEAD^", "feature/x", "v1", "v2", ":/^one", "HEAD^{/one}"])
def test_every_way_of_writing_a_revision_is_understood(repo: Repo, revision: str) -> None:
    one = repo.commit("one", {"a": "1"})
    repo.git("branch", "feature/x")
    repo.git("tag", "v1")
    repo.git("tag", "-a", "-m", "annotated", "v2")
    repo.commit("two", {"a": "2"})

    assert resolve_commit(repo.path, revision).sha == one


@pytest.mark.parametrize("name", ["5e81234", "1234567", "0123456", "9e00000"])
def test_a_name_made_of_digits_stays_text(repo: Repo, name: str) -> None:
    sha = repo.commit("one", {"a": "1"})
    repo.git("branch", name)

    assert resolve_commit(repo.path, name) == Commit(sha, name, "one", 1714564800.0)


@pytest.mark.parametrize("value", [1234567, float("inf"), 5e34])
def test_a_number_is_refused_with_the_hint_to_quote_it(repo: Repo, value: float) -> None:
    repo.commit("one", {"a": "1"})

    assert "must be quoted" in refused(repo.path, cast("Any", value))


def test_an_abbreviated_sha_resolves(repo: Repo) -> None:
    sha = repo.commit("one", {"a": "1"})

    assert resolve_commit(repo.path, sha[:7]).sha == sha


def test_an_unknown_revision_names_the_repository_and_near_matches(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})
    repo.git("branch", "compile-model")

    message = refused(repo.path, "compile-modle")

    assert "commit=compile-modle: no such revision" in message
    assert str(repo.path) in message
    assert "did you mean compile-model?" in message
    assert "git fetch --all --tags" in message


def test_a_full_sha_that_is_not_there_is_unknown(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})

    assert "no such revision" in refused(repo.path, "1" * 40)


def test_a_branch_that_only_the_remote_has_is_offered(repo: Repo, tmp_path: Path) -> None:
    repo.commit("one", {"a": "1"})
    repo.git("branch", "feature/x")
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", str(repo.path), str(clone))

    assert "did you mean origin/feature/x" in refused(clone, "feature/x")


def test_a_shallow_clone_is_told_to_fetch(repo: Repo, tmp_path: Path) -> None:
    one = repo.commit("one", {"a": "1"})
    repo.commit("two", {"a": "2"})
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(clone))

    assert "git fetch --unshallow" in refused(clone, one)


def test_an_ambiguous_short_sha_lists_the_commits(repo: Repo) -> None:
    lines = [
        f"commit refs/heads/many\ncommitter A <a@b> {1700000000 + number} +0000\ndata 1\nx" for number in range(900)
    ]
    (repo.path / "stream").write_text("\n".join(lines) + "\n")
    with (repo.path / "stream").open("rb") as stream:
        subprocess.run(["git", "fast-import", "--quiet"], cwd=repo.path, stdin=stream, check=True)
    shas = repo.git("rev-list", "many").splitlines()
    short = next(sha[:4] for sha in shas if sum(other.startswith(sha[:4]) for other in shas) > 1)

    message = refused(repo.path, short)

    assert f"commit={short} is ambiguous" in message
    assert all(sha[:16] in message for sha in shas if sha.startswith(short))


def test_a_name_that_is_both_tag_and_branch_is_ambiguous(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})
    repo.git("tag", "v1")
    repo.commit("two", {"a": "2"})
    repo.git("branch", "v1")

    message = refused(repo.path, "v1")

    assert "refs/tags/v1" in message
    assert "refs/heads/v1" in message


def test_a_name_that_is_both_tag_and_branch_of_one_commit_is_not(repo: Repo) -> None:
    one = repo.commit("one", {"a": "1"})
    repo.git("tag", "v1")
    repo.git("branch", "v1")

    assert resolve_commit(repo.path, "v1").sha == one


@pytest.mark.parametrize("revision", ["--output=stolen", "-h", "--all"])
def test_a_revision_never_reaches_git_as_an_option(repo: Repo, revision: str) -> None:
    repo.commit("one", {"a": "1"})

    assert "cannot start with '-'" in refused(repo.path, revision)
    assert sorted(path.name for path in repo.path.iterdir()) == [".git", "a"]


@pytest.mark.parametrize(
    ("revision", "reason"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("main\nmain", "characters"),
        ("main..HEAD", "write commits=main..HEAD"),
        ("HEAD:a", "is a blob"),
        ("HEAD^{tree}", "is a tree"),
        ("^main", "no such revision"),
    ],
)
def test_what_is_no_commit_is_refused_by_its_kind(repo: Repo, revision: str, reason: str) -> None:
    repo.commit("one", {"a": "1"})

    assert reason in refused(repo.path, revision)


def test_a_repository_without_commits_says_so(repo: Repo) -> None:
    assert "has no commit yet" in refused(repo.path, "HEAD")


# ---------------------------------------------------------------- ranges


def subjects(commits: tuple[Commit, ...]) -> list[str]:
    return [commit.subject for commit in commits]


def test_a_range_starts_with_its_baseline_and_goes_on_oldest_first(repo: Repo) -> None:
    for number in range(4):
        repo.commit(f"c{number}", {"a": str(number)})
    repo.git("tag", "v1", "HEAD~2")

    found = expand_range(repo.path, "v1..HEAD")

    assert subjects(found) == ["c1", "c2", "c3"]
    assert found[0].revision == "v1"
    assert found[2].revision == found[2].sha[:12]
    assert expand_range(repo.path, "v1..") == found


def test_a_range_follows_first_parents(repo: Repo) -> None:
    repo.commit("base", {"a": "1"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("on the side", {"b": "1"})
    repo.git("checkout", "--quiet", "main")
    repo.commit("main two", {"a": "2"})
    repo.git("merge", "--quiet", "--no-edit", "side")

    assert subjects(expand_range(repo.path, "HEAD~2..main")) == ["base", "main two", "Merge branch 'side'"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("old...main", "commits=old..main"),
        ("..main", "has no start"),
        ("main", "is not a range"),
        ("main..main", "both ends are the same commit"),
        ("main..old", "write commits=old..main"),
        ("side..main", "is not an ancestor"),
        ("nowhere..main", "commit=nowhere: no such revision"),
        ("old..nowhere", "commit=nowhere: no such revision"),
        ("old..--all", "cannot start with '-'"),
        ("old..main..side", "is a range"),
    ],
)
def test_a_range_that_makes_no_ladder_is_refused(repo: Repo, text: str, reason: str) -> None:
    repo.commit("c0", {"a": "0"})
    repo.git("branch", "old")
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("on the side", {"b": "1"})
    repo.git("checkout", "--quiet", "main")
    repo.commit("c1", {"a": "1"})

    with pytest.raises(SourceError) as caught:
        expand_range(repo.path, text)

    assert reason in str(caught.value)


def test_two_ends_that_parted_are_told_where(repo: Repo) -> None:
    base = repo.commit("c0", {"a": "0"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("on the side", {"b": "1"})
    repo.git("checkout", "--quiet", "main")
    repo.commit("c1", {"a": "1"})

    with pytest.raises(SourceError, match=f"commits={base[:12]}..main"):
        expand_range(repo.path, "side..main")
