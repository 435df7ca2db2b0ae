from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from interlace.lane.causes import Ending, find_cause, judge
from interlace.lane.ends import root_cause, signal_name
from interlace.lane.oom import kernel_oom_kills
from interlace.schema import Cause

if TYPE_CHECKING:
    from pathlib import Path

DONE = Ending(
    returncode=0, ended_by="itself", text="", steps_seen=300, last_step=300, steps_asked=300, window_last=300,
    end_marker=False, world_asked=2, world_found=2, launcher="accelerate",
)  # fmt: skip

ELASTIC = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 20473)
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 106)
  error_file: <N/A>
"""


def test_a_run_with_all_its_steps_and_a_clean_exit_is_ok() -> None:
    assert judge(DONE) == ("ok", None, ())


def test_the_root_cause_is_read_and_not_the_first_failure_listed() -> None:
    assert root_cause(ELASTIC.format(rank=5, code=-9)) == (5, -9)


def test_without_a_root_cause_block_the_agents_own_line_counts() -> None:
    assert root_cause("E failed (exitcode: -11) local_rank: 3 (pid: 7) of binary: python") == (3, -11)


@pytest.mark.parametrize(
    ("exitcode", "code"),
    [(-9, "killed"), (-11, "segfault"), (-6, "aborted"), (-7, "bus_error"), (137, "killed")],
)
def test_a_signal_in_one_rank_names_the_cause_though_the_launcher_exits_with_1(exitcode: int, code: str) -> None:
    cause = find_cause(ELASTIC.format(rank=3, code=exitcode), 1)

    assert cause is not None
    assert (cause.code, cause.rank, cause.exitcode) == (code, 3, exitcode)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "cuda_oom"),
        ("torch.OutOfMemoryError: HIP out of memory.", "cuda_oom"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "host_oom"),
        ("RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error. It is possible", "shm_exhausted"),
        ("[c10d] The server has failed to bind to [::]:29400 (errno: 98 - Address already in use).", "port_in_use"),
        ("DistNetworkError: port: 29500, code: -98, name: EADDRINUSE, message: address already in use", "port_in_use"),
        (
            "ConnectionError: Tried to launch communication on port `29500`, but another process is utilizing it.",
            "port_in_use",
        ),
        ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5", "nccl_timeout"),
        ("train.py: error: unrecognized arguments: --accelerator.ddp.bucket_cap_mb=25", "bad_arguments"),
        ("ModuleNotFoundError: No module named 'lerobot'", "import_error"),
    ],
)  # fmt: skip
def test_a_known_text_names_the_cause(text: str, code: str) -> None:
    cause = find_cause(f"noise\n{text}\nnoise", 1)

    assert cause is not None
    assert cause.code == code
    assert text.split(":", maxsplit=1)[0] in cause.message


def test_of_several_known_texts_the_last_one_counts() -> None:
    text = "bind failed: Address already in use, retrying\nncclSystemError: System call failed\n"

    cause = find_cause(text, 1)

    assert cause is not None
    assert cause.code == "nccl_error"


@pytest.mark.parametrize(
    "harmless",
    [
        "ImportError: optional codec missing, using fallback",
        "[W socket.cpp] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "CUDA out of memory, retrying with a smaller batch",
    ],
)
def test_what_a_run_got_over_is_not_blamed_for_a_later_exception(harmless: str) -> None:
    cause = find_cause(f"{harmless}\nTraceback:\nRuntimeError: shape mismatch 3 vs 4\n", 1)

    assert cause == Cause("exception", "exit code 1: RuntimeError: shape mismatch 3 vs 4", None, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("RuntimeError: CUDA error: out of memory", "cuda_oom"),
        ("ncclUnhandledCudaError: failed.\nLast error:\nCuda failure 2 'out of memory'", "cuda_oom"),
        ("xla.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes", "cuda_oom"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "cuda_error"),
        ("[rank0]: MemoryError", "host_oom"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 4.00 GiB for an array", "host_oom"),
        ("RuntimeError: DataLoader worker (pid 325) is killed by signal: Killed. ", "killed"),
        ("ncclSystemError: failed.\nLast error:\nError while creating shared memory segment /dev/shm/nccl-x (size 96)",
         "shm_exhausted"),
        ("RuntimeError: unable to write to file </torch_18_19>: No space left on device (28)", "shm_exhausted"),
        ("RuntimeError: unable to open shared memory object </torch_1> in read-write mode: Too many open files (24)",
         "too_many_files"),
        ("OSError: [Errno 28] No space left on device: '/scratch/checkpoint.pt'", "disk_full"),
        ("RuntimeError: [gloo/transport/tcp/device.cc:84] bind: Address in use", "port_in_use"),
        ("RuntimeError: Port 29500 is already in use", "port_in_use"),
        ("RuntimeError: [gloo/transport/tcp/pair.cc:81] Timed out waiting 1800000ms for recv", "nccl_timeout"),
        ("Could not override 'model.width'.\nTo append to your config use +model.width=8", "bad_arguments"),
    ],
)  # fmt: skip
def test_a_known_error_names_the_cause(text: str, code: str) -> None:
    cause = find_cause(f"noise\n{text}\n", 1)

    assert cause is not None
    assert cause.code == code


OOM = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.mark.parametrize(
    "of_the_other_rank",
    [
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting early\n",
        "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3\n",
        "[rank1]:[E1] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)\n",
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_rank_that_lost_another_one_does_not_hide_its_cause(of_the_other_rank: str, first: int) -> None:
    cause = find_cause(OOM + of_the_other_rank + ELASTIC.format(rank=first, code=1), 1)

    assert cause is not None
    assert cause.code == "cuda_oom"


def test_of_labelled_lines_those_of_the_first_rank_to_fail_count() -> None:
    text = "[rank3]: ValueError: bad batch\n[rank1]: KeyError: 'loss'\n" + ELASTIC.format(rank=3, code=1)

    assert find_cause(text, 1) == Cause("exception", "rank 3 failed: ValueError: bad batch", 3, 1)


@pytest.mark.parametrize(
    "harmless",
    [
        "ModuleNotFoundError: No module named 'flash_attn'",
        "[W socket.cpp] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "torch.OutOfMemoryError: CUDA out of memory, trying a smaller batch",
    ],
)
def test_what_ends_a_program_with_1_is_not_blamed_for_a_kill(harmless: str) -> None:
    cause = find_cause(f"{harmless}\n{ELASTIC.format(rank=5, code=-9)}", 1)

    assert cause is not None
    assert (cause.code, cause.rank) == ("killed", 5)


@pytest.mark.parametrize(
    ("text", "returncode", "found"),
    [
        ("Root Cause:\n[0]:\n  rank: 5 (local_rank: 5)\n  exitcode: -9 (pid: 4)\nOther Failures:\n  rank: 0\n", 1,
         (5, -9)),
        ("CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.", 1, (None, -9)),
        ("CalledProcessError: Command '['bash', 'x.sh']' returned non-zero exit status 139.", 1, (None, 139)),
        ("[launch.py:325:sigkill_handler] ['python', '--local_rank=7'] exits with return code = -9", 247, (7, -9)),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV", 1, (1, -11)),
        ("mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 (Killed).", 137, (3, -9)),
        ("[rank: 1] Child process with PID 44 terminated with code -9. Ending all others", -9, (1, -9)),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 3 got signal: 15", 1, (None, -15)),
    ],
)  # fmt: skip
def test_every_launcher_says_which_rank_ended_how(text: str, returncode: int, found: tuple[int | None, int]) -> None:
    cause = find_cause(text, returncode)

    assert cause is not None
    assert (cause.rank, cause.exitcode) == found
    assert cause.code in ("killed", "segfault", "terminated")


@pytest.mark.parametrize(
    "line",
    [
        "[default3]:ValueError: bad batch",
        "[default3]:[rank3]: ValueError: bad batch",
        "[1,3]<stderr>:ValueError: bad batch",
        "3: ValueError: bad batch",
        "\x1b[1;91mValueError: \x1b[0mbad batch\r",
        "    ValueError: bad batch",
    ],
)
def test_an_exception_is_found_behind_labels_and_colours(line: str) -> None:
    assert find_cause(f"Traceback:\n{line}\nwandb: synced\n", 1) == Cause(
        "exception", "exit code 1: ValueError: bad batch", None, 1
    )


@pytest.mark.parametrize("aside", ["Exception in thread Thread-1:", "Exception ignored in: <function __del__ at 0x1>"])
def test_what_is_raised_aside_while_a_program_ends_is_not_its_cause(aside: str) -> None:
    text = f"ValueError: bad batch\n{aside}\nTraceback (most recent call last):\n  File\nEOFError\n"

    assert find_cause(text, 1) == Cause("exception", "exit code 1: ValueError: bad batch", None, 1)


def test_a_launcher_that_kills_itself_after_a_rank_raised_is_not_why() -> None:
    text = "[rank1]: ValueError: bad batch\n[rank: 1] Child process with PID 44 terminated with code 1. Ending all\n"

    assert find_cause(text, -9) == Cause("exception", "rank 1 failed: ValueError: bad batch", 1, 1)


def test_what_nccl_says_of_shared_memory_that_it_has_is_no_lack_of_it() -> None:
    text = "[0] NCCL INFO MMAP imported host buffer /dev/shm/nccl-x size 96\n" + ELASTIC.format(rank=1, code=-9)

    cause = find_cause(text, 1)

    assert cause is not None
    assert cause.code == "killed"


def test_the_last_error_of_nccl_is_said() -> None:
    text = "ncclInvalidUsage: invalid usage of NCCL.\nLast error:\nDuplicate GPU: rank 1 and rank 0\n"

    assert find_cause(text, 1) == Cause(
        "nccl_error", "NCCL failed: ncclInvalidUsage: invalid usage of NCCL.: Duplicate GPU: rank 1 and rank 0", None, 1
    )


def test_any_other_signal_is_named() -> None:
    assert find_cause("Extension modules: numpy\n" + ELASTIC.format(rank=1, code=-4), 1) == Cause(
        "signal", "rank 1 was ended by SIGILL", 1, -4
    )


def test_what_an_aborted_program_threw_is_said() -> None:
    text = "terminate called after throwing an instance of 'std::runtime_error'\n  what():  the ring is closed\n"

    assert find_cause(text, -6) == Cause("aborted", "the program aborted: the ring is closed", None, -6)


def test_what_our_own_wrapper_says_explains_no_failure() -> None:
    assert find_cause("interlace rank: unpinned: this node has one NUMA node\n", 1) == Cause(
        "exit_code", "exit code 1", None, 1
    )


def test_a_trainer_that_gives_up_after_the_window_has_failed() -> None:
    status, _, _ = judge(replace(DONE, steps_asked=None, returncode=1, text="loss is nan, giving up"))

    assert status == "failed"


def test_without_an_exception_the_last_line_explains() -> None:
    text = "starting\npython: can't open file 'train.py': [Errno 2] No such file or directory\n\n"

    cause = find_cause(text, 2)

    assert cause is not None
    assert cause.message == "exit code 2: python: can't open file 'train.py': [Errno 2] No such file or directory"


def test_what_the_launcher_says_of_a_ranks_end_is_not_what_the_rank_said() -> None:
    text = (
        "train: the data set is empty; give --data\n"
        "W1130 01:30:08.1 77 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 8 closing signal\n"
        "E1130 01:30:08.3 77 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 "
        "(pid: 8) of binary: python\n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 8)\n"
        "============================================================\n"
    )

    cause = find_cause(text, 1)

    assert cause is not None
    assert cause.message == "rank 0 failed: train: the data set is empty; give --data"


def test_a_full_shared_memory_is_the_cause_of_the_exception_that_follows_it() -> None:
    text = "ERROR: insufficient shared memory (shm)\nRuntimeError: DataLoader worker exited unexpectedly\n"

    cause = find_cause(text, 1)

    assert cause is not None
    assert cause.code == "shm_exhausted"


def test_a_traceback_in_the_log_of_a_good_run_is_no_failure() -> None:
    text = "Traceback (most recent call last):\nOSError: libavutil.so.60: cannot open shared object file\n"

    assert judge(replace(DONE, text=text)) == ("ok", None, ())


def test_the_last_exception_line_explains_an_exit_code() -> None:
    text = "Traceback (most recent call last):\n  File\nValueError: batch size must be positive\n"

    assert find_cause(text, 1) == Cause("exception", "exit code 1: ValueError: batch size must be positive", None, 1)


def test_fewer_ranks_than_asked_fail_the_run_and_name_the_flag() -> None:
    status, cause, _ = judge(replace(DONE, world_found=1))

    assert status == "failed"
    assert cause is not None
    assert cause.code == "world_size"
    assert "asked for 2 ranks, found 1" in cause.message
    assert "--multi_gpu" in cause.message


def test_processes_that_were_started_and_trained_apart_fail_the_run_and_name_what_joins_them() -> None:
    status, cause, _ = judge(replace(DONE, world_found=1, started=2))

    assert status == "failed"
    assert cause is not None
    assert "found 1; 2 processes were started" in cause.message
    assert "ACCELERATE_USE_CPU=true" in cause.message


@pytest.mark.parametrize(("ended_by", "returncode"), [("itself", 1), ("grace", -15), ("stall", -15), ("timeout", -9)])
def test_a_run_that_hangs_or_fails_after_its_last_step_was_measured(ended_by: str, returncode: int) -> None:
    status, cause, notes = judge(replace(DONE, ended_by=ended_by, returncode=returncode, limit_s=60.0))  # type: ignore[arg-type]

    assert (status, cause) == ("ok", None)
    assert len(notes) == 1
    assert notes[0].startswith("measured, teardown failed: ")


def test_an_end_marker_stands_for_the_number_of_steps_where_that_is_not_known() -> None:
    unknown = replace(DONE, steps_asked=None, returncode=1, text="ValueError: bad batch")

    assert judge(replace(unknown, end_marker=True))[0] == "ok"
    assert judge(unknown)[0] == "failed"


@pytest.mark.parametrize(("ended_by", "returncode"), [("stall", -15), ("itself", -6)])
def test_a_run_of_unknown_length_that_hangs_or_aborts_after_its_window_was_measured(
    ended_by: str, returncode: int
) -> None:
    unknown = replace(DONE, steps_asked=None, returncode=returncode, ended_by=ended_by)  # type: ignore[arg-type]

    status, _, notes = judge(unknown)

    assert status == "ok"
    assert notes[0].startswith("measured, teardown failed: ")


def test_a_world_size_that_nothing_shows_is_said() -> None:
    _, _, notes = judge(replace(DONE, world_found=None))

    assert notes == ("the world size could not be checked: nothing in the run shows its 2 ranks",)


def test_a_clean_exit_before_the_windows_end_is_incomplete() -> None:
    status, cause, _ = judge(replace(DONE, steps_seen=40, last_step=40))

    assert status == "incomplete"
    assert cause == Cause("incomplete", "ended by itself at step 40 of 300 (workload.steps)")


def test_a_run_shorter_than_the_window_says_how_to_count_what_was_measured() -> None:
    _, cause, _ = judge(replace(DONE, steps_asked=None, steps_seen=120, last_step=120))

    assert cause is not None
    assert "measure.window ends at step 300; measure with measure.window=20:120" in cause.message
    assert "interlace report DIR --window 20:120" in cause.message


def test_no_steps_at_all_fail_the_run_with_what_the_reader_saw() -> None:
    status, cause, _ = judge(replace(DONE, steps_seen=0, last_step=0, unreadable="stderr.log: no step in it"))

    assert status == "failed"
    assert cause == Cause("no_steps_found", "stderr.log: no step in it")


def test_a_killed_run_is_told_apart_from_a_failed_one_and_says_how_far_it_came() -> None:
    status, cause, _ = judge(replace(DONE, returncode=-9, steps_seen=7, last_step=7))

    assert status == "killed"
    assert cause is not None
    assert "7 steps seen" in cause.message


def test_a_kill_while_the_kernel_ended_processes_for_memory_is_out_of_memory() -> None:
    killed = replace(DONE, returncode=1, text=ELASTIC.format(rank=5, code=-9), steps_seen=7, last_step=7, oom_kills=1)

    status, cause, _ = judge(killed)

    assert status == "oom"
    assert cause is not None
    assert (cause.code, cause.rank, cause.exitcode) == ("host_oom", 5, -9)
    assert "the kernel ended 1 for want of memory" in cause.message


def test_the_kernels_count_of_kills_is_read(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 4\noom_kill 3\nallocstall_dma 0\n")

    assert kernel_oom_kills(tmp_path / "vmstat") == 3
    assert kernel_oom_kills(tmp_path / "none") == 0


def test_out_of_memory_is_a_status_of_its_own() -> None:
    short = replace(DONE, returncode=1, steps_seen=1, last_step=1, text="torch.OutOfMemoryError: CUDA out of memory.")

    assert judge(short)[0] == "oom"


def test_a_program_that_never_started_says_why() -> None:
    assert judge(replace(DONE, returncode=None, text="cannot start 'nope'")) == (
        "failed", Cause("cannot_start", "cannot start 'nope'"), (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "name"),
    [(-9, "SIGKILL"), (139, "SIGSEGV"), (1, None), (247, "SIGKILL"), (255, None), (0, None), (None, None)],
)
def test_return_codes_name_signals(code: int | None, name: str | None) -> None:
    assert signal_name(code) == name


def test_what_a_program_printed_last_does_not_reach_the_terminal_as_control_characters() -> None:
    cause = find_cause("step=1\nValueError: bad \x07\x08 value\n", 1)

    assert cause is not None
    assert cause.message == "exit code 1: ValueError: bad ?? value"
