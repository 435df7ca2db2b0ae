from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from interlace.config import prepare_arguments, run_hydra
from interlace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.schema import Request
    from interlace.settings import SweepConfig

pytestmark = pytest.mark.costly


def composed(*arguments: str) -> SweepConfig:
    """Compose the first arm that these shell arguments ask for."""
    found: list[SweepConfig] = []

    def keep(request: Request) -> int:
        found.append(request.compose([*request.plain, *(axis.overrides[0] for axis in request.axes)]))
        return 0

    run_hydra(arguments, "interlace sweep", keep)
    return found[0]


def requested(*arguments: str) -> Request:
    found: list[Request] = []

    def keep(request: Request) -> int:
        found.append(request)
        return 0

    run_hydra(arguments, "interlace sweep", keep)
    return found[0]


def refusal(*arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        composed(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    "sha",
    ["5e81234", "1234567", "3f4a1b2", "0123456", "12e3456", "9e00000", "980e663509", "0e12345", "1_000"],
)
def test_a_commit_that_looks_like_a_number_stays_text(sha: str) -> None:
    assert composed("workload=command", "workload.command=x", f"commit={sha}").commit == sha


def test_several_commits_are_one_axis_whose_labels_read_as_typed() -> None:
    (axis,) = requested("commit=5e81234,main~1,HEAD^,feature/x").axes

    assert axis.labels == ("5e81234", "main~1", "HEAD^", "feature/x")


TYPED = st.text(st.characters(blacklist_categories=["Cs", "Cc"])).filter(
    lambda text: text != "null" and "${" not in text and text[:1] + text[-1:] not in ("''", '""')
)


@given(TYPED)
def test_a_text_value_parses_back_to_what_was_typed(value: str) -> None:
    _, argument = prepare_arguments([f"workload.command={value}", "sweeps=x"])[:2]

    parsed = OverridesParser.create().parse_override(argument).value()

    assert OmegaConf.to_container(OmegaConf.create({"k": parsed}), resolve=True) == {"k": value}


@pytest.mark.parametrize(
    "command",
    [
        "python t.py --lr=1e-3,2",
        "python t.py '{a: 1}' \"b c\"",
        "python t.py C:\\x\\",
        "é --name=[1,2] #1",
        "a\\'b",
    ],
)
def test_a_command_reaches_the_arm_as_typed(command: str) -> None:
    assert composed("workload=command", f"workload.command={command}").workload.command == command


def test_a_command_may_refer_to_other_keys() -> None:
    config = composed("workload=command", "workload.command=python t.py --seed ${seed}", "seed=3")

    assert config.workload.command == "python t.py --seed 3"


@pytest.mark.parametrize(("word", "shown"), [("${RUN}", "${RUN}"), ("${RUN:-1}", "${RUN:...}")])
def test_a_shell_variable_in_braces_is_told_to_be_escaped(word: str, shown: str) -> None:
    message = f"workload.command: {shown} names no key of the configuration; for the text itself write \\{shown}"

    with pytest.raises(ConfigError) as caught:
        composed("workload=command", f"workload.command=bash -c 'echo {word}'")

    assert str(caught.value) == message
    assert composed("workload=command", f"workload.command=echo \\{word}").workload.command == f"echo {word}"


def test_a_workload_that_builds_on_another_declares_what_that_one_declares() -> None:
    own = composed("workload=act_small").workload.settings

    assert (own["model"]["width"], own["model"]["dropout"]) == (32, 0.1)
    assert refusal("workload=act_small", "workload.model.widht=64").startswith("unknown key 'workload.model.widht'")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "workload.optimizer.fused=3",
            "workload.optimizer.fused=3 is a whole number; true/false is expected, as in False",
        ),
        ("workload.optimizer=3", "workload.optimizer=3 is a whole number; a mapping is expected"),
    ],
)
def test_settings_inside_settings_keep_the_types_of_their_defaults(override: str, said: str) -> None:
    assert refusal("workload=act_small", override).startswith(said)


def test_nothing_that_defines_arms_asks_for_the_quickstart() -> None:
    assert prepare_arguments([]) == ["--multirun", "sweeps=quickstart"]
    assert prepare_arguments(["rounds=2"]) == ["--multirun", "rounds=2", "sweeps=quickstart"]


def test_a_swept_setting_is_not_mixed_with_the_quickstarts_arms() -> None:
    assert "sweeps=quickstart" not in prepare_arguments(["workload.width=32,64"])


def test_launchers_names_both_where_a_lane_runs_and_how_ranks_start() -> None:
    assert composed("launchers=torchrun").ranks.kind == "torchrun"
    assert composed("launchers=torchrun").launchers.kind == "local"


def test_multirun_may_be_written_out_as_in_any_hydra_application() -> None:
    assert [axis.key for axis in requested("-m", "workload.width=32,64").axes] == ["workload.width"]


