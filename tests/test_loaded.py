from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import interlace
from interlace.cli import main
from interlace.cli.resume import with_rounds
from interlace.errors import UsageError
from interlace.files import SweepDir, write_json
from interlace.lanes import LaneJob, Lanes, Session, lane_dir, session_path, write_lanes
from interlace.loaded import load
from interlace.loaded.sweep import AFTERWARDS
from interlace.pool import pool
from interlace.records import write_record
from interlace.schema import Cause, RunRecord
from interlace.settings import RanksConfig, WorkloadConfig
from interlace.sweepfile import write_sweep
from tests.handmade import CONFIG, on_disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.costly

TOO_LATE = Cause("incomplete", "the window ends later")


def test_runs_are_one_row_an_attempt_and_steps_those_that_count(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, {"b": {2}})

    assert list(loaded.runs["arm"].value_counts()) == [4, 4]
    assert loaded.runs["used"].sum() == 7
    assert loaded.steps.groupby("run").size().tolist() == [20] * 7


def test_a_notebook_may_load_as_often_as_it_likes(tmp_path: Path) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001).sweep_dir.path

    assert [len(interlace.load(path).used) for _ in range(2)] == [8, 8]
    assert len(interlace.load(path, window=(2, 20)).analysis.arms) == 2


def test_a_report_can_compare_with_another_arm_than_the_sweep_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001, apart=0.8, arms="abc").sweep_dir.path
    by_a, by_b = (interlace.load(path, baseline=arm).analysis for arm in "ab")

    assert by_a == interlace.load(path).analysis
    assert [(one.arm, one.verdict) for one in by_b.comparisons] == [("a", "slower"), ("c", "slower")]
    assert [arm.name for arm in by_b.arms if arm.baseline] == ["b"]
    assert main(["report", str(path), "--baseline", "b"]) == 0
    note = "compared with b, as asked for; the sweep was set up to compare with a"
    assert note in " ".join(capsys.readouterr().out.split())
    assert note in (path / "report.md").read_text()
    assert main(["report", str(path), "--baseline", "d"]) == 2
    assert "baseline d: no arm that was measured is called so; they are a, b, c" in capsys.readouterr().err


def test_a_round_that_was_cut_is_not_whole_though_nobody_else_ran(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, arms="abc")
    for attempt in loaded.used:
        if attempt.run.arm == "c" or attempt.run.round > 2:
            shutil.rmtree(attempt.path)

    analysis = load(loaded.sweep_dir.path).analysis

    assert (analysis.rounds, analysis.planned_rounds, analysis.left) == ((), 4, 8)


def test_a_row_says_what_it_changed_by_commit_setting_or_variable(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, arms="abc")
    a, b, c = loaded.sweep.arms
    fast = replace(CONFIG, env={"FAST": "1"})
    arms = (
        replace(a, sha="0" * 40, subject="first"),
        replace(b, sha="1" * 40, subject="second", overrides=("commit=b", "k=1")),
        replace(c, sha="1" * 40, subject="second", overrides=("commit=b", "k=1", "j=2", "++env.FAST=1"), config=fast),
    )

    def changes(**config: object) -> list[str]:
        sweep = replace(loaded.sweep, arms=arms, config=replace(CONFIG, **config))  # type: ignore[arg-type]
        return [arm.change for arm in replace(loaded, sweep=sweep).analysis.arms]

    assert changes(cumulative=True) == ["first", "second, k=1", "j=2, FAST=1"]
    assert changes() == ["first", "second, k=1", "second, k=1, j=2, FAST=1"]


def test_a_window_chosen_after_the_runs_is_said_with_the_way_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001).sweep_dir.path
    told = ["counted from steps 2 to 20, as asked for; the sweep was set up for steps 1 to 20", AFTERWARDS]

    assert main(["report", str(path), "--window", "2:20"]) == 0

    shown = capsys.readouterr().out
    assert f"written again by: interlace report {path}\n" in shown
    report = (path / "report.md").read_text()
    assert [note for note in told if f"- {note}\n" not in report] == []
    assert AFTERWARDS in interlace.load(path, baseline="b").analysis.notes
    same = interlace.load(path, window=(1, 20), baseline="a").analysis
    assert [note for note in same.notes if note in told or note == AFTERWARDS] == []


def test_a_window_that_no_run_reaches_is_refused_and_leaves_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001, {"b": {1, 2}}, cause=TOO_LATE).sweep_dir.path
    assert main(["report", str(path)]) == 0
    report = (path / "report.md").read_text()
    assert capsys.readouterr().out.count("the window ends later") == 1

    assert main(["report", str(path), "--window", "21:200"]) == 2

    assert f"--window 21:200: no run of {path} has all of these steps" in capsys.readouterr().err
    assert (path / "report.md").read_text() == report


