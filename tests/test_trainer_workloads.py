"""The ready-made workloads of other people's trainers: that they say what their pull requests typed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlace.errors import ConfigError
from interlace.launch import applied, build_launch
from interlace.launch.command import HOOK
from interlace.schema import Arm
from tests.test_config import composed, refusal

if TYPE_CHECKING:
    from interlace.settings import SweepConfig

pytestmark = pytest.mark.costly

RUN_DIR = Path("/out/runs/001-r1-a")


def command_of(config: SweepConfig) -> list[str]:
    return shlex.split(config.workload.command or "")


def test_lerobot_is_started_as_its_pull_request_started_it() -> None:
    config = composed("workload=lerobot_act", "workload.dataset_root=/data set")

    assert command_of(config) == [
        "lerobot-train", "--policy.type=act", "--policy.device=cuda", "--policy.push_to_hub=false",
        "--dataset.repo_id=lerobot/aloha_sim_insertion_human", "--dataset.root=/data set", "--steps=300",
        "--seed=1000", "--batch_size=8", "--num_workers=4", "--log_freq=1", "--save_checkpoint=false",
        "--env_eval_freq=0", "--eval_steps=0", "--wandb.enable=false", "--output_dir={run_dir}/out",
        "--accelerator.ddp.gradient_as_bucket_view=true",
    ]  # fmt: skip
    assert (config.ranks.kind, config.ranks.nproc_per_node, config.measure.window) == ("accelerate", 8, [51, 300])


def test_fairchem_is_started_as_its_pull_request_started_it() -> None:
    config = composed("workload=fairchem_uma", "workload.data_root=/data")

    assert command_of(config) == [
        "fairchem", "-c", "configs/uma/benchmark/perf_check/training_inner.yaml", "datasets.data_root_dir=/data",
        "job.device_type=CUDA", "bf16=False", "max_steps=250", "max_epochs=null", "++job.seed=42",
        "++job.run_dir={run_dir}/out", "job.scheduler.mode=LOCAL", "++job.scheduler.ranks_per_node=8",
        "runner.callbacks.0.benchmark_results_path={run_dir}/benchmark_results.pkl", "++optimizer.fused=true",
    ]  # fmt: skip
    assert (config.ranks.kind, config.ranks.nproc_per_node, config.measure.window) == ("plain", 8, [51, 250])


def test_fairchem_is_told_how_many_ranks_are_wanted_and_they_bind_themselves() -> None:
    config = composed("workload=fairchem_uma", "workload.data_root=/data", "ranks.nproc_per_node=4")

    launch = build_launch(Arm("a", "a", (), config), RUN_DIR, None, {"PYTHONPATH": "/own"})

    assert "++job.scheduler.ranks_per_node=4" in launch.argv
    assert launch.argv[0] == "fairchem"
    assert launch.env["PYTHONPATH"] == f"{HOOK}{os.pathsep}/own"


def test_a_single_rank_of_fairchem_goes_through_the_wrapper_and_needs_no_hook() -> None:
    config = composed("workload=fairchem_uma", "workload.data_root=/data", "ranks.nproc_per_node=1")

    launch = build_launch(Arm("a", "a", (), config), RUN_DIR, None, {})

    assert "interlace.rank" in launch.argv
    assert "PYTHONPATH" not in launch.env


def test_opentaus_profiler_is_started_as_its_documentation_starts_it_whatever_batch_its_configuration_names() -> None:
    config = composed("workload=opentau_profile", "workload.config_path=/a b/c.json")

    assert command_of(config) == [
        "python", "src/opentau/scripts/profile_step.py", "--config_path=/a b/c.json",
        "--batch_size=12", "--dataloader_batch_size=12", "--gradient_accumulation_steps=1",
    ]  # fmt: skip
    assert (config.ranks.kind, config.ranks.nproc_per_node, config.ranks.mixed_precision) == ("accelerate", 8, "bf16")


def test_opentaus_profiler_hears_nothing_from_the_shell_and_writes_into_the_runs_folder() -> None:
    config = composed("workload=opentau_profile", "workload.config_path=c.json", "env.FUSED_ADAMW='true'")
    shell = {
        "PATH": "/bin", "TORCH_COMPILE": "1", "ACCELERATE_USE_CPU": "true", "FUSED_ADAMW": "false", "HOME": "/home",
    }  # fmt: skip

    launch = build_launch(Arm("a", "a", (), config), RUN_DIR, None, shell)

    env = applied(shell, launch.env)
    assert {"TORCH_COMPILE", "ACCELERATE_USE_CPU"}.isdisjoint(env)
    assert (env["FUSED_ADAMW"], env["PROFILE_STEPS"], env["HOME"]) == ("true", "200", "/home")
    assert env["PROFILE_STEP_JSON"] == f"{RUN_DIR}/profile_step.json"
    assert launch.log == RUN_DIR / "profile_step.json"
    assert (config.measure.window, config.workload.steps) == ([220, 220], 220)


@pytest.mark.parametrize(
    ("name", "needs", "said"),
    [
        ("lerobot_act_cpu", "dataset_root", "--policy.device=cpu"),
        ("fairchem_uma_cpu", "data_root", "job.device_type=CPU"),
        ("opentau_profile_cpu", "config_path", "--batch_size=2"),
    ],
)
def test_a_small_variant_needs_no_gpu_and_two_ranks(name: str, needs: str, said: str) -> None:
    config = composed(f"workload={name}", f"workload.{needs}=/d")

    assert config.ranks.nproc_per_node == 2
    assert config.workload.env["CUDA_VISIBLE_DEVICES"] == ""
    assert said in command_of(config)


def test_opentaus_small_variant_has_accelerate_join_its_cpu_ranks_and_counts_what_it_measures() -> None:
    config = composed("workload=opentau_profile_cpu", "workload.config_path=/d/config.json")

    assert config.workload.env["ACCELERATE_USE_CPU"] == "true"
    assert config.workload.steps == int(config.workload.env["PROFILE_STEPS"] or 0) + 20
    assert config.measure.window == [config.workload.steps] * 2


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("lerobot_act", "workload.dataset_root"),
        ("fairchem_uma", "workload.data_root"),
        ("opentau_profile", "workload.config_path"),
    ],
)
def test_a_path_that_only_the_user_knows_has_to_be_given(name: str, key: str) -> None:
    assert refusal(f"workload={name}") == f"{key} has no value; give {key}=..."


def test_options_of_a_candidate_are_text_with_equal_signs_and_blanks() -> None:
    config = composed("workload=lerobot_act", "workload.dataset_root=/d", "workload.flags=--a.b=true --c=[1,2]")

    assert command_of(config)[-2:] == ["--a.b=true", "--c=[1,2]"]


def test_a_launcher_chosen_by_hand_goes_before_that_of_the_workload() -> None:
    assert composed("workload=lerobot_act", "workload.dataset_root=/d", "launchers=torchrun").ranks.kind == "torchrun"
    assert "ranks.hook=true with launchers=torchrun" in _refused("launchers=torchrun")


def _refused(*arguments: str) -> str:
    config = composed("workload=fairchem_uma", "workload.data_root=/d", *arguments)
    with pytest.raises(ConfigError) as caught:
        build_launch(Arm("a", "a", (), config), RUN_DIR, None, {})
    return str(caught.value)


def test_the_example_of_the_documentation_is_a_workload(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "trainers.md").read_text()
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "mine.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])

    config = composed("--config-dir", str(tmp_path), "workload=mine", "workload.batch_size=16")

    assert command_of(config) == ["python", "-m", "trainer", "--bs", "16", "--out", "{run_dir}/out"]
    assert config.workload.env == {"HF_HUB_OFFLINE": "1", "LOG_FILE": "{run_dir}/train.log", "MY_DEBUG": None}
    assert (config.source.module, config.ranks.nproc_per_node, config.workload.steps) == ("trainer.model", 8, 300)
