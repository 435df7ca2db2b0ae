from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from interlace.doctor.facts import OutputFolder, Surroundings, TorchSees
from interlace.doctor.read_disk import file_system_of, output_folder
from interlace.doctor.read_software import ask_torch, software, torch_build
from interlace.doctor.read_surroundings import HOST_PID_NAMESPACE, surroundings
from tests.doctor.handmade import tree

# ---------------------------------------------------------------- disk


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 0:30 / /data rw,relatime shared:1 - nfs4 server:/data rw
29 28 0:31 / /data/my\\040own rw - lustre server:/own rw
30 27 0:32 / /data rw - xfs /dev/vdb rw
a line that is no mount
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/other", "ext4"), ("/data/x", "xfs"), ("/data/my own/x", "lustre"), ("/database", "ext4")],
)
def test_the_file_system_is_that_of_the_nearest_mount_and_the_last_of_two(tmp_path: Path, path: str, kind: str) -> None:
    tree(tmp_path, {"proc/self/mountinfo": MOUNTS})

    assert file_system_of(Path(path), tmp_path) == kind


def test_a_folder_that_is_not_there_is_judged_by_its_nearest_parent_and_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = output_folder(tmp_path / "new" / "outputs", tmp_path)

    assert (folder.exists, folder.nearest, folder.unusable, folder.inodes_left) == (False, str(tmp_path), None, True)
    assert folder.free_gib is not None
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_the_reason_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert output_folder(tmp_path / "file").unusable == "is not a folder"
    assert (output_folder(Path("/proc/self")).unusable or "").startswith("cannot be written: ")


def test_the_output_folder_as_facts_says_where_it_was_looked_for(tmp_path: Path) -> None:
    found = output_folder(tmp_path, tmp_path)

    assert found == OutputFolder(str(tmp_path), exists=True, nearest=str(tmp_path), free_gib=found.free_gib)


# ---------------------------------------------------------------- software and surroundings


def test_requirements_are_those_of_our_metadata_and_not_those_of_developers() -> None:
    found = software()

    names = [one.name for one in found.requirements]
    assert {"hydra-core", "psutil", "torch"} <= set(names)
    assert "pytest" not in names
    assert next(one for one in found.requirements if one.name == "psutil").installed == metadata.version("psutil")
    assert found.torch_sees is None
    assert found.git


def test_torchs_build_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        {
            "torch-9.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 9.9.0\n",
            "torch/version.py": "debug = False\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n",
        },
    )
    monkeypatch.syspath_prepend(tmp_path)

    build = torch_build()

    assert build is not None
    assert (build.version, build.cuda) == ("9.9.0", "13.0")


def test_an_interpreter_without_torch_or_without_itself_is_a_failure_that_is_told(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -I "$@"\n')
    bare.chmod(0o755)

    assert ask_torch(str(bare)) == TorchSees(str(bare), failure="ModuleNotFoundError: No module named 'torch'")
    assert ask_torch(str(tmp_path / "none")).failure == f"cannot start {tmp_path / 'none'}: No such file or directory"


def test_only_watched_variables_are_taken(tmp_path: Path) -> None:
    env = {"SECRET": "x", "NCCL_DEBUG": "INFO", "ACCELERATE_A": "1", "SLURM_JOB_ID": "7", "SLURM_JWT": "y"}

    assert surroundings(env, tmp_path) == Surroundings(
        {"SLURM_JOB_ID": "7"}, None, None, (), {"NCCL_DEBUG": "INFO", "ACCELERATE_A": "1"}
    )


@pytest.mark.parametrize(
    ("files", "env", "kind"),
    [
        ({".dockerenv": ""}, {}, "Docker"),
        ({"run/.containerenv": ""}, {}, "Podman"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1\n"}, {}, "Kubernetes"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
        ({}, {"APPTAINER_NAME": "x.sif"}, "Apptainer"),
        ({}, {"container": "lxc"}, "lxc"),
    ],
)
def test_a_container_is_known_by_its_marks(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], kind: str | None
) -> None:
    assert surroundings(env, tree(tmp_path, files)).container == kind


@pytest.mark.parametrize(("namespace", "host"), [(HOST_PID_NAMESPACE, True), ("pid:[4026532513]", False)])
def test_the_first_pid_namespace_is_the_hosts(tmp_path: Path, namespace: str, host: bool) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)

    found = surroundings({}, tmp_path)

    assert (found.host_pids, found.infiniband) == (host, ("mlx5_0",))