def test_a_misspelt_key_is_named_with_the_nearest_one() -> None:
    assert refusal("rouns=3") == "unknown key 'rouns' in the configuration; did you mean 'rounds'?"
    assert "did you mean 'measure.window'" in refusal("measure.windw=[1,2]")


def test_a_misspelt_key_beside_a_swept_one_is_still_what_is_reported() -> None:
    assert "did you mean 'rounds'?" in refusal("rouns=3", "commit=a,b")


def test_a_wrong_type_names_the_key_and_both_types() -> None:
    assert refusal("rounds=two") == "rounds=two: expected int, got str"
    assert refusal("workload.fused=3") == ("workload.fused=3 is a whole number; true/false is expected, as in False")


def test_a_wrong_choice_lists_the_right_ones() -> None:
    assert "choose one of wait, warn, fail, off" in refusal("gate.action=maybe")


def test_an_unknown_group_option_lists_those_there_are_without_the_search_path() -> None:
    message = refusal("workload=nope")

    assert "command" in message
    assert "quickstart" in message
    assert "search path" not in message


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("stats.confidence=95", "stats.confidence=95: expected float <= 0.9999"),
        ("stats.block=0", "stats.block=0: expected int >= 1"),
        ("monitor.interval_s=0", "monitor.interval_s=0: expected float > 0.0"),
        ("measure.timeout_s=-1", "measure.timeout_s=-1: expected float > 0.0"),
        ("fail_if=never", "choose one of slower, not_faster"),
        ("measure.window=abc", "as in measure.window=[51,300]"),
        ("only=baseline", "a list stands in brackets: only=[a,b]"),
        ("workload.batch_size=[1,", "no viable alternative"),
        ("workload.width=choice()", "empty choice is not legal"),
        ("nonsense", "an argument is key=value, not 'nonsense'"),
        ("workload.tag=a#1", "workload.tag=a#1: cannot be read (token recognition error at: '#'); quote values twice"),
        ("commit=,", "no revision is named"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_runs(argument: str, message: str) -> None:
    assert message in refusal(argument)


def test_a_group_option_that_yaml_takes_for_a_boolean_is_told_to_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    text = "# @package _global_\ndefaults:\n  - override /gate: off\nname: mine\n"
    (tmp_path / "sweeps" / "mine.yaml").write_text(text)

    assert "override /gate: 'off'" in refusal("--config-dir", str(tmp_path), "sweeps=mine")


@pytest.mark.parametrize("starter", ["torchrun", "plain"])
def test_a_way_to_start_ranks_in_the_group_of_lanes_is_told_its_own_group(tmp_path: Path, starter: str) -> None:
    (tmp_path / "sweeps").mkdir()
    file = f"# @package _global_\ndefaults: [override /launchers: {starter}]\n"
    (tmp_path / "sweeps" / "mine.yaml").write_text(file)

    assert refusal("--config-dir", str(tmp_path), "sweeps=mine").endswith(f"override /launchers@ranks: {starter}")


def test_a_key_of_ones_own_is_told_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    file = "# @package _global_\ndefaults: [override /workload: command]\nworkload: {command: x, my_size: 8}\n"
    (tmp_path / "sweeps" / "mine.yaml").write_text(file)

    for message in (
        refusal("workload=command", "workload.command=x", "workload.my_size=8"),
        refusal("--config-dir", str(tmp_path), "sweeps=mine"),
    ):
        assert message.startswith("unknown key 'workload.my_size' in the configuration; ")
        assert "my/workload/NAME.yaml" in message


def test_a_window_may_be_written_as_in_the_other_commands() -> None:
    assert composed("measure.window=21:120").measure.window == [21, 120]


def test_a_text_that_hydra_took_for_a_number_is_told_to_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "mine.yaml").write_text("name: mine\ncommand: x\ntag: abc\n")
    mine = ("--config-dir", str(tmp_path), "workload=mine")

    assert "text is expected, as in 'abc'; quote it twice" in refusal(*mine, "workload.tag=5e81234")
    assert composed(*mine, "workload.tag='5e81234'").workload.settings == {"tag": "5e81234"}


def test_environments_are_swept_from_the_shell_like_any_key() -> None:
    assert composed("env.A=1,2").env == {"A": "1"}
    assert [axis.labels for axis in requested("env.A=1,2").axes] == [("1", "2")]


def test_flags_may_stand_anywhere() -> None:
    arguments = ["workload.width=8,16", "-m", "rounds=2", "--config-dir", "my"]

    assert prepare_arguments(arguments) == ["-m", "--config-dir", "my", "workload.width=8,16", "rounds=2"]


def test_printing_the_configuration_takes_the_first_value_of_each_axis() -> None:
    assert prepare_arguments(["--cfg", "job", "-m", "commit=a,b"]) == ["--cfg", "job", "commit='a'"]


