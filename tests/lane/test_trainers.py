"""How real trainers end, and what they leave: their logs from real processes, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from interlace.settings import MeasureConfig, RanksConfig, WorkloadConfig
from tests.lane.test_loop import measured, script

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.schema import RunRecord

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("clean_env")]

LEROBOT = """
import os, sys, time
print("INFO 2026-01-02 03:04:00 ot_train.py:614 Effective batch size: 2 x 1 dp workers x 1 grad accum = 2",
      file=sys.stderr)
for step in range(1, 6):
    print(f"INFO 2026-01-02 03:04:05 ot_train.py:769 step:{step} smpl:{2 * step} ep:0 epch:0.01 loss:64.872"
          " lr:1.0e-05 data_s:0.001 prep_s:0.000 updt_s:0.260 step_s:0.270 smp/s:7 kld_loss:6.391", file=sys.stderr)
print("INFO 2026-01-02 03:05:00 ot_train.py:906 End of training", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("steps", [5, None], ids=["steps known", "steps unknown"])
@pytest.mark.parametrize(
    ("teardown", "note"),
    [
        ("time.sleep(60)", "measured, teardown failed: still there 0.5 s after the last step, so it was ended"),
        ("os.abort()", "measured, teardown failed: the program aborted"),
    ],
    ids=["hangs", "aborts"],
)
def test_a_trainer_that_never_gets_out_of_its_teardown_was_measured(
    tmp_path: Path, teardown: str, note: str, steps: int | None
) -> None:
    """As 2 of 18 runs of lerobot on two gloo ranks did after `End of training`, and others that aborted."""
    command = script(tmp_path, f"{LEROBOT}{teardown}\n")

    record = measured(tmp_path, command, workload=WorkloadConfig("w", command=command, steps=steps))

    assert (record.status, record.cause, record.reader, record.steps_seen) == ("ok", None, "lerobot", 5)
    assert note in record.notes


TORN = """
import sys
every = int(sys.argv[1])
for step in range(1, 42):
    whole = f"iter {step}: loss 3.2100, time 412.33ms, mfu 31.20%"
    print(whole if step % every else whole[:30])
"""


@pytest.mark.parametrize(("every", "status"), [(3, "incomplete"), (8, "ok")], ids=["a third", "an eighth"])
def test_a_run_that_lost_too_many_records_does_not_count(tmp_path: Path, every: int, status: str) -> None:
    command = f"{script(tmp_path, TORN)} {every}"

    record = measured(tmp_path, command, measure=MeasureConfig(window=[1, 40]))

    assert record.status == status
    assert any(note.startswith("torn_record:") for note in record.notes)
    if status == "incomplete":
        assert record.cause is not None
        assert record.cause.code == "torn_log"
        assert record.cause.message.startswith("13 of 40 records of the window are lost or cannot be read")
        assert record.steps is None


RANKS = """
import os, subprocess, sys
RANK = '''
import json, os
results = os.path.join(os.environ["INTERLACE_RUN_DIR"], "results.jsonl")
with open(results, "w") as stream:
    for step in range(1, 6):
        stream.write(json.dumps({"step": step, "step_s": 0.25}) + chr(10))
'''
for rank in "01":
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    subprocess.run([sys.executable, "-c", RANK], env={**os.environ, **told}, check=True)
"""


def test_one_file_that_every_rank_writes_is_one_series_and_the_ranks_are_proven_by_the_hook(tmp_path: Path) -> None:
    """As fairchem does, which starts its ranks itself: the last one to write wins."""
    measure = MeasureConfig(window=[2, 5], log="{run_dir}/results.jsonl", timeout_s=20.0)

    record = measured(
        tmp_path, script(tmp_path, RANKS), measure=measure, ranks=RanksConfig("plain", 2, hook=True)
    )  # fmt: skip

    assert (record.status, record.cause, record.world_size_found) == ("ok", None, 2)
    steps = pd.read_parquet(tmp_path / "sweep" / "runs" / "000-r1-a" / "steps.parquet")
    assert steps["step"].tolist() == [1, 2, 3, 4, 5]


def test_a_command_that_starts_fewer_ranks_than_asked_fails_its_run(tmp_path: Path) -> None:
    measure = MeasureConfig(window=[2, 5], log="{run_dir}/results.jsonl", timeout_s=20.0)

    record = measured(
        tmp_path, script(tmp_path, RANKS), measure=measure, ranks=RanksConfig("plain", 4, hook=True)
    )  # fmt: skip

    assert record.status == "failed"
    assert record.cause is not None
    assert record.cause.message == (
        "asked for 4 ranks, found 2; where the command starts 2 itself, give ranks.nproc_per_node=2"
    )


OWN_RANKS = """
import os, subprocess, sys
RANK = "import sys, time; [(print(f'step={n} step_s=0.1', flush=True), time.sleep(0.1)) for n in range(1, 16)]"
told = [{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"} for rank in "01"]
ranks = [subprocess.Popen([sys.executable, "-c", RANK], env={**os.environ, **one}) for one in told]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (
            RanksConfig("torchrun", 2),
            (
                "asked for 2 ranks, and these started ranks of their own (2 each): several trainings at once; "
                "give launchers=plain ranks.nproc_per_node=2, or leave the launcher out of the command"
            ),
        ),
        (
            RanksConfig("plain", 1),
            "asked for 1 rank, found 2; where the command starts 2 itself, give ranks.nproc_per_node=2",
        ),
    ],
    ids=lambda one: one.kind if isinstance(one, RanksConfig) else "",
)
@pytest.mark.slow
def test_ranks_that_a_script_starts_below_ours_fail_the_run_though_every_step_is_there(
    tmp_path: Path, ranks: RanksConfig, message: str
) -> None:
    """No word of such a command names a launcher, and its log says nothing of ranks."""
    measure = MeasureConfig(window=[2, 15], timeout_s=60.0)

    record = measured(tmp_path, script(tmp_path, OWN_RANKS), measure=measure, ranks=ranks)

    assert record.cause is not None
    assert (record.status, record.cause.code, record.cause.message) == ("failed", "world_size", message)


def test_ranks_that_the_command_starts_as_it_was_said_to_are_no_fault(tmp_path: Path) -> None:
    measure = MeasureConfig(window=[2, 15], timeout_s=60.0)

    record = measured(tmp_path, script(tmp_path, OWN_RANKS), measure=measure, ranks=RanksConfig("plain", 2))

    assert (record.status, record.cause) == ("ok", None)


OPENTAU = """
import json, os, subprocess, sys, time
RANK = '''
import json, os, sys
if os.environ["RANK"] == "0":
    means = {"forward": 0.125, "bwd": 0.25, "backward_step": 0.25, "total": 0.5}
    content = {
        "warmup": 2, "measured": 3, "num_processes": int(sys.argv[1]), "phase_means_s": means,
        "per_rank_step_time_s": [0.5], "per_rank_peak_alloc_gb": [0.0], "per_rank_peak_reserved_gb": [0.0],
    }
    with open(os.path.join(os.environ["INTERLACE_RUN_DIR"], "profile_step.json"), "w") as stream:
        json.dump(content, stream, indent=2)
'''
for rank in "01":
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    subprocess.run([sys.executable, "-c", RANK, sys.argv[1]], env={**os.environ, **told}, check=True)
time.sleep(float(sys.argv[2]))
"""
PROFILE = MeasureConfig(
    window=[5, 5], log="{run_dir}/profile_step.json", reader="opentau", timeout_s=20.0, grace_s=0.5
)  # fmt: skip


def opentau(tmp_path: Path, world: int, hangs_s: float) -> RunRecord:
    """Measure what profile_step leaves on CPU ranks: the mean of rank 0, and the size of its process group."""
    command = f"{script(tmp_path, OPENTAU)} {world} {hangs_s}"
    workload = WorkloadConfig("w", command=command, steps=5)
    return measured(
        tmp_path, command, workload=workload, measure=PROFILE, ranks=RanksConfig("plain", 2, hook=True)
    )  # fmt: skip


def test_ranks_that_train_apart_are_found_out_by_the_log_of_a_trainer_that_knows_its_group(tmp_path: Path) -> None:
    """As under accelerate on CPUs: every process does the whole job, alone, and writes the same file."""
    record = opentau(tmp_path, world=1, hangs_s=0)

    assert (record.status, record.world_size_asked, record.world_size_found) == ("failed", 2, 1)
    assert record.cause is not None
    assert "asked for 2 ranks, found 1; 2 processes were started" in record.cause.message


def test_a_profile_that_is_written_and_a_group_that_never_leaves_is_measured(tmp_path: Path) -> None:
    record = opentau(tmp_path, world=2, hangs_s=60)

    assert (record.status, record.cause, record.world_size_found, record.reader) == ("ok", None, 2, "opentau")
    assert "measured, teardown failed: still there 0.5 s after the last step, so it was ended" in record.notes
    steps = pd.read_parquet(tmp_path / "sweep" / "runs" / "000-r1-a" / "steps.parquet")
    assert steps[["step", "rank", "step_s", "phase.forward", "phase.bwd"]].to_numpy().tolist() == [
        [5, 0, 0.5, 0.125, 0.25]
    ]


def test_a_trainer_in_any_language_is_measured_by_the_protocol(tmp_path: Path) -> None:
    """The lines of docs/trainers.md, written by a shell."""
    head = '{"interlace": "steps", "format": 1, "rank": 0, "world_size": 1, "clock": "perf_counter", "unit": "s"}'
    lines = [head, *(f'{{"step": {n}, "step_s": 0.25, "t_s": {n / 4}}}' for n in range(1, 6))]
    path = tmp_path / "trainer.sh"
    written = "\n".join([*lines, '{"end": true, "steps": 5}'])
    path.write_text(f"cat > $INTERLACE_STEP_DIR/rank-0.jsonl <<'EOF'\n{written}\nEOF\n")

    record = measured(tmp_path, f"sh {path}")

    assert (record.status, record.cause, record.reader) == ("ok", None, "interlace")
    assert record.steps is not None
    assert (record.steps.stat_s, record.steps.cumulative) == (0.25, True)
