"""What sbatch printed: a job's id, or why it refused, in plain words and with what to do. Pure.

The texts are Slurm's own (`slurm_errno.c`, `sbatch`); a submit plugin of the site may say anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlace.slurm.refusal_texts import BARE, KNOWN, SITE


@dataclass(frozen=True)
class Submitted:
    """A job that Slurm took; `cluster` where it named one."""

    job_id: str
    cluster: str | None = None


@dataclass(frozen=True)
class Refusal:
    """Why there is no job: a code, what sbatch said, and what to do about it."""

    code: str
    sentence: str
    todo: str


def what_sbatch_said(text: str, rc: int | None = None) -> Submitted | Refusal:
    """Read all that sbatch printed (both streams); without a job id it is a refusal, whatever the exit code."""
    return submitted(text, rc) or refusal(text, rc)


def submitted(text: str, rc: int | None = None) -> Submitted | None:
    """Find the job's id: `Submitted batch job 4242 on cluster c1`, or `4242;c1` alone on a line (--parsable)."""
    sentence = _sentence_of(text)
    if sentence is not None:
        return Submitted(sentence[1], sentence[2])
    # A number alone beside an error is somebody else's, unless sbatch says that it succeeded.
    if rc not in (None, 0) or (rc is None and _matching(_ERROR, text)):
        return None
    bare = re.findall(r"^\s*(\d+)(?:;([\w.-]+))?\s*$", text, re.MULTILINE)
    return Submitted(bare[-1][0], bare[-1][1] or None) if bare else None


def refusal(text: str, rc: int | None = None) -> Refusal:
    """Name why sbatch refused, from its text; codes are those of `refusal_texts`."""
    lines = _error_lines(text) or [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if re.search(SITE.pattern, line, re.IGNORECASE):
            return Refusal(SITE.code, _quoted(SITE.sentence, line, lines), SITE.todo)
    # The last line is the controller's word; the ones before it may be a plugin's remarks.
    for line in reversed(lines):
        for known in KNOWN:
            if re.search(known.pattern, line, re.IGNORECASE):
                return Refusal(known.code, _quoted(known.sentence, line, lines), known.todo)
    if any(re.search(BARE.pattern, line, re.IGNORECASE) for line in lines):
        remarks = [line for line in lines if not re.search(BARE.pattern, line, re.IGNORECASE)]
        # `Unspecified error` after somebody's sentence is how a submit plugin refuses.
        known = SITE if remarks else BARE
        return Refusal(known.code, _quoted(known.sentence, (remarks or lines)[0], lines), known.todo)
    if not lines:
        ended = "" if rc is None else f" (exit code {rc})"
        return Refusal("no_job_id", f"sbatch printed nothing{ended}, so there is no job", _TRY)
    return Refusal("not_understood" if _error_lines(text) else "no_job_id", _quoted(_OTHER, lines[-1], lines), _TRY)


_OTHER = "Slurm gave no job id"
_TRY = "submit the script by hand to see more: interlace plan launchers=slurm prints it"


def _sentence_of(text: str) -> re.Match[str] | None:
    return re.search(r"\bSubmitted batch job (\d+)(?: on cluster ([\w.-]+))?", text)


_ERROR = re.compile(
    r"^\s*\S+: (error|fatal)\b|command not found|No such file or directory: '\S*sbatch'|cannot start sbatch",
    re.IGNORECASE,
)
_PROGRAM = re.compile(r"^\s*(/\S*/)?(sbatch|srun|salloc): (?!warning|info|debug)", re.IGNORECASE)


def _error_lines(text: str) -> list[str]:
    """Return the lines in which a program complains; a greeting of the login node is not one."""
    return _matching(_ERROR, text) or _matching(_PROGRAM, text)


def _matching(pattern: re.Pattern[str], text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if pattern.search(line) and not _sentence_of(line)]


def _quoted(sentence: str, line: str, lines: list[str]) -> str:
    """Put sbatch's own line beside our words, and its last one where that says more, or the one before the last.

    Before its last line sbatch names the limit that was hit: `QOSMaxSubmitJobPerUserLimit`.
    """
    said = lines[-2:] if line in lines[-1] else [line, lines[-1]]
    return f"{sentence}: {' / '.join(one[:300] for one in said)}"
