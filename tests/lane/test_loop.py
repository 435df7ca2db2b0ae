"""The lane loop with real processes: a plain launcher and a trainer without torch, so that it is quick."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest

from interlace import process
from interlace.arms import name_slugs
from interlace.errors import UsageError
from interlace.extend import extended
from interlace.files import SweepDir, write_json
from interlace.lane import loop as execute_module
from interlace.lane import watch
from interlace.lane.lane import Lane, Silent
from interlace.lane.loop import close_cut_runs, execute
from interlace.lane.others import crowded
from interlace.loaded import load
from interlace.monitor.fake import FakeGpus
from interlace.monitor.foreign import Sighting
from interlace.monitor.off import NoGpus
from interlace.monitor.readings import Gpu, GpuProcess, GpuSample, ProcessList
from interlace.monitor.sampler import MonitorResult
from interlace.plan import make_plan
from interlace.records import remaining, write_record
from interlace.schema import Arm, Cause, GpuSeen, Plan, RunRecord, Sweep
from interlace.settings import GateConfig, MeasureConfig, MonitorConfig, RanksConfig, SweepConfig, WorkloadConfig
from interlace.sweepfile import read_sweep, write_sweep

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("clean_env")]


def config(command: str, **more: object) -> SweepConfig:
    measure = MeasureConfig(window=[2, 5], timeout_s=20.0, stall_s=10.0, grace_s=0.5)
    base = SweepConfig(
        "s", WorkloadConfig("w", command=command, steps=5), RanksConfig("plain", 1), rounds=1, burn_in=False,
        measure=measure, gate=GateConfig("off"), monitor=MonitorConfig(interval_s=0.1),
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def lane(tmp_path: Path, *arms: tuple[str, SweepConfig], rounds: int = 1) -> tuple[Lane, Plan]:
    named = name_slugs([Arm(name, "", (), configured) for name, configured in arms])
    sweep = Sweep("s", tuple(named), named[0].slug, replace(arms[0][1], rounds=rounds))
    sweep_dir = SweepDir(tmp_path / "sweep")
    plan = make_plan(sweep)
    write_sweep(sweep_dir, sweep, plan, "test")
    write_json(sweep_dir.plan, plan)
    trees = {arm.slug: None for arm in named}
    return Lane(sweep_dir, sweep, trees, NoGpus("none here"), os.environ, Silent()), plan


def measured(tmp_path: Path, command: str, **more: object) -> RunRecord:
    held, plan = lane(tmp_path, ("a", config(command, **more)))
    (record,) = execute(held, plan)
    return record


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / f"script{len(list(tmp_path.iterdir()))}.py"
    path.write_text(text)
    return f"python {path}"


def test_a_finished_run_leaves_everything_that_repeats_and_explains_it(tmp_path: Path, trainer: Path) -> None:
    record = measured(tmp_path, f"python {trainer} 5 0.02")

    run_dir = tmp_path / "sweep" / "runs" / "000-r1-a"
    assert (record.status, record.steps_seen, record.world_size_found) == ("ok", 5, 1)
    assert record.steps is not None
    assert (record.steps.first, record.steps.last, record.steps.n) == (2, 5, 4)
    assert {path.name for path in run_dir.iterdir()} == {
        "command.sh", "config.json", "env.json", "stdout.log", "stderr.log", "started.json", "steps", "ranks",
        "steps.parquet", "monitor.parquet", "placement.json", "record.json",
    }  # fmt: skip
    assert json.loads((run_dir / "record.json").read_text())["format_version"] == 1
    assert json.loads((run_dir / "placement.json").read_text())[0]["rank"] == 0
    assert list(pd.read_parquet(run_dir / "steps.parquet")["step"]) == [1, 2, 3, 4, 5]


def test_failing_arms_are_data_and_the_sweep_goes_on(tmp_path: Path, trainer: Path) -> None:
    good = f"python {trainer} 5 0.01"
    held, plan = lane(
        tmp_path,
        ("ok1", config(good)),
        ("exit3", config("sh -c 'exit 3'")),
        ("sigkill", config("sh -c 'kill -9 $$'")),
        ("missing", config("/nonexistent/binary")),
        ("ok2", config(good)),
    )

    ended = {record.run.arm: record for record in execute(held, plan)}

    assert {arm: record.status for arm, record in ended.items()} == {
        "ok1": "ok", "exit3": "failed", "sigkill": "killed", "missing": "failed", "ok2": "ok",
    }  # fmt: skip
    assert [ended[arm].returncode for arm in ("exit3", "sigkill", "missing")] == [3, -9, 127]


def test_a_program_that_cannot_be_started_at_all_is_a_failed_run(tmp_path: Path) -> None:
    record = measured(tmp_path, "/nonexistent/binary", ranks=RanksConfig("plain", 0))

    assert (record.status, record.returncode) == ("failed", None)
    assert record.cause is not None
    assert "cannot start '/nonexistent/binary'" in record.cause.message


ANOTHER = ProcessList((GpuProcess(os.getppid(), "GPU-1", "other", 2048.0),))


def beside_another(tmp_path: Path, trainer: Path, action: Literal["wait", "warn"]) -> tuple[RunRecord, Lane]:
    """Measure three seconds on a fake GPU on which somebody else's process appears after the gate."""
    # A busy machine must not make the gate look twice: the script of processes would be one further.
    monitor, gate = MonitorConfig(interval_s=0.05), GateConfig(action, timeout_s=20.0, cpu_busy_pct=100.0)
    held, plan = lane(tmp_path, ("a", config(f"python {trainer} 6 0.6", gate=gate, monitor=monitor)))
    idle = [GpuSample(0.0, "GPU-1", 3.0, 0.0)]
    gpus = FakeGpus([Gpu(0, "GPU-1", "0000:1b:00.0")], [idle], [ProcessList(), ANOTHER])
    held = replace(held, gpus=gpus)
    (record,) = execute(held, plan)
    return record, held


