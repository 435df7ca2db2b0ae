"""Plain nested data into frozen dataclasses: what is misspelt, missing or of the wrong type is named here."""

from __future__ import annotations

import difflib
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec

from interlace.errors import ConfigError
from interlace.settings import SweepConfig, WorkloadConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def to_sweep_config(data: Mapping[str, Any], declared: Mapping[str, Any]) -> SweepConfig:
    """Turn composed data into a SweepConfig; `declared` are the keys and defaults of the workload's own YAML.

    Raises ConfigError naming the key for a misspelt key, a wrong type or a missing value.
    """
    if not isinstance(data.get("workload"), dict):
        raise ConfigError("no workload is chosen; give workload=NAME (`interlace sweep --help` lists them)")
    typed = {**data, "workload": _split_settings(data["workload"], declared)}
    refuse_unknown(typed, SweepConfig)
    try:
        return msgspec.convert(_as_words(typed, SweepConfig), SweepConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(_type_error(error, typed)) from error


def _as_words(value: Any, hint: Any) -> Any:
    """Undo what YAML and Hydra make of words where only words can be meant: `off` -> False, `OMP: 1` -> 1."""
    if isinstance(value, bool) and any(isinstance(word, str) for word in get_args(hint)):
        return "on" if value else "off"
    if isinstance(value, int) and not isinstance(value, bool) and hint is str:
        return str(value)
    if isinstance(value, list):
        return [_as_words(item, next(iter(get_args(hint)), None)) for item in value]
    if isinstance(value, dict) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return {key: _as_words(item, hints.get(key)) for key, item in value.items()}
    if isinstance(value, dict) and get_origin(hint) is dict:
        kind = get_args(hint)[1]
        text = str if str in get_args(kind) else kind  # environments: text, or null
        return {key: _as_words(item, text) for key, item in value.items()}
    return value


OWN_KEY = (
    "a key of your own stands, with its default, in a workload file of your own: my/workload/NAME.yaml with "
    "--config-dir my workload=NAME (docs/sweeps.md)"
)


def _split_settings(workload: dict[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    common = {field.name for field in fields(WorkloadConfig)} - {"settings"}
    own = {key: value for key, value in workload.items() if key not in common}
    for key, value in own.items():
        if key not in declared:
            known = [f"workload.{name}" for name in sorted({*declared, *common})]
            raise ConfigError(unknown_key(f"workload.{key}", known, f"known are {', '.join(known)}; {OWN_KEY}"))
        _check_type(f"workload.{key}", value, declared[key])
    return {**{key: value for key, value in workload.items() if key in common}, "settings": own}


def _check_type(key: str, value: Any, default: Any) -> None:
    """Hold a value to the type of its default (an int may stand for a float): a workload's YAML is its schema."""
    if isinstance(value, dict) and isinstance(default, dict):
        for name, item in value.items():
            if name in default:
                _check_type(f"{key}.{name}", item, default[name])
        return
    if default is None or value is None or (isinstance(default, str) and default.startswith("${")):
        return
    numeric = isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool)
    if default != "???" and type(value) is not type(default) and not numeric:
        quoted = f"""; quote it twice, for the shell and inside: "{key}='...'\"""" if isinstance(default, str) else ""
        raise ConfigError(f"{key}={value!r} is {_kind(value)}; {_kind(default)} is expected, as in {default!r}{quoted}")


def _kind(value: Any) -> str:
    names = {bool: "true/false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "a mapping")


def refuse_unknown(data: Mapping[str, Any], schema: type, path: str = "") -> None:
    """Raise ConfigError for the first key that the dataclass `schema` (or one inside it) does not have."""
    hints = get_type_hints(schema)
    for key, value in data.items():
        if key not in hints:
            raise ConfigError(unknown_key(f"{path}{key}", [f"{path}{name}" for name in hints]))
        inner = [t for t in (hints[key], *get_args(hints[key])) if is_dataclass(t)]
        for item in value if isinstance(value, list) else [value]:
            if inner and isinstance(item, dict):
                refuse_unknown(item, inner[0], f"{path}{key}.")  # type: ignore[arg-type]


def unknown_key(key: str, known: Sequence[str], otherwise: str | None = None) -> str:
    """Word the message for a key that does not exist, with the nearest one that does."""
    if key in known:
        return f"the chosen configuration has no key '{key}'; choose the group that has it (workload=command, say)"
    group, _, last = key.rpartition(".")
    beside = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == group}
    near = difflib.get_close_matches(last, beside, n=1, cutoff=0.7)
    close = [beside[near[0]]] if near else difflib.get_close_matches(key, known, n=1, cutoff=0.85)
    hint = f"did you mean '{close[0]}'?" if close else otherwise or "known are " + ", ".join(sorted(known))
    return f"unknown key '{key}' in the configuration; {hint}"


def _type_error(error: Exception, data: Mapping[str, Any]) -> str:
    """Reword `Expected `int`, got `str` - at `$.rounds`` -> `rounds=two: expected int, got str`."""
    text, _, where = str(error).partition(" - at `$.")
    key = where.rstrip("`")
    text = f"{text[:1].lower()}{text[1:]}".replace("`", "").replace("enum value", "value")
    if ".env[" in f".{key}":
        text += "; environment values are text: quote them in the file (KEY: 'on')"
    if key.endswith("commit"):
        text += "; a commit is text: quote it in the file (commit: '5e81234'), or YAML makes a number of it"
    if key == "measure.window":
        text += "; give the first and the last step, as in measure.window=[51,300]"
    elif text.startswith("expected array") and key != "arms":
        text += f"; a list stands in brackets: {key}=[a,b]"
    choices = _choices(SweepConfig, key.split("."))
    found, value = _at(data, key.split("."))
    shown = f"{key}={value}" if found and not isinstance(value, dict | list) else key
    return f"{shown}: {text}" + (f"; choose one of {', '.join(choices)}" if choices else "")


def _at(data: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Return the value that stands at a dotted path, and whether there is one."""
    for name in path:
        if not isinstance(data, dict) or name not in data:
            return False, None
        data = data[name]
    return True, data


def _choices(schema: Any, path: Sequence[str]) -> list[str]:
    """List what a `Literal` at this path allows; empty for anything else."""
    for name in path:
        hint = get_type_hints(schema).get(name) if is_dataclass(schema) else None
        inner = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
        schema = inner[0] if inner else hint
    kinds = [schema, *get_args(schema)]
    return [choice for kind in kinds for choice in get_args(kind) if isinstance(choice, str)]


def known_keys(schema: type, path: str = "") -> list[str]:
    """Every key of a dataclass and of those inside it, dotted."""
    names = []
    for field in fields(schema):
        names.append(f"{path}{field.name}")
        kind = get_type_hints(schema)[field.name]
        if is_dataclass(kind):
            names += known_keys(kind, f"{path}{field.name}.")  # type: ignore[arg-type]
    return names
