"""The one module (with the sweeper plugin) that knows Hydra: shell arguments in, typed configurations out."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.default_element import ConfigDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.main import main as hydra_main
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from interlace.errors import ConfigError
from interlace.schema import Axis, Request
from interlace.settings import LaunchersConfig, SweepConfig
from interlace.typed import OWN_KEY, known_keys, to_sweep_config, unknown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hydra.core.config_loader import ConfigLoader

TREE_DIR = Path(__file__).resolve().parent / "_tree"
"""`conf/` and, under `groups/`, `sweeps/` and `launchers/`: links in a checkout, copies in a wheel."""

TEXT_KEYS = frozenset(
    {
        "baseline", "commits", "measure.log", "measure.pattern", "name", "output_dir", "source.cache_dir",
        "source.module", "source.repo", "source.setup", "workload.command", "workload.cwd", "workload.flags",
        "workload.model", "workload.python",
    }
    # What SLURM is asked for belongs to the whole sweep, and its lists have commas and brackets: n[01-04],n7.
    | {f"launchers.{one.name}" for one in fields(LaunchersConfig) if one.type == "str | None"}
)  # fmt: skip
"""Keys whose value is taken as it stands: no comma, brace or `=` in it means anything to Hydra."""

OPEN = re.compile(r"((workload\.)?env|launchers\.slurm_additional_parameters)(\.|$)")
"""Tables whose keys are the user's: they are added without Hydra's plus sign."""

QUOTE_TWICE = """quote values twice, for the shell and inside: "ranks.args=['--a=b']", 'only=["a,k=1","b,k=1"]'"""
"""Hydra's grammar: a value needs quotes of its own where it has signs like = : , # and brackets."""

RANK_STARTERS = frozenset({"accelerate", "torchrun", "plain"})


# ---------------------------------------------------------------- running Hydra's own command line


def run_hydra(argv: Sequence[str], program: str, on_request: Callable[[Request], int]) -> int:
    """Run Hydra's command line on argv and hand the request to `on_request`; its exit code comes back.

    Raises ConfigError for whatever Hydra or OmegaConf refuse.
    """
    requests: list[Request] = []

    def keep(request: Any) -> None:
        requests.append(request)

    app = hydra_main(config_path=str(TREE_DIR / "conf"), config_name="config", version_base="1.3")(keep)
    with _plain_errors():
        shell = [program, *prepare_arguments(argv)]
    with _shell_of_hydra(shell), _plain_errors():
        app()
    return on_request(requests[0]) if requests else 0