@pytest.mark.slow
def test_a_run_that_others_shared_the_gpus_with_is_disturbed_and_stays_on_record(tmp_path: Path, trainer: Path) -> None:
    record, held = beside_another(tmp_path, trainer, "wait")

    assert (record.status, record.steps is not None) == ("disturbed", True)
    assert record.cause is not None
    assert record.cause.message.startswith(f"others computed on the GPUs: pid {os.getppid()} (other) on GPU 0 from 0")
    loaded = load(held.sweep_dir.path)
    assert loaded.used == ()
    assert remaining(held.sweep_dir, loaded.plan) == []
    assert extended(loaded).extensions[0].repeats == 1


@pytest.mark.slow
def test_where_the_gate_only_warns_such_a_run_counts_and_names_them(tmp_path: Path, trainer: Path) -> None:
    record, held = beside_another(tmp_path, trainer, "warn")

    assert record.status == "ok"
    assert [(one.pid, one.index) for one in record.foreign] == [(os.getppid(), 0)]
    assert len(load(held.sweep_dir.path).used) == 1


def test_a_gate_remembers_how_little_an_empty_gpu_shows_and_writes_what_it_saw(tmp_path: Path, trainer: Path) -> None:
    limits = GateConfig("fail", cpu_busy_pct=100.0)
    held, plan = lane(tmp_path, *((name, config(f"python {trainer} 5 0.01", gate=limits)) for name in "ab"))
    later = [[GpuSample(0.0, "GPU-1", 800.0, 0.0)]]
    first = [[GpuSample(0.0, "GPU-1", 400.0, 0.0)]]
    gpus = [Gpu(0, "GPU-1", "0000:1b:00.0")]

    one = execute(replace(held, gpus=FakeGpus(gpus, first)), replace(plan, runs=plan.runs[:1]))
    two = execute(replace(held, gpus=FakeGpus(gpus, later)), replace(plan, runs=plan.runs[1:]))

    assert [record.status for record in (*one, *two)] == ["ok", "disturbed"]
    assert two[0].cause is not None
    assert "800 MiB in use, 400 when it was empty: not drained" in two[0].cause.message
    seen = json.loads((held.sweep_dir.run(plan.runs[0].id, 1) / "gate.json").read_text())
    assert seen["evidence"]["gpus"][0]["used_mib"] == 400.0


