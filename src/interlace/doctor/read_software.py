"""Reads versions: from the metadata and files of packages, which imports none of them, and from programs."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from pathlib import Path

from interlace.doctor.facts import Requirement, Software, TorchBuild, TorchSees
from interlace.monitor.readings import GpuReadError
from interlace.monitor.smi import run_bounded

GIT_TIMEOUT_S = 5.0
TORCH_TIMEOUT_S = 120.0
"""The first import of torch from a cold network disk takes minutes on some clusters."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;]*)")
_CUDA_IN_VERSION_PY = re.compile(r"^cuda\b[^=]*=\s*'([^']+)'", re.MULTILINE)

_ASK_TORCH = """\
import json, torch
nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
print(json.dumps({
    "version": torch.__version__, "cuda": torch.version.cuda, "gpus": torch.cuda.device_count(),
    "nccl": ".".join(map(str, torch.cuda.nccl.version())) if nccl else None,
}))
"""


def software(torch_python: str | None = None) -> Software:
    """Read the versions in this environment; with `torch_python` that interpreter's torch is asked as well."""
    requires_python, requirements = _declared()
    return Software(
        platform.python_version(),
        requires_python,
        requirements,
        torch_build(),
        None if torch_python is None else ask_torch(torch_python),
        _git_version(),
    )


def _declared() -> tuple[str | None, tuple[Requirement, ...]]:
    """Return what Interlace's own metadata asks for, without what only its developers need."""
    try:
        own = metadata.metadata("interlace")
    except metadata.PackageNotFoundError:
        return None, ()
    asked = (text for text in own.get_all("Requires-Dist") or () if "extra ==" not in text)
    found = (match for text in asked if (match := _REQUIREMENT.match(text)))
    python = own.json.get("requires_python")
    return str(python) if python else None, tuple(
        Requirement(match[1], match[2].strip().strip("()"), _installed(match[1])) for match in found
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def torch_build() -> TorchBuild | None:
    """Return torch's version and the CUDA it was built for, from its files; None where it is not installed."""
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        return None
    try:
        text = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = _CUDA_IN_VERSION_PY.search(text)
    return TorchBuild(torch.version, found[1] if found else None)


def ask_torch(python: str) -> TorchSees:
    """Ask an interpreter in a process of its own what its torch sees; whatever fails is told, not raised."""
    try:
        answer = run_bounded([python, "-c", _ASK_TORCH], TORCH_TIMEOUT_S)
    except GpuReadError as error:
        return TorchSees(python, failure=str(error))
    try:
        return TorchSees(python, **json.loads(answer.stdout.splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        return TorchSees(python, failure=said[-1] if said else f"exit code {answer.rc}")


def _git_version() -> str | None:
    try:
        answer = run_bounded(["git", "--version"], GIT_TIMEOUT_S)
    except GpuReadError:
        return None
    return answer.stdout.strip().removeprefix("git version ") or None
