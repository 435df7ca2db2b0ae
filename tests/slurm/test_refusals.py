from __future__ import annotations

import pytest

from interlace.slurm.refusal_texts import BARE, KNOWN, SITE
from interlace.slurm.refusals import Refusal, Submitted, what_sbatch_said

FAILED = "sbatch: error: Batch job submission failed: "
LUA = "sbatch: error: lua: Requesting memory by node is not supported. Use --mem-per-cpu.\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FAILED + "Invalid job array specification", "array_too_large"),
        ("sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.", "conflicting_memory_flags"),
        ("sbatch: fatal: SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE are mutually exclusive.", "conflicting_memory_flags"),
        (FAILED + "Requested node configuration is not available", "node_config_unavailable"),
        (FAILED + "More processors requested than permitted", "node_config_unavailable"),
        ("sbatch: error: CPU count per node can not be satisfied\n" + FAILED
         + "Requested node configuration is not available", "node_config_unavailable"),
        ("sbatch: error: Memory specification can not be satisfied\n" + FAILED
         + "Requested node configuration is not available", "node_config_unavailable"),
        ("sbatch: error: Invalid --mem specification", "node_config_unavailable"),
        (FAILED + "Invalid generic resource (gres) specification", "invalid_gres"),
        (FAILED + "Invalid Trackable RESource (TRES) specification", "invalid_gres"),
        ("sbatch: error: Invalid GRES specification (with and without type identification)", "invalid_gres"),
        ("sbatch: error: invalid partition specified: gpu\n" + FAILED + "Invalid partition name specified",
         "invalid_partition"),
        (FAILED + "Requested partition configuration not available now", "partition_not_available"),
        (FAILED + "Required partition not available (inactive or drain)", "partition_not_available"),
        (FAILED + "Invalid account or account/partition combination specified", "invalid_account"),
        (FAILED + "Invalid qos specification", "invalid_qos"),
        (FAILED + "Requested time limit is invalid (missing or exceeds some limit)", "invalid_time_limit"),
        ("sbatch: error: Invalid --time specification", "invalid_time_limit"),
        (FAILED + "Invalid feature specification", "invalid_constraint"),
        (FAILED + "Requested reservation is invalid", "invalid_reservation"),
        (FAILED + "Access denied to requested reservation", "invalid_reservation"),
        (FAILED + "Required node not available (down, drained or reserved)", "node_not_available"),
        (FAILED + "User's group not permitted to use this partition", "not_permitted"),
        (FAILED + "Access/permission denied", "not_permitted"),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + FAILED
         + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "submit_limit"),
        ("sbatch: unrecognized option '--gpus'\nTry \"sbatch --help\" for more information", "unrecognized_option"),
        ("sbatch: invalid option -- 'Y'", "unrecognized_option"),
        ("sbatch: error: slurm_persist_conn_open_without_init\n" + FAILED
         + "Unable to contact slurm controller (connect failure)", "controller_unreachable"),
        (FAILED + "Socket timed out on send/recv operation", "controller_timeout"),
        (FAILED + "Zero Bytes were transmitted or received", "controller_timeout"),
        (FAILED + "Slurm temporarily unable to accept job, sleeping and retrying", "try_again"),
        ("bash: sbatch: command not found", "sbatch_missing"),
        ("[Errno 2] No such file or directory: 'sbatch'", "sbatch_missing"),
        ("sbatch: fatal: Could not establish a configuration source", "no_configuration"),
        ("sbatch: error: Munge encode failed: Failed to access the socket: No such file or directory\n"
         + FAILED + "Protocol authentication error", "authentication"),
        ("sbatch: error: This does not look like a batch script.  The first", "bad_script"),
        ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)", "bad_script"),
        (FAILED + "Job dependency problem", "invalid_dependency"),
        (FAILED + "Invalid license specification", "invalid_license"),
        ("sbatch: error: Invalid --distribution specification", "invalid_value"),
        (LUA + "sbatch: error: cli_filter plugin terminated with error", "site_policy"),
        ("sbatch: error: You must ask for a project\n" + FAILED + "Unspecified error", "site_policy"),
        (FAILED + "Unspecified error", "unspecified"),
        ("sbatch: error: the moon is in the wrong house", "not_understood"),
        ("Welcome to the cluster!", "no_job_id"),
        ("", "no_job_id"),
    ],
)  # fmt: skip
def test_a_refusal_has_its_code_and_sbatchs_own_line(text: str, code: str) -> None:
    said = what_sbatch_said(text, 1)

    assert isinstance(said, Refusal)
    assert said.code == code
    assert said.todo
    assert all(line in said.sentence for line in text.splitlines()[-1:] if "Try" not in line)


def test_the_limit_that_was_hit_stands_beside_the_refusal() -> None:
    said = what_sbatch_said(
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + FAILED + "Job violates accounting/QOS policy", 1
    )

    assert isinstance(said, Refusal)
    assert "sbatch: error: QOSMaxSubmitJobPerUserLimit / sbatch: error: Batch job submission failed" in said.sentence


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("Submitted batch job 4242\n", Submitted("4242")),
        ("Submitted batch job 4242 on cluster c1\n", Submitted("4242", "c1")),
        ("4242\n", Submitted("4242")),
        ("4242;c1\n", Submitted("4242", "c1")),
        ("** Maintenance on 12 May **\nquota: 17 GB\nSubmitted batch job 4242\nBye\n", Submitted("4242")),
        ("sbatch: warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n4242\n", Submitted("4242")),
        ("sbatch: lua: your partition is now gpu\n4242\n", Submitted("4242")),
        ("sbatch: error: a remark that a plugin printed as an error\nSubmitted batch job 4242\n", Submitted("4242")),
    ],
)
def test_the_jobs_id_is_found_in_every_form_and_among_other_lines(text: str, job: Submitted) -> None:
    assert what_sbatch_said(text) == job
    assert what_sbatch_said(text, 0) == job


def test_a_number_beside_an_error_is_no_job() -> None:
    said = what_sbatch_said("17\n" + FAILED + "Invalid qos specification", 1)

    assert isinstance(said, Refusal)
    assert said.code == "invalid_qos"


def test_success_without_an_id_is_a_refusal() -> None:
    said = what_sbatch_said("", 0)

    assert said == Refusal(
        "no_job_id",
        "sbatch printed nothing (exit code 0), so there is no job",
        "submit the script by hand to see more: interlace plan launchers=slurm prints it",
    )


def test_codes_are_told_apart_and_each_says_what_to_do() -> None:
    codes = [known.code for known in (*KNOWN, SITE, BARE)]

    assert len(set(codes)) == len(codes)
    assert all(known.sentence and known.todo for known in KNOWN)