def test_each_arm_is_watched_by_the_source_it_names(tmp_path: Path, trainer: Path) -> None:
    command = f"python {trainer} 5 0.01"
    held, plan = lane(
        tmp_path, ("watched", config(command)), ("unwatched", config(command, monitor=MonitorConfig("off", 3600.0)))
    )
    fake = FakeGpus([Gpu(0, "GPU-1", "0000:1b:00.0")], [[GpuSample(0.0, "GPU-1", 3.0, 0.0)]])
    held = replace(held, gpus=fake, monitors={"auto": fake, "off": NoGpus("off")})

    records = {record.run.arm: record for record in execute(held, plan)}

    assert [gpu.uuid for gpu in records["watched"].gpus] == ["GPU-1"]
    assert records["unwatched"].gpus == ()


def test_several_processes_of_ours_on_one_gpu_are_said() -> None:
    seen = tuple(Sighting(pid, "GPU-1", None, "own", 5.0, 9.0, looks=4) for pid in (7, 8))
    alone = Sighting(9, "GPU-2", None, "own", 5.0, 9.0, looks=4)
    result = MonitorResult("fake", 0.0, 0.0, 0.2, {}, (GpuSeen("GPU-1", 0, 1.0, 1.0),), (*seen, alone))

    assert crowded(result) == ("GPU 0: 2 processes of ours computed there; its peak memory holds them all",)