@contextlib.contextmanager
def _shell_of_hydra(argv: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv, and only raises (instead of printing and exiting with 1) under HYDRA_FULL_ERROR."""
    old_argv, old_flag = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = argv, "1"
    try:
        yield
    finally:
        sys.argv = old_argv
        os.environ.pop("HYDRA_FULL_ERROR")
        if old_flag is not None:
            os.environ["HYDRA_FULL_ERROR"] = old_flag


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"a configuration file is no valid YAML: {' '.join(str(error).split())}") from error
    except ValueError as error:  # Hydra's own, for an empty choice or a flag that contradicts another
        raise ConfigError(_explain(error)) from error


def _explain(error: BaseException) -> str:
    """Hydra keeps the reason of a type error in `__cause__`; the user needs both, and not the search path."""
    parts = [str(error).strip()]
    if error.__cause__ is not None and str(error.__cause__) != "None":
        parts.append(str(error.__cause__).strip())
    text = "\n".join(dict.fromkeys(part for part in parts if part)) or type(error).__name__
    if about := _about_a_key(text) or _about_a_file(text):
        return about
    text = re.sub(r"\n*(Config search path:.*|See https://hydra\.cc.*)", "", text, flags=re.DOTALL)
    if text.startswith("Error parsing override") and "missing EQUAL" in text:
        return text.splitlines()[0].replace("Error parsing override", "an argument is key=value, not")
    if ambiguous := re.match(r"Ambiguous value for argument '([^=']+)=(.*)'", text):
        key, value = ambiguous.groups()
        return f"{key}={value}: an arm sets one value; {key}=[{value}] is a list, {key}='{value}' is a text"
    if re.search("no viable alternative|mismatched input|LexerNoViable|extraneous input", text):
        return f"{text.splitlines()[0]}; {QUOTE_TWICE}"
    return text


def _about_a_file(text: str) -> str | None:
    """Say what is wrong in a configuration file that is valid YAML; None where the trouble is another."""
    if "value in defaults : bool" in text:
        return "a defaults list has true or false for a name, as YAML makes of a bare off or on: override /gate: 'off'"
    if "Cannot merge DictConfig with ListConfig" in text:
        return "a configuration file has a mapping where a list belongs; each of `arms:` begins as in `  - name: fast`"
    return None


def _about_a_key(text: str) -> str | None:
    """Say what is wrong with a key or a reference to one; None where the trouble is another."""
    if key := re.search(r"Could not override '([^']+)'", text):
        otherwise = "`interlace sweep --help` lists the keys"
        otherwise += f"; {OWN_KEY}" if key[1].startswith("workload.") else ""
        return unknown_key(key[1], known_keys(SweepConfig), otherwise)
    # Through an interpolation the key that lacks its value stands first, and full_key is the one that needs it.
    first = re.search(r"resolving interpolation: Missing mandatory value: (\S+)", text)
    if key := first or re.search(r"Missing mandatory value: .*\n\s*full_key: (\S+)", text):
        return f"{key[1]} has no value; give {key[1]}=..."
    if asked := re.search(r"(?:nterpolation key '([^']+)' not found|nterpolation type (\S+))\s+full_key: (\S+)", text):
        name = asked[1] or f"{asked[2]}:..."
        return f"{asked[3]}: ${{{name}}} names no key of the configuration; for the text itself write \\${{{name}}}"
    return None


# ---------------------------------------------------------------- arguments


def _quote_text(value: str) -> str:
    r"""Quote a value so that Hydra takes it as it stands; `${...}` stays an interpolation, and given quotes are kept.

    Hydra unescapes a quote and the backslashes in front of it (and nothing else), so only those are doubled.
    """
    if value == "null" or _is_quoted(value):
        return value
    value = re.sub(r"(\\*)'", lambda m: m[1] * 2 + r"\'", value)
    return "'" + re.sub(r"(\\+)$", lambda m: m[1] * 2, value) + "'"


def _is_quoted(value: str) -> bool:
    """Tell one quoted string, or several with commas between them (an axis)."""
    one = r"'(?:[^'\\]|\\.)*'|" + r'"(?:[^"\\]|\\.)*"'
    return bool(re.fullmatch(rf"(?:{one})(?:,(?:{one}))*", value))


def prepare_arguments(argv: Sequence[str]) -> list[str]:
    """Make shell arguments safe for Hydra: strings stay strings, `launchers=torchrun` means the ranks.

    `commit=5e81234` would be infinity and `1234567` an integer. With nothing that defines arms, the quickstart
    is asked for. Where Hydra is only to print something, the first value of every axis stands for it.
    """
    flags, words = _flags_first(argv)
    prepared = [*flags, *(_prepare(word) for word in words)]
    defining = re.compile(r"[+~]*(workload|sweeps|commit|commits|arms)(@[^=]*)?=")
    axes = [argument for argument in prepared if _is_axis(argument)]
    if not axes and not any(defining.match(argument) for argument in prepared):
        prepared.append("sweeps=quickstart")
    if any(_asks_hydra(argument) for argument in prepared):
        return [_first_value(one) if one in axes else one for one in prepared if one not in ("-m", "--multirun")]
    return prepared if {"-m", "--multirun"}.intersection(prepared) else ["--multirun", *prepared]


VALUED = frozenset(
    "--config-dir -cd --config-name -cn --config-path -cp --package -p --cfg -c --info -i".split()  # noqa: SIM905
)


def _flags_first(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell flags (with their values) from overrides: Hydra's parser takes no flag between overrides."""
    flags: list[str] = []
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        flags.append(word)
        if word in VALUED and (value := next(rest, None)) is not None:
            flags.append(value)
    return flags, words


def _first_value(argument: str) -> str:
    override = OverridesParser.create().parse_override(argument)
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def _asks_hydra(argument: str) -> bool:
    """Tell flags that make Hydra print something and leave."""
    flags = "--help|-h|--hydra-help|--cfg|-c|--info|-i|--shell-completion|-sc|--version"
    return bool(re.fullmatch(rf"({flags})(=.*)?", argument))


def _prepare(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if argument.startswith("-") or not equals:
        return argument
    if key in ("launchers", "ranks") and value in RANK_STARTERS:
        return f"launchers@ranks={value}"
    if key == "commit":
        return f"commit={_revisions(argument, value)}"
    if key == "measure.window":
        return re.sub(r"^measure\.window=(\d+):(\d+)$", r"measure.window=[\1,\2]", argument)
    if OPEN.match(key):
        return f"++{argument}"
    return f"{key}={_quote_text(value)}" if key in TEXT_KEYS else argument


def _revisions(argument: str, value: str) -> str:
    revisions = [part.strip() for part in value.split(",") if part.strip()]
    if not revisions:
        raise ConfigError(f"{argument}: no revision is named; give commit=main,HEAD")
    return ",".join(_quote_text(revision) for revision in revisions)


def _is_axis(argument: str) -> bool:
    if argument.startswith("-") or "=" not in argument:
        return False
    try:
        return bool(OverridesParser.create().parse_override(argument).is_sweep_override())
    except HydraException as error:
        raise ConfigError(f"{argument}: cannot be read ({str(error).splitlines()[0]}); {QUOTE_TWICE}") from error


# ---------------------------------------------------------------- what the sweeper hands on


def read_request(arguments: Sequence[str], loader: ConfigLoader, master: DictConfig) -> Request:
    """Tell sweep overrides from plain ones and bind the function that composes one arm (about 0.1 s)."""
    overrides = OverridesParser.create(config_loader=loader).parse_overrides(list(arguments))
    plain = tuple(o.input_line or "" for o in overrides if not o.is_sweep_override())
    axes = tuple(_axis(o) for o in overrides if o.is_sweep_override())

    def compose(arm_overrides: Sequence[str]) -> SweepConfig:
        with _plain_errors():
            config = loader.load_sweep_config(master, [_prepare(override) for override in arm_overrides])
            return to_sweep_config(_as_data(config), _declared_settings(loader, config))

    return Request(plain, axes, compose)


def _axis(override: Any) -> Axis:
    key = override.get_key_element()
    texts = tuple(override.sweep_string_iterator())
    if not texts:
        raise ConfigError(f"'{override.input_line}' sweeps over nothing; give at least one value")
    return Axis(key, tuple(f"{key}={text}" for text in texts), tuple(map(_label, texts)))


def _label(text: str) -> str:
    """Show the value of an override as people type it: without its quotes."""
    value = OverridesParser.create().parse_override(f"k={text}").value()
    return value if isinstance(value, str) else text


def _declared_settings(loader: ConfigLoader, config: DictConfig) -> Mapping[str, Any]:
    """Return the keys, with their defaults, that the chosen workload declares: in its own YAML or one that it names."""
    declared = _declared(loader, config.hydra.runtime.choices.workload)
    return OmegaConf.to_container(declared, resolve=False)  # type: ignore[return-value]


def _declared(loader: ConfigLoader, name: str) -> DictConfig:
    """Merge a workload's YAML into those of its group that its defaults list names."""
    found = loader.repository.load_config(f"workload/{name}")  # type: ignore[attr-defined]
    own = found.config.get("workload", found.config)
    paths = [entry.path for entry in found.defaults_list or () if isinstance(entry, ConfigDefault)]
    declared = [_declared(loader, path.removeprefix("/workload/")) for path in paths if path and path != "_self_"]
    return OmegaConf.merge(*declared, own) if isinstance(own, DictConfig) else OmegaConf.create({})  # type: ignore[return-value]


def _as_data(config: DictConfig) -> dict[str, Any]:
    """Resolve everything and leave Hydra's own node out."""
    if "sweeps" in config and isinstance(config.sweeps, DictConfig):
        file = config.hydra.runtime.choices.sweeps
        raise ConfigError(f"sweeps/{file}.yaml must begin with the line `# @package _global_`; now it changes nothing")
    if (starter := config.hydra.runtime.choices.launchers) in RANK_STARTERS:
        raise ConfigError(
            f"override /launchers: {starter} in a defaults list says where a lane runs (local, slurm); how ranks start "
            f"is chosen by override /launchers@ranks: {starter}"
        )
    keys = [str(key) for key in config if key not in ("hydra", "name", "sweeps")]
    data: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, keys), resolve=True, throw_on_missing=True)
    written: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, ["arms"]))
    for arm, raw in zip(data["arms"] or (), written["arms"] or (), strict=False):
        if isinstance(arm, dict) and isinstance(raw, dict) and "set" in raw:
            arm["set"] = raw["set"]  # overrides: what they refer to is resolved when the arm is composed, once
    choices = config.hydra.runtime.choices
    return {**data, "name": config.name or choices.get("sweeps") or choices.workload}