def test_a_broken_yaml_file_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\narms: [{name: a}\n")

    assert refusal("--config-dir", str(tmp_path), "sweeps=mine").startswith("a configuration file is no valid YAML")


def test_arms_that_are_a_mapping_are_told_to_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "mine.yaml").write_text("# @package _global_\narms:\n  fast: {set: [rounds=3]}\n")

    assert "each of `arms:` begins as in `  - name: fast`" in refusal("--config-dir", str(tmp_path), "sweeps=mine")


def test_a_sweep_file_without_its_package_line_is_told_what_it_lacks(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "mine.yaml").write_text("rounds: 2\n")

    assert "must begin with the line `# @package _global_`" in refusal("--config-dir", str(tmp_path), "sweeps=mine")


def test_a_misspelt_key_in_a_sweep_file_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\nmeasure: {windw: [1, 2]}\n")

    message = refusal("--config-dir", str(tmp_path), "sweeps=mine")

    assert message == "unknown key 'measure.windw' in the configuration; did you mean 'measure.window'?"


def test_an_arm_that_sets_two_values_at_once_is_told_the_two_ways_to_mean_one() -> None:
    def keep(request: Request) -> int:
        request.compose(["workload.width=1,2"])
        return 0

    with pytest.raises(ConfigError) as caught:
        run_hydra(["workload=quickstart"], "interlace sweep", keep)

    assert str(caught.value) == (
        "workload.width=1,2: an arm sets one value; workload.width=[1,2] is a list, workload.width='1,2' is a text"
    )


def test_an_override_of_an_arm_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    arm = r"""{name: a, set: ['workload.command=echo \${RUN} it''s "a,b" #${seed}']}"""
    text = f"# @package _global_\ndefaults:\n  - override /workload: command\narms: [{arm}]\n"
    (tmp_path / "sweeps" / "mine.yaml").write_text(text)
    (written,) = composed("--config-dir", str(tmp_path), "sweeps=mine", "workload.command=x").arms[0].set

    assert composed("workload=command", "seed=3", written).workload.command == 'echo ${RUN} it\'s "a,b" #3'


def test_a_commit_that_yaml_read_as_a_number_is_refused_with_the_cure(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\narms:\n  - {name: a, commit: 5e81234}\n")

    assert "quote it in the file (commit: '5e81234')" in refusal("--config-dir", str(tmp_path), "sweeps=mine")


def test_words_that_yaml_takes_for_booleans_are_words_where_only_words_can_be_meant() -> None:
    config = composed("numa.bind=off", "numa.memory=off", "monitor.source=off", "gate=off", "+env.OMP_NUM_THREADS=4")

    assert (config.numa.bind, config.numa.memory, config.monitor.source, config.gate.action) == ("off",) * 4
    assert config.env == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("text", "table"), [("{nice: 100, requeue: true}", {"nice": 100, "requeue": True}), ("{}", {})]
)
def test_tables_whose_keys_are_the_users_take_a_whole_table_without_a_plus(text: str, table: dict[str, object]) -> None:
    config = composed("launchers=slurm", f"launchers.slurm_additional_parameters={text}", "env={A: '1'}")

    assert config.launchers.slurm_additional_parameters == table
    assert config.env == {"A": "1"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("slurm_partition", "gpu,gpu-long"), ("slurm_nodelist", "n[01-04],n7"), ("slurm_account", "5e81234"),
        ("slurm_mem_per_cpu", "4000"), ("slurm_constraint", "a100&ib"), ("slurm_mail_type", "END,FAIL"),
    ],
)  # fmt: skip
def test_what_slurm_is_asked_for_is_taken_as_typed(key: str, value: str) -> None:
    config = composed("launchers=slurm", f"launchers.{key}={value}", "seed=3")

    assert getattr(config.launchers, key) == value


def test_one_more_option_of_sbatch_is_a_key_without_a_plus() -> None:
    config = composed("launchers=slurm", "launchers.slurm_additional_parameters.nice=100")

    assert config.launchers.slurm_additional_parameters == {"nice": 100}


def test_null_takes_a_variable_away_and_numbers_stay_words() -> None:
    assert composed("env.A=null", "env.B=3").env == {"A": None, "B": "3"}


def test_an_environment_value_that_is_no_text_is_refused_with_the_cure() -> None:
    assert "environment values are text: quote them" in refusal("+env.MARK=true")


def test_a_workload_of_the_users_own_brings_its_own_keys(tmp_path: Path) -> None:
    folder = tmp_path / "workload"
    folder.mkdir()
    (folder / "mine.yaml").write_text("name: mine\ncommand: python t.py --bs ${workload.bs}\nbs: 8\n")

    config = composed("--config-dir", str(tmp_path), "workload=mine", "workload.bs=16")

    assert config.workload.command == "python t.py --bs 16"
    assert config.workload.settings == {"bs": 16}
