from __future__ import annotations

from interlace.monitor.cells import number
from interlace.monitor.readings import GpuReadError
from interlace.wording import first_of, printable, sharing_kind, variable


def test_foreign_text_cannot_drive_a_terminal() -> None:
    assert printable("\x1b[31mred\x1b]0;title\x07\n\x00") == "?[31mred?]0;title???"
    assert str(GpuReadError("garbled", "\x1b[2Jgone")) == "?[2Jgone"
    assert number("\x1b[31m12").reason == "?[31m12"


def test_long_foreign_text_is_cut() -> None:
    assert len(printable("x" * 1000)) == 200


def test_the_first_of_many_are_named() -> None:
    assert first_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert first_of(["a"], 2) == "a"


def test_notes_that_differ_in_a_count_are_one_with_its_range() -> None:
    told = [("a", "x: lines taken apart: 13 in all"), ("b", "x: lines taken apart: 1 in all"), ("b", "lacks a step: 7")]
    joined = [("a", "joined (line 3): 1 in all"), ("b", "joined (lines 3, 8): 2 in all"), ("c", "lacks a step: 9")]

    assert sharing_kind([*told, *joined, ("c", "x: lines taken apart: 5 in all")]) == {
        "x: lines taken apart: 1 to 13 each": ["a", "b", "c"],
        "lacks a step: 7": ["b"],
        "joined: 1 to 2 each": ["a", "b"],
        "lacks a step: 9": ["c"],
    }
    assert sharing_kind([("a", "joined (line 3): 1 in all")]) == {"joined (line 3): 1 in all": ["a"]}
    assert sharing_kind([("a", "joined: 2 in all"), ("b", "joined: 2 in all")]) == {"joined: 2 each": ["a", "b"]}


def test_a_variable_that_is_taken_away_is_worded_so() -> None:
    assert (variable("A", "x"), variable("A", None)) == ("A=x", "A removed")