def test_whom_a_warning_gate_saw_is_named_on_the_run_however_short_it_is(tmp_path: Path, trainer: Path) -> None:
    held, plan = lane(tmp_path, ("a", config(f"python {trainer} 5 0.001", gate=GateConfig("warn", cpu_busy_pct=100.0))))
    idle = [GpuSample(0.0, "GPU-1", 3.0, 0.0)]
    gpus = FakeGpus([Gpu(0, "GPU-1", "0000:1b:00.0")], [idle], [ANOTHER, ProcessList()])

    (record,) = execute(replace(held, gpus=gpus), plan)

    assert record.status == "ok"
    assert [(one.pid, one.index) for one in record.foreign] == [(os.getppid(), 0)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
@pytest.mark.slow
def test_a_disk_that_a_run_fills_is_one_sentence_and_the_run_is_measured_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no mounts here: {mounted.stderr.decode().strip()}")
    try:
        fill = f"""
try:
    with open({str(disk / "filler")!r}, "wb") as filler:
        filler.write(b"0" * 80_000_000)
except OSError:
    pass
"""
        held, plan = lane(disk, ("a", config(script(tmp_path, SPINNING + fill))))
        with pytest.raises(UsageError, match=r"000-r1-a cannot be written .*interlace resume"):
            execute(held, plan)
        (disk / "filler").unlink()
        assert remaining(held.sweep_dir, plan) == list(plan.runs)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_what_others_used_of_the_cpus_is_the_load_that_was_not_the_runs(tmp_path: Path, trainer: Path) -> None:
    quiet = measured(tmp_path / "quiet", f"python {trainer} 5 0.1")
    busy = measured(tmp_path / "busy", script(tmp_path, SPINNING))

    assert quiet.others_cpu_pct is not None
    assert busy.others_cpu_pct is not None
    assert busy.cpu_busy_pct is not None
    assert busy.cpu_busy_pct - busy.others_cpu_pct >= 100.0 / (os.cpu_count() or 1) / 2


SPINNING = """
import time
from interlace.recorder import StepRecorder
with StepRecorder() as recorder:
    for _ in range(6):
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            pass
        recorder.step()
"""


def test_fewer_ranks_than_asked_fail_the_run(tmp_path: Path, trainer: Path) -> None:
    record = measured(tmp_path, f"python {trainer} 5 0.01", ranks=RanksConfig("plain", 2))

    assert record.status == "failed"
    assert record.cause is not None
    assert record.cause.code == "world_size"


def test_a_run_that_hangs_after_its_last_step_is_ended_after_the_grace_and_counts(tmp_path: Path) -> None:
    record = measured(
        tmp_path,
        script(
            tmp_path,
            "import time\nfrom interlace.recorder import StepRecorder\nr = StepRecorder()\n"
            "for _ in range(5):\n    time.sleep(0.01); r.step()\nr.flush()\ntime.sleep(60)\n",
        ),
    )

    assert record.status == "ok"
    assert record.notes[0].startswith("measured, teardown failed: still there 0.5 s after the last step")


def test_a_run_that_stops_making_steps_is_stalled(tmp_path: Path) -> None:
    record = measured(
        tmp_path, "sh -c 'echo step=1 step_s=0.1; sleep 60'",
        measure=MeasureConfig(window=[2, 5], timeout_s=20.0, stall_s=0.5, grace_s=0.5),
    )  # fmt: skip

    assert record.status == "stalled"
    assert record.cause is not None
    assert record.cause.message == "no new step for measure.stall_s=0.5; 1 step seen"


def test_a_log_without_steps_fails_the_run_and_shows_what_was_there(tmp_path: Path) -> None:
    record = measured(tmp_path, "sh -c 'echo loss=0.5 lr=0.4'")

    assert record.status == "failed"
    assert record.cause is not None
    assert record.cause.code == "no_steps_found"
    assert record.cause.message == (
        "no step times in stdout.log: give measure.pattern='...(?P<step_s>[0-9.]+)' or measure.reader=NAME, or three "
        "lines in the trainer (docs/recorder.md)\n  stdout.log begins:\n    | loss=0.5 lr=0.4\n  No run has to be made "
        "again for a pattern: `interlace steps LOG pattern=...` tries it on a log, and `interlace compare` reads the "
        "logs of several runs with it"
    )


@pytest.mark.parametrize(
    ("command", "measure", "message"),
    [
        (
            "true",
            {},
            "the trainer wrote nothing into stderr.log and stdout.log; where it writes to a file, name that: ",
        ),
        (
            "sh -c 'echo a >&2; yes b | head -n 99'",
            {},
            "no step times in stdout.log or stderr.log: give measure.pattern=",
        ),
        (
            "echo took 3",
            {"pattern": "in (?P<step_s>.)"},
            "no step times in stdout.log by measure.pattern=in (?P<step_s",
        ),
        (
            "echo took 3",
            {"reader": "megatron"},
            "no step times in stdout.log by measure.reader=megatron: give measure.",
        ),
        ("true", {"log": "gone.jsonl"}, "gone.jsonl: there is no such file; check the path"),
    ],
    ids=["silent", "both streams", "a pattern", "a reader", "no such log"],
)
def test_a_run_without_steps_says_first_what_to_do(
    tmp_path: Path, command: str, measure: dict[str, str], message: str
) -> None:
    record = measured(tmp_path, command, measure=MeasureConfig(window=[2, 5], **measure))  # type: ignore[arg-type]

    assert record.cause is not None
    assert record.cause.code == "no_steps_found"
    assert message in record.cause.message.splitlines()[0]
    assert "interlace, lerobot" not in record.cause.message


def test_a_users_pattern_reads_the_captured_output(tmp_path: Path) -> None:
    record = measured(
        tmp_path, "sh -c 'for i in 1 2 3 4 5; do echo took $i 40 msec; done'",
        measure=MeasureConfig(window=[2, 5], pattern=r"took (?P<step>\d+) (?P<step_s>\d+) msec", unit="ms"),
    )  # fmt: skip

    assert record.status == "ok"
    assert record.steps is not None
    assert record.steps.median_s == pytest.approx(0.04)


def test_a_log_file_of_the_trainers_own_is_read_where_it_is_named(tmp_path: Path) -> None:
    command = 'sh -c \'for i in 1 2 3 4 5; do echo "{\\"step\\": $i, \\"step_s\\": 0.25}" >> {run_dir}/m.jsonl; done\''
    record = measured(tmp_path, command, measure=MeasureConfig(window=[2, 5], log="{run_dir}/m.jsonl"))

    assert (record.status, record.reader) == ("ok", "jsonl")


def test_an_interrupt_leaves_a_record_and_resuming_measures_only_what_is_missing(
    tmp_path: Path, trainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.02)
    command = f"python {trainer} 5 0.01"
    held, plan = lane(tmp_path, ("a", config(command)), ("b", config(command)))

    class Interrupting(Silent):
        def progress(self, steps_seen: int, elapsed_s: float) -> None:
            raise KeyboardInterrupt(steps_seen, elapsed_s)

    first = plan.runs[0].arm
    with pytest.raises(KeyboardInterrupt):
        execute(replace(held, observer=Interrupting()), plan)
    assert [record.status for record in load(held.sweep_dir.path).records] == ["interrupted"]

    assert [record.run.arm for record in execute(held, plan)] == [run.arm for run in plan.runs]

    tries = load(held.sweep_dir.path).runs
    assert list(tries[tries["arm"] == first]["attempt"]) == [1, 2]
    assert list(tries[tries["arm"] == first]["used"]) == [False, True]
    assert execute(held, plan) == []


def test_ranks_that_an_earlier_orchestrator_left_behind_are_ended_whatever_their_record_says(tmp_path: Path) -> None:
    held, plan = lane(tmp_path, ("a", config("sleep 60")), ("b", config("sleep 60")))
    cut, recorded = (held.sweep_dir.run(run.id, 1) for run in plan.runs)
    left = []
    for path in (cut, recorded):
        path.mkdir(parents=True)
        env = {**os.environ, process.MARKER: str(path)}
        left.append(process.start(["sleep", "60"], env, tmp_path, tmp_path / "out", tmp_path / "err"))
    write_record(recorded, RunRecord(plan.runs[1], 1, "interrupted", 0.0, 1.0, None))

    (closed,) = close_cut_runs(held.sweep_dir, plan)

    assert [process.reap(child) for child in left] == [-15, -15]
    assert closed.status == "interrupted"
    assert closed.cause == Cause(
        "cut", "the orchestrating process died while this run was on; its 1 left-over process was ended"
    )
    assert close_cut_runs(held.sweep_dir, plan) == []


def test_a_run_that_was_started_anew_and_then_cut_is_not_finished(tmp_path: Path) -> None:
    held, plan = lane(tmp_path, ("a", config("x")))
    (run,) = plan.runs
    held.sweep_dir.run(run.id, 1).mkdir(parents=True)
    held.sweep_dir.run(run.id, 2).mkdir()
    write_record(held.sweep_dir.run(run.id, 1), RunRecord(run, 1, "failed", 0.0, 1.0, 1, Cause("port_in_use", "x")))

    close_cut_runs(held.sweep_dir, plan)

    assert remaining(held.sweep_dir, plan) == [run]


def test_a_port_that_was_taken_starts_the_run_anew(tmp_path: Path, trainer: Path) -> None:
    first = tmp_path / "was-here"
    command = f"sh -c 'test -e {first} || {{ touch {first}; echo EADDRINUSE >&2; exit 1; }}; python {trainer} 5 0.01'"

    record = measured(tmp_path, command)

    assert (record.status, record.attempt) == ("ok", 2)


def test_another_runs_log_is_never_taken_for_this_runs_own(tmp_path: Path) -> None:
    log = tmp_path / "m.jsonl"
    lines = "".join(f'{{"step": {n}, "step_s": 0.1}}\n' for n in range(1, 6))
    writes = script(tmp_path, f"open({str(log)!r}, 'a').write({lines!r})")
    measure = MeasureConfig(window=[2, 5], log=str(log))
    held, plan = lane(
        tmp_path, ("writes", config(writes, measure=measure)), ("silent", config("true", measure=measure)), rounds=2
    )

    ended = execute(held, plan)

    assert {record.run.arm: record.status for record in ended} == {"writes": "ok", "silent": "failed"}
    assert [record.steps_seen for record in ended if record.run.arm == "writes"] == [5, 5]
    assert not log.exists()


def test_a_stopped_run_takes_its_log_with_it_so_that_resuming_finds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.05)
    log = tmp_path / "m.log"
    command = f"sh -c 'for i in 1 2 3 4 5; do echo step=$i step_s=0.1s >> {log}; sleep 0.1; done'"
    held, plan = lane(tmp_path, ("a", config(command, measure=MeasureConfig(window=[2, 5], log=str(log)))))

    class Interrupting(Silent):
        def progress(self, steps_seen: int, elapsed_s: float) -> None:
            if steps_seen:
                raise KeyboardInterrupt(elapsed_s)

    with pytest.raises(KeyboardInterrupt):
        execute(replace(held, observer=Interrupting()), plan)
    assert not log.exists()

    assert [record.status for record in execute(held, plan)] == ["ok"]


