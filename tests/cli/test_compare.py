"""`interlace compare`, on logs written here, through its own entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from interlace.cli.compare import run
from interlace.errors import InterlaceError, ReadError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START = 1_764_432_000.0


def recorder_lines(times: Sequence[float], start: float, rank: int = 0, world: int = 1) -> str:
    head = {
        "interlace": "steps",
        "format": 1,
        "rank": rank,
        "local_rank": rank,
        "world_size": world,
        "pid": 1,
    }
    head |= {"clock": "perf_counter", "unit": "s", "start_unix_s": start}
    clock = np.cumsum(times)
    rows = [
        {"step": i, "step_s": round(float(t), 9), "t_s": round(float(c), 9)}
        for i, (t, c) in enumerate(zip(times, clock, strict=True), start=1)
    ]
    return "\n".join(json.dumps(row) for row in [head, *rows, {"end": True, "steps": len(rows)}]) + "\n"


def times_of(seed: int, mean_s: float, steps: int = 300) -> list[float]:
    rng = np.random.default_rng(seed)
    level = mean_s * np.exp(0.002 * rng.standard_normal())
    return [3.0, *(level * (1 + 0.02 * rng.standard_normal(steps - 1)))]


def write_runs(folder: Path, order: str, means: dict[str, float], steps: int = 300) -> dict[str, str]:
    """Write a log a run, each starting a minute after the one before; return the files by arm."""
    files: dict[str, list[str]] = {}
    for position, arm in enumerate(order):
        path = folder / f"{arm.lower()}{len(files.get(arm, [])) + 1}.jsonl"
        times = times_of(position, means[arm], steps)
        path.write_text(recorder_lines(times, START + 60.0 * position))
        files.setdefault(arm, []).append(str(path))
    return {arm: ",".join(paths) for arm, paths in files.items()}


def write_csv(path: Path, times: Sequence[float]) -> str:
    path.write_text("step,step_s\n" + "".join(f"{i},{t:.6f}\n" for i, t in enumerate(times, start=1)))
    return str(path)


def records(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    assert run([*argv, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in lines]


@pytest.fixture
def abba(tmp_path: Path) -> dict[str, str]:
    return write_runs(tmp_path, "ABBABAAB", {"A": 0.028, "B": 0.025})


def test_identical_runs_of_the_session_narrow_the_interval(
    abba: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "aa").mkdir()
    aa = write_runs(tmp_path / "aa", "AAAAAAAA", {"A": 0.028})["A"]
    arms = [f"baseline={abba['A']}", f"candidate={abba['B']}"]

    (alone,), (together,) = records(capsys, *arms), records(capsys, *arms, f"aa={aa}")

    assert together["method"] == "paired t, variance pooled with A/A rounds"
    assert together["high"] - together["low"] < alone["high"] - alone["low"]
    with pytest.raises(UsageError, match="aa= names 3 logs; give two a round, and at least four rounds"):
        run([*arms, f"aa={','.join(aa.split(',')[:3])}"])


def test_throughput_and_block_are_as_asked(abba: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arms = [f"baseline={abba['A']}", f"candidate={abba['B']}"]

    (usual,), (found,) = records(capsys, *arms), records(capsys, *arms, "samples=64", "tokens=4096", "block=50")

    assert found["samples_per_s"] == pytest.approx(64 / 0.025, rel=0.01)
    assert found["tokens_per_s"] == pytest.approx(4096 / 0.025, rel=0.01)
    assert usual["samples_per_s"] is None
    assert usual["ratio"] != found["ratio"]
    with pytest.raises(UsageError, match="block=0: give a whole number above 0"):
        run([*arms, "block=0"])


def test_a_ladder_of_logs_is_in_the_json_and_is_not_judged_where_the_runs_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_runs(tmp_path, "ABCCBAABC", {"A": 0.028, "B": 0.025, "C": 0.022})
    (tmp_path / "drift").mkdir()
    drifting = {arm: [] for arm in "ABC"}  # type: dict[str, list[str]]
    for position, arm in enumerate("ABCABCABCABC"):
        path = tmp_path / "drift" / f"{arm}{position}.jsonl"
        path.write_text(recorder_lines(times_of(position, 0.028 * 1.008**position), START + 60.0 * position))
        drifting[arm].append(str(path))

    fine = records(capsys, *(f"{arm}={files[arm]}" for arm in "ABC"), "--ladder")
    leaking = records(capsys, *(f"{arm}={','.join(drifting[arm])}" for arm in "ABC"), "--ladder")

    assert [one["ladder"]["previous"]["verdict"] for one in fine] == ["faster", "faster"]
    assert "C against A" in fine[0]["ladder"]["total"]
    assert [(one["verdict"], one["ladder"]) for one in leaking] == [("not judged", None)] * 2


def test_the_clocks_in_the_logs_give_the_order_and_a_verdict(
    abba: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = records(capsys, f"baseline={abba['A']}", f"candidate={abba['B']}")

    assert found["verdict"] == "faster"
    assert found["low"] < found["ratio"] < found["high"] < 1
    assert found["ratio"] == pytest.approx(0.025 / 0.028, rel=0.01)
    assert found["sentence"].startswith("faster: 10.")
    assert found["sentence"].endswith("4 rounds, 4 of 4 faster)")
    assert found["order_source"] == "ABBABAAB, from the clocks in the logs"
    assert found["window"] == [51, 300]
    assert (found["arm"], found["baseline"], found["rounds"]) == ("candidate", "baseline", 4)


def test_a_copy_of_the_baseline_is_within_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABCCBACBAABC", {"A": 0.028, "B": 0.028, "C": 0.02})

    same, faster = records(capsys, f"baseline={files['A']}", f"copy={files['B']}", f"new={files['C']}")

    assert (same["arm"], same["verdict"]) == ("copy", "within noise")
    assert (faster["arm"], faster["verdict"]) == ("new", "faster")


def test_sequential_runs_get_ratio_and_range_but_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "AAABBB", {"A": 0.028, "B": 0.025})

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert (found["verdict"], found["low"], found["high"]) == ("not judged", None, None)
    assert found["ratio"] == pytest.approx(0.893, rel=0.01)
    assert found["sentence"].startswith(
        "not judged: arms were not interleaved; drift is not separated from the effect (seen: -10."
    )
    assert found["order"] == "sequential"


def test_alternating_runs_are_judged_and_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABABAB", {"A": 0.028, "B": 0.025})

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert found["verdict"] == "faster"
    assert "every round ran in the same order (ABABAB): a steady drift is not cancelled, ABBA would" in found["notes"]


def test_without_clock_and_order_nothing_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = [write_csv(tmp_path / f"a{i}.csv", times_of(i, 0.028)) for i in range(2)]
    b = [write_csv(tmp_path / f"b{i}.csv", times_of(i + 5, 0.025)) for i in range(2)]
    words = (f"baseline={','.join(a)}", f"candidate={','.join(b)}")

    (unknown,) = records(capsys, *words)
    (given,) = records(capsys, *words, "order=ABBA")

    assert (unknown["verdict"], unknown["order"]) == ("not judged", "unknown")
    assert "the order of the runs is not known" in unknown["sentence"]
    assert (given["verdict"], given["provisional"]) == ("faster", True)
    assert given["order_source"] == "ABBA, as given by order="


def test_letters_of_order_are_the_baseline_then_the_arms_as_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {
        name: [write_csv(tmp_path / f"{name}{i}.csv", times_of(i + 10 * k, mean)) for i in range(2)]
        for k, (name, mean) in enumerate([("new", 0.02), ("baseline", 0.028), ("old", 0.03)])
    }
    words = [f"{name}={','.join(files)}" for name, files in paths.items()]

    found = records(capsys, *words, "order=abccba")
    commas = records(capsys, *words, "order=A,B,C,C,B,A")
    named = records(capsys, *words, "order=baseline,new,old,old,new,baseline")

    assert [one["arm"] for one in found] == ["new", "old"]
    assert found[0]["order_source"] == "ABCCBA, as given by order="
    assert [one["round_ratios"] for one in found] == [one["round_ratios"] for one in named]
    assert commas == found


def test_the_first_arm_is_the_baseline_where_none_is_called_so(
    abba: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = records(capsys, f"main={abba['A']}", f"patch={abba['B']}")

    assert (found["baseline"], found["arm"]) == ("main", "patch")


def test_a_missing_run_breaks_only_its_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABBABAA", {"A": 0.028, "B": 0.025})

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert (found["verdict"], found["rounds"]) == ("faster", 3)
    assert "1 of 7 runs are in no round that has every arm once" in found["notes"]


def test_an_arm_measured_later_is_named_as_what_spoils_the_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_runs(tmp_path, "ABBACC", {"A": 0.028, "B": 0.025, "C": 0.02})

    found = records(capsys, f"a={files['A']}", f"b={files['B']}", f"c={files['C']}")

    assert [one["verdict"] for one in found] == ["not judged", "not judged"]
    assert "alone with a, b was interleaved: compare just these two for a verdict" in found[0]["notes"]
    assert not any("alone with a, c" in note for note in found[0]["notes"])


def test_one_run_each_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "AB", {"A": 0.028, "B": 0.025})

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert found["verdict"] == "not judged"
    assert found["sentence"].startswith("not judged: one complete round only")


def test_short_logs_share_a_window_without_their_warm_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABBA", {"A": 0.028, "B": 0.025}, steps=100)

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert found["window"] == [21, 100]
    assert found["window_source"].endswith("ends at step 100, the first 20 common steps are left out as warm-up")


def test_a_window_beyond_a_log_names_the_log_and_its_last_step(abba: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ReadError) as error:
        run([f"baseline={abba['A']}", f"candidate={abba['B']}", "window=51:301"])

    assert str(error.value) == (
        f"{tmp_path / 'a1.jsonl'}: window 51:301 reaches beyond the last step, 300: choose one up to 300"
    )


def test_a_log_that_was_cut_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABBA", {"A": 0.028, "B": 0.025})
    cut = tmp_path / "b2.jsonl"
    cut.write_text(recorder_lines(times_of(2, 0.025, 60), START + 120.0))

    (found,) = records(capsys, f"baseline={files['A']}", f"candidate={files['B']}")

    assert found["window"] == [13, 60]
    assert f"{cut} ends at step 60, the longest at 300: was the run cut? then leave it out" in found["notes"]


def test_a_folder_of_rank_logs_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = []
    for arm, mean, starts in (("baseline", 0.028, (0, 180)), ("candidate", 0.025, (60, 120))):
        folders = []
        for start in starts:
            folder = tmp_path / f"{arm}-{start}"
            folder.mkdir()
            for rank in range(2):
                text = recorder_lines(times_of(start + rank, mean), START + start, rank, 2)
                (folder / f"rank-{rank}.jsonl").write_text(text)
            folders.append(str(folder))
        words.append(f"{arm}={','.join(folders)}")

    (found,) = records(capsys, *words)

    assert found["verdict"] == "faster"
    assert found["order_source"] == "ABBA, from the clocks in the logs"


def test_a_quoted_glob_is_expanded_in_natural_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in (1, 2, 10):
        write_csv(tmp_path / f"a{i}.csv", times_of(i, 0.028))
        write_csv(tmp_path / f"b{i}.csv", times_of(i + 20, 0.025))

    (found,) = records(capsys, f"x={tmp_path}/a*.csv", f"y={tmp_path}/b*.csv", "order=ABBAAB")

    assert [one["log"] for one in found["runs"]["x"]] == [str(tmp_path / f"a{i}.csv") for i in (1, 2, 10)]


def test_overlapping_logs_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start in (("a1", 0.0), ("b1", 60.0), ("b2", 120.0), ("a2", 121.0)):
        (tmp_path / f"{name}.jsonl").write_text(recorder_lines(times_of(int(start), 0.1, 300), START + start))

    (found,) = records(capsys, f"a={tmp_path}/a*.jsonl", f"b={tmp_path}/b*.jsonl")

    assert any("b2.jsonl and" in note and "overlap in time" in note for note in found["notes"])


def test_logs_with_values_of_different_kinds_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "2026/01/02 03:{:02d}:05 - mmengine - INFO - Iter(train) [{}/9000]  lr: 1.0e-02  time: {}  data_time: 0.01\n"
    for position, (name, every) in enumerate([("a1", 10), ("b1", 5), ("b2", 5), ("a2", 10)]):
        steps = range(every, 401, every)
        text = "".join(line.format(position, step, 0.4 + step % 7 / 1000) for step in steps)
        (tmp_path / f"{name}.log").write_text(text)

    (found,) = records(capsys, f"a={tmp_path}/a*.log", f"b={tmp_path}/b*.log")

    assert found["verdict"] == "not judged"
    assert "values of different kinds (mean, smoothed)" in found["sentence"]


def test_clocks_that_contradict_the_given_order_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "ABAB", {"A": 0.028, "B": 0.025})

    (found,) = records(capsys, f"a={files['A']}", f"b={files['B']}", "order=ABBA")

    assert "the clocks in the logs say ABAB; order= was used" in found["notes"]


def test_logs_that_two_readers_read_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_runs(tmp_path, "AA", {"A": 0.028})
    b = [write_csv(tmp_path / f"b{i}.csv", times_of(i, 0.025)) for i in range(2)]

    (found,) = records(capsys, f"a={files['A']}", f"b={','.join(b)}", "order=ABBA")

    assert found["verdict"] == "not judged"
    assert "read by different readers (a: interlace; b: csv)" in found["sentence"]
    assert found["ratio"] == pytest.approx(0.893, rel=0.01)


def test_other_world_sizes_are_noted_between_arms_and_refused_within_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, start, world in (("a1", 0, 1), ("b1", 60, 2), ("b2", 120, 2), ("a2", 180, 1), ("c1", 180, 2)):
        text = recorder_lines(times_of(start, 0.028), START + start, 0, world)
        (tmp_path / f"{name}.jsonl").write_text(text)
    a, b, c = f"a={tmp_path}/a*.jsonl", f"b={tmp_path}/b*.jsonl", f"a={tmp_path}/a1.jsonl,{tmp_path}/c1.jsonl"

    (between,) = records(capsys, a, b)
    (within,) = records(capsys, c, b)

    assert between["verdict"] != "not judged"
    assert "a had world size 1, b 2: a step may not be the same work" in between["notes"]
    assert "runs of a had different numbers of ranks (1, 2)" in within["sentence"]


def test_steps_that_are_all_equal_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = [write_csv(tmp_path / f"a{i}.csv", [0.013] * 300) for i in range(2)]
    b = [write_csv(tmp_path / f"b{i}.csv", [0.012] * 300) for i in range(2)]

    (found,) = records(capsys, f"a={','.join(a)}", f"b={','.join(b)}", "order=ABBA")

    assert found["verdict"] == "not judged"
    assert "the log is too coarse to show a difference" in found["sentence"]


def test_copies_of_one_log_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write_csv(tmp_path / f"{name}.csv", times_of(1, 0.028)) for name in ("a1", "b1")]

    (found,) = records(capsys, f"a={paths[0]}", f"b={paths[1]}")

    assert f"{paths[0]} and {paths[1]} hold the same step times: copies of one run?" in found["notes"]


def test_steps_that_still_settle_are_said_for_the_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settling = [t * (1 + 0.1 * np.exp(-i / 80)) for i, t in enumerate(times_of(1, 0.028))]
    a = write_csv(tmp_path / "a.csv", times_of(2, 0.028))
    b = write_csv(tmp_path / "b.csv", settling)

    (found,) = records(capsys, f"a={a}", f"b={b}")

    (note,) = [note for note in found["notes"] if "still moving" in note]
    assert note.endswith("arm b) (this arm alone: the ratio is biased): leave out more steps (a later window)")


def test_own_lines_are_read_by_a_pattern_and_its_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = []
    for arm, mean in (("a", 0.4), ("b", 0.3)):
        paths = [tmp_path / f"{arm}{i}.txt" for i in range(2)]
        for i, path in enumerate(paths):
            lines = [f"it {n} took {1000 * t:.2f}\n" for n, t in enumerate(times_of(i, mean, 120), start=1)]
            path.write_text("".join(lines))
        words.append(f"{arm}={','.join(map(str, paths))}")

    (found,) = records(capsys, *words, "order=ABBA", "unit=ms", r"pattern=it (?P<step>\d+) took (?P<step_s>[\d.]+)")

    assert found["verdict"] == "faster"
    assert found["runs"]["a"][0]["median_s"] == pytest.approx(0.4, rel=0.02)


def test_the_table_shows_medians_with_their_range_and_the_sentence(
    abba: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([f"baseline={abba['A']}", f"candidate={abba['B']}"]) == 0
    lines = capsys.readouterr().out.splitlines()

    header = "arm runs median step (range of runs) compared (CV) mean p90 slowest step 1 ratio speed-up verdict"
    assert " ".join(lines[0].split()) == header
    assert lines[1].startswith("baseline   ")
    assert " ms (2" in lines[1]
    assert lines[1].split()[-1] == "baseline"
    assert "1.12x" in lines[2]
    assert lines[2].split()[-1] == "faster"
    assert lines[3].startswith("candidate: faster: 10.")
    assert "order: ABBABAAB, from the clocks in the logs (interleaved)" in lines
    assert "window: steps 51 to 300, the default" in lines
    assert "reader: interlace" in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "0 arms given: compare needs two or more"),
        (["a={a1}"], "1 arms given: compare needs two or more"),
        (["a={a1}", "b"], "'b': expected NAME=LOG[,LOG...] or one of order=, window=, block=, aa=,"),
        (["a={a1}", "b={b1}", "--csv"], "unknown option '--csv': options are order=, window="),
        (["a={a1}", "a={b1}"], "the arm 'a' is given twice: name its logs once, separated by commas"),
        (["a={a1}", "b={a1}"], "{a1} is given twice (a and b); every run needs a log of its own"),
        (["a={a1}", "b={dir}/none.log"], "b={dir}/none.log: no file '{dir}/none.log' here"),
        (["a={a1}", "b={b1}", "ordre=ABBA"], "quote the pattern; did you mean the option order=ABBA?"),
        (["a={a1}", r"b=z[\d].log"], r"no file 'z[\d].log' here"),
        (["a={a1}", "b={dir}/z*.log"], "no file '{dir}/z*.log' here; check the name, or quote the pattern"),
        (["a={a1}", "b={b1},"], "a file name is empty"),
        (["a={a1}", "b={b1}", "order=ABB"], "order=ABB has 2 runs of b, but 1 of its logs were given"),
        (["a={a1}", "b={b1}", "order=AC"], "order=AC: no arm 'C'; A = a, B = b"),
        (["a={a1}", "b={b1}", "order=a,c"], "order=a,c: no arm 'c'; arms: a, b"),
        (["a={a1}", "b={b1}", "window=300"], "window=300: give the first and the last step"),
        (
            ["a={a1}", "b={b1}", "window=300:51"],
            "window 300:51: the first step must not be negative nor after",
        ),
        (
            ["a={a1}", "b={b1}", "margin=1"],
            "margin=1: give a percentage under 50 %, as in margin=1% (or 0.01)",
        ),
        (["a={a1}", "b={b1}", "margin=lots"], "margin=lots: give a percentage"),
        (["a={a1}", "b={b1}", "unit=h"], "unit=h: choose one of s, ms, us"),
    ],
)
def test_wrong_arguments_are_one_clear_message(tmp_path: Path, words: list[str], message: str) -> None:
    names = {name: write_csv(tmp_path / f"{name}.csv", times_of(1, 0.02)) for name in ("a1", "b1")}
    argv = [word.format(dir=tmp_path, **names) for word in words]

    with pytest.raises(InterlaceError) as error:
        run(argv)

    assert message.format(dir=tmp_path, **names) in str(error.value)


def test_a_count_mismatch_is_a_usage_error(tmp_path: Path) -> None:
    a, b = (write_csv(tmp_path / f"{name}.csv", times_of(1, 0.02)) for name in "ab")

    with pytest.raises(UsageError):
        run([f"a={a}", f"b={b}", "order=ABBA"])


def test_a_log_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    a = write_csv(tmp_path / "a.csv", times_of(1, 0.02))
    (tmp_path / "b.log").write_text("nothing to see here\n")

    with pytest.raises(ReadError) as error:
        run([f"a={a}", f"b={tmp_path / 'b.log'}"])

    assert "b.log" in str(error.value)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from interlace.cli.compare import run; assert run(['--help']) == 0; "
        "heavy = {'numpy', 'pandas', 'scipy', 'rich', 'torch', 'hydra'} & set(sys.modules); "
        "assert not heavy, heavy"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: interlace compare NAME=LOG")


def test_no_compare_loads_torch_or_hydra_or_scipy_stats(abba: dict[str, str]) -> None:
    code = (
        "import sys; from interlace.cli.compare import run; run(sys.argv[1:]); "
        "heavy = {'torch', 'hydra', 'scipy.stats'} & set(sys.modules); assert not heavy, heavy"
    )
    words = [f"a={abba['A']}", f"b={abba['B']}"]

    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_cumulative_arms_are_also_compared_with_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_runs(tmp_path, "ABCCBACBAABC", {"A": 0.030, "B": 0.025, "C": 0.0251})

    assert run([f"base={logs['A']}", f"one={logs['B']}", f"two={logs['C']}", "--ladder"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert any(line.split()[:3] == ["row", "what", "changed"] for line in lines)
    assert any(line.startswith("in all, by the rounds") and "): two against base, 1." in line for line in lines)
