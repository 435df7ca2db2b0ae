from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace.errors import ReadError
from interlace.slurm.nodelist import compact, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,n2", ["n1", "n2"]),
        ("n[0-3]", ["n0", "n1", "n2", "n3"]),
        ("n[01-03,07]", ["n01", "n02", "n03", "n07"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("a[1-2]b[3-4]", ["a1b3", "a1b4", "a2b3", "a2b4"]),
        ("rack[1-2]-n[1-3]", ["rack1-n1", "rack1-n2", "rack1-n3", "rack2-n1", "rack2-n2", "rack2-n3"]),
        ("gpu[1,3]-ib.example", ["gpu1-ib.example", "gpu3-ib.example"]),
        ("login,n[1-2],fat-01", ["login", "n1", "n2", "fat-01"]),
        (" n[1, 2] ", ["n1", "n2"]),
        ("", []),
        ("None assigned", []),
        ("(null)", []),
    ],
)
def test_every_form_of_a_node_list_expands(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n[1-3", "'[1-3' cannot be read"),
        ("n1-3]", "']' cannot be read"),
        ("n[]", "'' in brackets is no number and no range"),
        ("n[a-b]", "'a-b' in brackets"),
        ("n[3-1]", "the range '3-1' runs backwards"),
        ("n[1-[2-3]]", "cannot be read"),
        ("n1,,n2", "there is nothing beside a comma"),
        ("n1,", "there is nothing beside a comma"),
        ("[1-3]", "no name stands before '[1-3]'"),
        ("n1 n2", "' n2' cannot be read"),
        ("n[1-999999999]", "more than 65536 nodes"),
        ("a[1-999]b[1-999]", "more than 65536 nodes"),
    ],
)
def test_a_list_that_slurm_would_not_write_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ReadError) as caught:
        expand(text)

    assert why in str(caught.value)
    assert str(caught.value).startswith(f"{text!r} is not a node list of Slurm: ")


RANGES = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=4
)  # start, further numbers, width
GROUPS = st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True), RANGES), min_size=1, max_size=3)


@given(GROUPS, st.sampled_from(["", "-ib", ".example"]))
def test_what_was_compressed_expands_to_the_same_names(
    groups: list[tuple[str, list[tuple[int, int, int]]]], end: str
) -> None:
    compressed, names = [], []
    for name, ranges in groups:
        parts = []
        for first, more, width in ranges:
            shown = f"{first:0{width}}"
            parts.append(f"{shown}-{first + more:0{width}}" if more else shown)
            # A range keeps the width of its first number, zeros and all.
            names += [f"{name}{number:0{len(shown)}}{end}" for number in range(first, first + more + 1)]
        compressed.append(f"{name}[{','.join(parts)}]{end}")

    assert list(expand(",".join(compressed))) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n2", "n1"], "n[1-2]"),
        (["n10", "n9", "n7", "login"], "login,n[7,9-10]"),
        (["n01", "n02", "n1"], "n1,n[01-02]"),
        (["n099", "n100"], "n099,n100"),
        (["a1b3", "a2b3"], "a1b3,a2b3"),
    ],
)
def test_names_become_one_short_list(names: list[str], text: str) -> None:
    assert compact(names) == text


@given(st.sets(st.from_regex(r"[a-z]{1,3}(-[a-z])?[0-9]{0,4}", fullmatch=True), min_size=1))
def test_a_compact_list_has_the_same_names_whatever_their_order(names: set[str]) -> None:
    ordered = sorted(names)

    assert compact(ordered) == compact(ordered[::-1])
    assert set(expand(compact(ordered))) == names