def test_a_log_that_was_there_before_is_refused_and_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "m.jsonl"
    log.write_text('{"step": 1, "step_s": 0.1}\n')

    record = measured(tmp_path, "true", measure=MeasureConfig(window=[2, 5], log=str(log)))

    assert record.status == "failed"
    assert record.cause is not None
    assert "is there before the run starts" in record.cause.message
    assert log.read_text() == '{"step": 1, "step_s": 0.1}\n'


def test_a_log_that_counts_from_zero_is_counted_from_one(tmp_path: Path) -> None:
    record = measured(tmp_path, "sh -c 'for i in 0 1 2 3 4; do echo step=$i step_s=0.25s; done'")

    assert record.status == "ok", record.cause
    assert record.steps is not None
    assert (record.steps.first, record.steps.last, record.steps.n) == (2, 5, 4)


def test_more_ranks_than_a_single_wrapper_saw_are_found_in_the_step_logs(tmp_path: Path) -> None:
    text = (
        "import time\nfrom interlace.recorder import StepRecorder\n"
        "both = [StepRecorder(rank=r, world_size=2) for r in (0, 1)]\n"
        "for _ in range(5):\n    time.sleep(0.01)\n    for one in both: one.step()\n"
        "for one in both: one.close()\n"
    )

    record = measured(tmp_path, script(tmp_path, text))

    assert (record.status, record.world_size_found) == ("failed", 2)


