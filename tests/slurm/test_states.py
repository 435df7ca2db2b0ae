from __future__ import annotations

from datetime import datetime

import pytest

from interlace.slurm.rows import duration_s, job_ids, parse_sacct, parse_squeue, state_of
from interlace.slurm.states import Answer, Answers, JobState, judge, newest
from interlace.slurm.waiting import never_starts, waits_for

SUBMITTED_AT = datetime.fromisoformat("2026-02-02T10:00:00").timestamp()
EMPTY = Answer("squeue", "", "", 0)
DISABLED = Answer("sacct", "", "Slurm accounting storage is disabled\n", 1)


def judged(queue: Answer = EMPTY, accounts: Answer | None = None, missing_s: float = 0.0) -> JobState:
    return judge("7", Answers(queue, accounts), submitted_at=SUBMITTED_AT, missing_s=missing_s, grace_s=60.0)


@pytest.mark.parametrize(
    ("text", "state", "final"),
    [
        ("COMPLETED", "COMPLETED", True),
        ("CANCELLED by 1000", "CANCELLED", True),
        ("CANCELLED+", "CANCELLED", True),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", True),
        ("NODE_FAIL", "NODE_FAIL", True),
        ("running", "RUNNING", False),
        ("CG", "COMPLETING", False),
        ("REQUEUED", "REQUEUED", False),
        ("SPECIAL_EXIT", "SPECIAL_EXIT", False),
        ("RE+", "RE", False),
        ("NEW_STATE_OF_2030", "NEW_STATE_OF_", False),
        ("", "UNKNOWN", False),
    ],
)
def test_a_decorated_state_is_read_as_its_plain_word(text: str, state: str, final: bool) -> None:
    assert state_of(text) == (state, final)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("103", ("103",)),
        ("103_2", ("103_2",)),
        ("103_[4-6%2]", ("103_4", "103_5", "103_6")),
        ("103_[1,4-5]", ("103_1", "103_4", "103_5")),
        ("103_[0-6:3]", ("103_0", "103_3", "103_6")),
        ("103_[1-2,5-...]", ("103_1", "103_2")),
        ("103_[0-999999999]", ()),
        ("109+0", ("109",)),
        ("109+1", ("109+1",)),
        ("101.batch", ()),
        ("101.extern", ()),
        ("103_1.0", ()),
        ("109+0.batch", ()),
        ("", ()),
    ],
)
def test_an_id_stands_for_its_jobs_and_a_step_for_none(text: str, ids: tuple[str, ...]) -> None:
    assert job_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("2:03:04", 7384.0), ("5:00", 300.0), ("0", 0.0), ("UNLIMITED", None), ("INVALID", None)],
)
def test_times_are_read_in_all_their_lengths(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


def test_squeue_is_read_with_nodes_reason_and_times() -> None:
    text = (
        "CLUSTER: c1\n7|RUNNING|n[0-1]|None|1:00|59:00|2026-02-02T10:00:00\n8|PENDING||Resources|0:00|UNLIMITED|N/A\n"
    )

    first, second = parse_squeue(text)

    assert (first.state, first.node, first.reason) == ("RUNNING", "n[0-1]", None)
    assert (first.elapsed_s, first.left_s, first.submitted_at) == (60.0, 3540.0, SUBMITTED_AT)
    assert (second.state, second.node, second.reason) == ("PENDING", None, "Resources")
    assert (second.left_s, second.submitted_at) == (None, None)


def test_a_program_that_printed_errors_alone_said_nothing_whatever_its_exit_code() -> None:
    refused = Answer("sacct", "", "sacct: error: Sending PersistInit msg: Connection refused\n", 0)

    assert judged(accounts=refused).notes == (
        "sacct says nothing of jobs: sacct: error: Sending PersistInit msg: Connection refused",
    )


def test_sacct_is_read_by_its_header_or_in_the_order_we_ask_for() -> None:
    headed = parse_sacct("State|JobID|Submit\nFAILED|7|2026-02-02T10:00:00\n")
    bare = parse_sacct("7|FAILED|n0|2026-02-02T10:00:00|3:0\n7.batch|FAILED|n0|2026-02-02T10:00:00|3:0\n")

    assert [(row.job_id, row.state, row.submitted_at) for row in headed] == [("7", "FAILED", SUBMITTED_AT)]
    assert [(row.job_id, row.node, row.exit_code) for row in bare] == [("7", "n0", "3:0")]


def test_the_newest_record_counts_and_one_of_before_our_submission_never() -> None:
    rows = parse_sacct(
        "JobID|State|Submit\n7|RUNNING|2026-02-02T11:00:00\n7|PREEMPTED|2026-02-02T10:00:00\n7|FAILED|2025-01-01T00:00:00\n"
    )

    found, old = newest(rows, SUBMITTED_AT), newest(rows[2:], SUBMITTED_AT)

    assert found is not None
    assert found.state == "RUNNING"
    assert old is None


@pytest.mark.parametrize("order", [("REQUEUED", "RUNNING"), ("RUNNING", "REQUEUED"), ("PREEMPTED", "RUNNING")])
def test_a_replaced_record_gives_way_whatever_the_order(order: tuple[str, str]) -> None:
    found = newest(parse_sacct("JobID|State\n" + "".join(f"7|{state}\n" for state in order)))

    assert found is not None
    assert found.state == "RUNNING"


def test_a_preempted_job_without_a_newer_record_is_at_its_end() -> None:
    state = judged(accounts=Answer("sacct", "7|PREEMPTED|n0|2026-02-02T10:00:05|0:15\n", "", 0))

    assert (state.state, state.final, state.source, state.exit_code) == ("PREEMPTED", True, "sacct", "0:15")


def test_the_queue_counts_before_the_accounts_and_our_own_result_before_both() -> None:
    answers = Answers(Answer("squeue", "7|RUNNING|n0|None|1|1\n", "", 0), Answer("sacct", "7|FAILED|n0\n", "", 0))

    queued = judge("7", answers, submitted_at=None, missing_s=0.0)
    own = judge("7", answers, submitted_at=None, missing_s=0.0, own="COMPLETED")

    assert (queued.state, queued.source) == ("RUNNING", "squeue")
    assert (own.state, own.final, own.source) == ("COMPLETED", True, "record")


def test_a_missing_job_is_unknown_and_after_the_time_of_grace_lost() -> None:
    young, old = judged(accounts=DISABLED, missing_s=59.0), judged(accounts=DISABLED, missing_s=61.0)

    assert (young.state, young.final, young.notes) == (
        "unknown", False, ("sacct says nothing of jobs: Slurm accounting storage is disabled",),
    )  # fmt: skip
    assert (old.state, old.final) == ("lost", True)
    assert old.reason == "neither in the queue nor in the accounts for 61 s, and it left no result"


@pytest.mark.parametrize(
    "queue",
    [
        Answer("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1),
        Answer("squeue", "", "cannot start squeue: No such file or directory", None),
        Answer("squeue", "", "", 1),
    ],
)
def test_a_queue_that_could_not_be_asked_has_lost_nothing(queue: Answer) -> None:
    state = judged(queue, DISABLED, missing_s=1e6)

    assert (state.state, state.final) == ("unknown", False)
    assert state.notes[0].startswith("squeue says nothing of jobs: ")


def test_a_queue_that_does_not_know_the_id_has_answered() -> None:
    refused = Answer("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1)

    assert judged(refused, missing_s=61.0).state == "lost"


def test_an_older_job_of_the_same_id_is_named_and_not_taken() -> None:
    state = judged(accounts=Answer("sacct", "7|COMPLETED|n0|2025-01-01T00:00:00|0:0\n", "", 0))

    assert state.state == "unknown"
    assert state.notes == ("sacct knows only an older job 7 (submitted 2025-01-01 00:00)",)


@pytest.mark.parametrize(
    "reason",
    ["PartitionTimeLimit", "PartitionNodeLimit", "QOSMaxWallDurationPerJobLimit", "JobHeldUser", "BadConstraints",
     "launch failed requeued held", "job requeued in held state", "QOSMinGRES", "DependencyNeverSatisfied"],
)  # fmt: skip
def test_a_reason_that_never_ends_by_itself_is_told(reason: str) -> None:
    said = never_starts(reason)

    assert said is not None
    assert said.endswith(f" [{reason}]")


@pytest.mark.parametrize("reason", ["Resources", "Priority", "QOSMaxJobsPerUserLimit", "Dependency", "BeginTime", None])
def test_a_reason_that_passes_is_not(reason: str | None) -> None:
    assert never_starts(reason) is None


def test_what_a_job_waits_for_is_said_in_our_words_or_in_slurms() -> None:
    assert waits_for("Resources") == "it waits for nodes to become free [Resources]"
    assert waits_for("ReqNodeNotAvail, Reserved for maintenance") == (
        "nodes it needs are down, drained or reserved [ReqNodeNotAvail, Reserved for maintenance]"
    )
    down = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
    assert waits_for(down) == f"nodes it needs are down, drained or reserved [{down}]"
    assert waits_for("SomethingNew") == "SomethingNew"
    assert waits_for(None) is None
