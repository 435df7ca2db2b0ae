"""Handing a lane to SLURM: the only module that uses submitit. What is asked of sbatch, and its answer.

The lane runs in the batch step itself (`exec`, no srun): a step that srun made would have one CPU only since SLURM
22.05, and signals would reach a shell instead of the lane. No result of submitit is read: the records are the truth.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from interlace.errors import UsageError
from interlace.slurm.refusals import refusal, submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from interlace.settings import LaunchersConfig

PASSED_ON = (
    "partition", "account", "qos", "constraint", "gres", "nodelist", "exclude", "comment", "dependency", "mail_type",
    "mail_user", "mem_per_cpu", "mem_per_gpu", "wckey",
)  # fmt: skip
"""Settings `slurm_<name>` that submitit knows by the same name."""


def sbatch_parameters(config: LaunchersConfig, job_name: str) -> dict[str, Any]:
    """Return what submitit's SLURM executor is given, its own names."""
    own = {name: getattr(config, f"slurm_{name}") for name in PASSED_ON}
    asked = {name: value for name, value in config.slurm_additional_parameters.items() if value not in (None, False)}
    further: dict[str, Any] = {"signal": f"B:USR2@{config.slurm_signal_delay_s}"}
    if "requeue" not in asked:  # given both, sbatch heeds the last one
        further["no-requeue"] = True
    if config.slurm_reservation is not None:
        further["reservation"] = config.slurm_reservation
    return {
        **own,
        "job_name": job_name,
        "time": config.timeout_min,
        "nodes": config.nodes,
        "gpus_per_node": config.gpus_per_node,
        "cpus_per_task": config.cpus_per_task,
        "mem": None if config.mem_gb is None else f"{config.mem_gb:g}G",
        "exclusive": config.slurm_exclusive or None,
        "setup": list(config.slurm_setup) or None,
        "use_srun": False,
        "additional_parameters": {**further, **asked},
    }


def _executor(folder: Path, config: LaunchersConfig, job_name: str) -> Any:
    from submitit import SlurmExecutor  # noqa: PLC0415 (half a second; only who submits pays for it)

    # `exec`: the batch shell becomes the lane, so that SLURM's signals reach it.
    executor: Any = SlurmExecutor(folder=folder, python=f"exec {shlex.quote(sys.executable)}")
    parameters = {name: value for name, value in sbatch_parameters(config, job_name).items() if value is not None}
    parameters.setdefault("wckey", None)
    executor._get_job_id_from_submission_command = _job_id  # noqa: SLF001
    try:
        executor.update_parameters(**parameters)
    except (TypeError, ValueError) as error:
        raise UsageError(f"launchers=slurm: submitit refuses these settings: {error}") from error
    return executor


def _job_id(output: str | bytes) -> str:
    """Take the id from sbatch's own sentence; submitit takes the first `job N`, also of a site's greeting."""
    from submitit.core.utils import FailedSubmissionError  # noqa: PLC0415 (as above)

    text = output if isinstance(output, str) else output.decode(errors="replace")
    said = submitted(text)
    if said is None:
        raise FailedSubmissionError(text)
    return said.job_id


def script(folder: Path, config: LaunchersConfig, job_name: str) -> str:
    """Return the sbatch script of a lane, as it would be submitted."""
    executor = _executor(folder, config, job_name)
    # submitit has no public way to show a script without submitting it.
    text: str = executor._make_submission_file_text(executor._submitit_command_str, "<id>")  # noqa: SLF001
    return text


def submit(
    folder: Path, config: LaunchersConfig, job_name: str, environ: Mapping[str, str], lane: Callable[[], int]
) -> str:
    """Submit a job that calls `lane`; return its id. Raises UsageError saying why sbatch refused, and what to do.

    `environ` is what sbatch sees in place of this process's environment.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    executor = _executor(folder, config, job_name)
    try:
        # submitit prints what sbatch said of a failure; the error says it with what to do.
        with _environment(environ), contextlib.redirect_stderr(io.StringIO()):
            return str(executor.submit(lane).job_id)
    except (FailedJobError, FailedSubmissionError, OSError, RuntimeError) as error:
        said = refusal(str(error))
        raise UsageError(f"{said.sentence}; {said.todo}") from error


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Replace this process's environment for a moment: submitit passes on whatever it finds there."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