def test_a_run_too_short_for_another_window_is_told_by_that_window(tmp_path: Path) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001, {"b": {1, 2}}, cause=TOO_LATE).sweep_dir.path

    short = load(path, window=(2, 20)).analysis.troubles

    told = "window 2:20 reaches beyond what the run recorded, 0 steps"
    assert [one.message for one in short] == [told, told]


def test_settings_given_to_a_sweep_on_disk_are_told_where_they_belong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001).sweep_dir.path

    assert main(["resume", str(path), "only=[b]"]) == 2

    assert "settings are for interlace sweep, plan and aa" in capsys.readouterr().err


def test_where_the_host_spends_a_step_is_taken_from_the_phases_that_a_trainer_records(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    for attempt in loaded.used:
        frame = pd.read_parquet(attempt.path / "steps.parquet")
        if attempt.run.arm == "b":
            frame = frame.assign(**{"phase.forward": 0.25 * frame["step_s"], "phase.read back": 0.5 * frame["step_s"]})
            frame.to_parquet(attempt.path / "steps.parquet")

    plain, with_phases = load(loaded.sweep_dir.path).analysis.arms

    assert plain.phases_s == {}
    assert list(with_phases.phases_s) == ["forward", "read back", "rest"]
    assert with_phases.mean_s is not None
    shares = [value / with_phases.mean_s for value in with_phases.phases_s.values()]
    assert shares == pytest.approx([0.25, 0.5, 0.25], rel=0.02)


def test_the_peak_of_the_allocator_is_taken_from_the_steps_where_a_trainer_records_it(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    (first, *_) = (one for one in loaded.used if one.run.arm == "b")
    frame = pd.read_parquet(first.path / "steps.parquet")
    frame.assign(peak_allocated_mib=4000.0 + frame["step"]).to_parquet(first.path / "steps.parquet")

    assert [arm.allocated_mib for arm in load(loaded.sweep_dir.path).analysis.arms] == [None, 4020.0]


def test_the_spread_of_an_aa_sweep_of_the_same_session_is_pooled_in(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path / "one", CONFIG, 0.002)
    on_disk(tmp_path / "aa", CONFIG, 0.001)

    pooled = load(loaded.sweep_dir.path, aa=tmp_path / "aa" / "sweep")

    (alone,), (together,) = loaded.analysis.comparisons, pooled.analysis.comparisons
    assert (alone.df, together.df) == (3, 6)
    assert together.method == "paired t, variance pooled with A/A rounds"
    assert (together.noise_floor_source or "").startswith("A/A")


def test_an_aa_sweep_of_another_node_or_workload_is_refused_with_the_reasons(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path / "one", CONFIG, 0.002)
    other = replace(CONFIG, workload=WorkloadConfig("other", command="x"))
    on_disk(tmp_path / "aa", other, 0.001, node="elsewhere")

    with pytest.raises(UsageError, match=r"workload, window or ranks are others; it was measured on another node"):
        load(loaded.sweep_dir.path, aa=tmp_path / "aa" / "sweep")


def test_pooled_sweeps_keep_their_rounds_apart_and_say_that_they_were_pooled(tmp_path: Path) -> None:
    sweeps = [on_disk(tmp_path / name, CONFIG, spread) for name, spread in (("one", 0.001), ("two", 0.002))]

    analysis = pool(sweeps).analysis

    assert analysis.rounds == (1, 2, 3, 4, 5, 6, 7, 8)
    ratios = [ratio for one in sweeps for ratio in one.analysis.comparisons[0].round_ratios]
    assert analysis.comparisons[0].round_ratios == pytest.approx(ratios)
    assert analysis.notes[0].startswith("pooled over 2 sweeps, whose sessions may differ")
    assert analysis.confidence == 0.97


def test_a_sweep_given_twice_is_not_pooled_with_itself(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)

    with pytest.raises(UsageError, match="a sweep is given twice"):
        pool([loaded, loaded])


def test_sweeps_of_other_arms_are_not_pooled(tmp_path: Path) -> None:
    one = on_disk(tmp_path / "one", CONFIG, 0.001)
    two = on_disk(tmp_path / "two", replace(CONFIG, env={"A": "1"}), 0.001)

    with pytest.raises(UsageError, match=r"has other arms than .*\(a, b differ\)"):
        pool([one, two])


def test_sessions_that_differ_do_not_widen_the_noise_of_pooled_sweeps(tmp_path: Path) -> None:
    sweeps = [on_disk(tmp_path / name, CONFIG, 0.002, slower=by) for name, by in (("one", 1.0), ("two", 1.05))]

    analysis = pool(sweeps).analysis

    alone = sweeps[0].analysis.comparisons[0].noise_floor
    together = analysis.comparisons[0].noise_floor
    assert alone is not None
    assert together is not None
    assert together < alone
    assert "sessions (or lanes, nodes) differ by 5.0 %; rounds are compared within each" in analysis.notes
    assert any(note.startswith("ratio by block (rounds): ") for note in analysis.comparisons[0].notes)
    assert not any(note.startswith("drift over the sweep") for note in analysis.notes)


def test_a_round_that_lacks_an_arm_does_not_make_its_session_look_faster(tmp_path: Path) -> None:
    one = on_disk(tmp_path / "one", CONFIG, 0.0, failed={"b": {1}}, apart=2.0)
    other = on_disk(tmp_path / "two", CONFIG, 0.0, apart=2.0)

    notes = pool([one, other]).analysis.notes

    assert "sessions (or lanes, nodes) differ by 0.0 %; rounds are compared within each" in notes


def in_lanes(folder: Path, *slower: float) -> SweepDir:
    """A submitted sweep whose lanes are finished, one a factor by which its node is slower."""
    whole = SweepDir(folder / "whole")
    jobs = tuple(LaneJob(number, f"lanes/{number}", ("7",), (1.0,)) for number in range(len(slower)))
    for job, factor in zip(jobs, slower, strict=True):
        made = on_disk(folder / f"made-{job.number}", CONFIG, 0.002, slower=factor)
        lane_dir(whole, job).path.parent.mkdir(parents=True, exist_ok=True)
        made.sweep_dir.path.rename(lane_dir(whole, job).path)
        write_json(
            session_path(lane_dir(whole, job), "7"), Session("7", f"n{job.number}", "python", {"torch": "2"}, 1.0)
        )
    write_sweep(whole, made.sweep, made.plan, "test")
    write_lanes(whole, Lanes(jobs, "python", {"torch": "2"}))
    return whole


def test_lanes_are_blocks_of_one_sweep_and_cost_no_confidence(tmp_path: Path) -> None:
    loaded = load(in_lanes(tmp_path, 1.0, 1.2).path)

    analysis = loaded.analysis
    assert analysis.rounds == tuple(range(1, 9))
    assert analysis.confidence == 0.95
    assert "sessions (or lanes, nodes) differ by 20.0 %; rounds are compared within each" in analysis.notes
    (note,) = [note for note in analysis.comparisons[0].notes if note.startswith("ratio by block")]
    assert note.startswith("ratio by block (rounds): lane 0 ")
    assert "(4), lane 1 " in note
    assert not any("ran under" in note for note in analysis.notes)


def test_a_lane_under_another_interpreter_is_told(tmp_path: Path) -> None:
    whole = in_lanes(tmp_path, 1.0)
    write_json(session_path(SweepDir(whole.path / "lanes/0"), "8"), Session("8", "n5", "other", {"torch": "3"}, 2.0))

    assert (
        "lane 0 ran under another environment on n5: other (submitted with python), torch 3 (submitted with 2)"
        in load(whole.path).analysis.notes
    )


def test_pooling_says_where_the_nodes_are_others_and_refuses_other_ranks(tmp_path: Path) -> None:
    one = on_disk(tmp_path / "one", CONFIG, 0.001, node="n1")
    elsewhere = on_disk(tmp_path / "two", CONFIG, 0.001, node="n2")
    wider = on_disk(tmp_path / "three", replace(CONFIG, ranks=RanksConfig("plain", 4)), 0.001)

    assert "they were measured on different nodes: n1, n2" in pool([one, elsewhere]).analysis.notes
    with pytest.raises(UsageError, match="has other arms"):
        pool([one, wider])


@pytest.mark.parametrize("window", [(2, 20), (10, 15)])
def test_a_run_that_is_shorter_than_another_window_is_left_out_and_named(
    tmp_path: Path, window: tuple[int, int]
) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    short = loaded.used[3]
    frame = pd.read_parquet(short.path / "steps.parquet")
    frame[frame["step"] <= 17].to_parquet(short.path / "steps.parquet")

    analysis = load(loaded.sweep_dir.path, window=window).analysis

    left_out = [note for note in analysis.notes if note.startswith(f"{short.run.id} is left out: window")]
    assert not any("are left out" in note for note in analysis.notes)
    assert len(left_out) == (1 if window[1] > 17 else 0)
    assert len(analysis.rounds) == (3 if window[1] > 17 else 4)


def test_what_is_told_of_runs_without_steps_is_told_once_with_the_log_that_has_the_output(tmp_path: Path) -> None:
    cause = Cause("no_steps_found", "no step times in stdout.log: give x\n  stdout.log begins:\n    | epoch 0")
    loaded = on_disk(tmp_path, CONFIG, 0.001, failed={"a": {1}, "b": {1}}, cause=cause)
    for path in loaded.sweep_dir.path.glob("runs/00*"):
        (path / "stderr.log").write_text("interlace rank: unpinned\n")
        (path / "stdout.log").write_text("epoch 0 done in 12 s, lr 0.1, loss 3.2\n")

    first, second = load(loaded.sweep_dir.path).analysis.troubles

    assert (first.message, second.message) == (cause.message, "no step times in stdout.log: give x")
    assert {one.log.rpartition("/")[2] for one in (first, second)} == {"stdout.log"}


def test_what_was_said_of_the_steps_of_the_first_window_is_not_said_of_another(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    stall, other = "the mean step is 16 % above the median: some steps stall", "no GPU samples: none"
    assert loaded.used[0].record is not None
    write_record(loaded.used[0].path, replace(loaded.used[0].record, notes=(stall, other)))

    first, second = (" ".join(load(loaded.sweep_dir.path, window=window).analysis.notes) for window in (None, (2, 20)))

    assert stall in first
    assert stall not in second
    assert other in second


def test_a_burn_in_run_is_no_step_series_that_counts(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, replace(CONFIG, burn_in=True), 0.001)

    burn_in = loaded.runs[loaded.runs["round"] == 0]
    assert list(burn_in["used"]) == [False]
    assert set(loaded.steps["round"]) == {1, 2, 3, 4}


def test_the_log_that_is_named_has_something_of_the_trainers(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001, failed={"a": {1}, "b": {1}})
    for path in loaded.sweep_dir.path.glob("runs/00*"):
        (path / "stderr.log").write_text("interlace rank: unpinned: this node has one NUMA node, CPUs 0-1\n")
        (path / "stdout.log").write_text("hello\n")

    assert {one.log.rpartition("/")[2] for one in load(loaded.sweep_dir.path).analysis.troubles} == {"stdout.log"}


def test_what_holds_of_all_runs_is_said_so_whatever_was_cut_and_counts_as_their_range(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    for place, one in enumerate(loaded.used):
        assert one.record is not None
        notes = ("no GPU samples: none", f"interleaved_lines: lines taken apart: {place + 3} in all")
        write_record(one.path, replace(one.record, notes=notes))
    run = loaded.used[2].run
    again = loaded.sweep_dir.run(run.id, 2)
    again.mkdir()
    write_record(again, RunRecord(run, 2, "interrupted", 100.0, 0.0, None, Cause("cut", "cut")))

    told = load(loaded.sweep_dir.path).analysis.notes

    assert "no GPU samples: none (all runs)" in told
    assert "interleaved_lines: lines taken apart: 3 to 10 each (all runs)" in told


def test_what_is_odd_about_another_window_is_said(tmp_path: Path) -> None:
    path = on_disk(tmp_path, CONFIG, 0.001).sweep_dir.path

    notes = load(path, window=(11, 20)).analysis.notes

    assert any("only 10 steps in the window" in note and "all runs" in note for note in notes)


def test_an_aa_sweep_that_is_too_short_to_pool_is_refused(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path / "one", CONFIG, 0.002)
    on_disk(tmp_path / "aa", replace(CONFIG, rounds=3), 0.001)

    with pytest.raises(UsageError, match="has 3 complete rounds; 4 are needed"):
        load(loaded.sweep_dir.path, aa=tmp_path / "aa" / "sweep")


def test_screens_are_not_pooled(tmp_path: Path) -> None:
    sweeps = [on_disk(tmp_path / name, replace(CONFIG, order="screen", rounds=1), 0.001) for name in ("one", "two")]

    with pytest.raises(UsageError, match="ran in screen order, whose rounds give no verdict"):
        pool(sweeps)


def test_several_folders_stand_alone_unless_pooling_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(on_disk(tmp_path / name, CONFIG, 0.001).sweep_dir.path) for name in ("one", "two")]

    assert main(["report", *folders, "--json"]) == 0
    alone = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["report", "--pool", *folders, "--json"]) == 0
    pooled = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [len(one["rounds"]) for one in alone] == [4, 4]
    assert [len(one["rounds"]) for one in pooled] == [8]


def test_rounds_can_be_added_by_hand_and_never_taken_away(tmp_path: Path) -> None:
    plan = on_disk(tmp_path, CONFIG, 0.001).plan

    longer = with_rounds(plan, 6)

    assert [one.round for one in longer.extensions] == [5, 6]
    with pytest.raises(UsageError, match="the plan has 4 rounds already"):
        with_rounds(plan, 4)


def test_a_step_series_that_is_broken_is_named(tmp_path: Path) -> None:
    loaded = on_disk(tmp_path, CONFIG, 0.001)
    (loaded.tries[0].path / "steps.parquet").write_bytes(b"PAR1 cut off")

    assert main(["report", str(loaded.sweep_dir.path)]) == 2


def test_a_folder_that_is_no_sweep_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("report", "status", "resume"):
        assert main([command, str(tmp_path)]) == 2
        assert "is not the folder of a sweep: it has no plan.json" in capsys.readouterr().err