def test_command_sh_leaves_what_the_run_recorded_as_it_was(tmp_path: Path, trainer: Path) -> None:
    measured(tmp_path, f"python {trainer} 5 0.01")
    run_dir = tmp_path / "sweep" / "runs" / "000-r1-a"
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

    ended = subprocess.run(["bash", str(run_dir / "command.sh")], capture_output=True, text=True, check=True)

    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before
    repeated = Path(ended.stderr.split("step logs go to ")[1].splitlines()[0])
    assert (repeated / "rank-0.jsonl").read_text().endswith('{"end": true, "steps": 5}\n')


def test_after_a_long_pause_a_burn_in_run_comes_first_again(
    tmp_path: Path, trainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = f"python {trainer} 5 0.01"
    both = (("a", config(command, burn_in=True)), ("b", config(command, burn_in=True)))
    held, plan = lane(tmp_path, *both)
    execute(held, replace(plan, runs=plan.runs[:2]))
    monkeypatch.setattr(execute_module, "LONG_PAUSE_S", -1.0)

    assert [record.run.round for record in execute(held, plan)] == [0, 1]


def test_what_was_decided_reads_back_from_the_sweep_file_unchanged(tmp_path: Path) -> None:
    held, _ = lane(tmp_path, ("é: 'x', #1", config("python t.py --x='${a}' # {b}")), ("b", config("x")))

    assert read_sweep(held.sweep_dir) == held.sweep
