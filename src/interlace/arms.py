"""What differs: turns a request (overrides, axes, a sweep file's arms) into named arms, each composed once."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from interlace.errors import ConfigError
from interlace.schema import Arm, Sweep
from interlace.wording import variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlace.schema import Axis, Request
    from interlace.settings import ArmConfig, Environment, SweepConfig

SLUG_MAX_CHARS = 48
"""Run folders stay readable, and far below the 255 bytes a file name may have."""

SWEEP_WIDE = (
    "name", "rounds", "order", "seed", "burn_in", "baseline", "output_dir", "fail_if", "arms", "commits",
    "cumulative", "only", "launchers", "gate", "stats", "adaptive", "repeat_broken_rounds",
)  # fmt: skip
"""Keys that belong to the sweep as a whole; an arm cannot have its own."""


MOST_ROUNDS = 1000
FEWEST_ADAPTIVE = 4
_NAMES = "TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY(_ID)?|PRIVATE_KEY|CREDENTIALS?|AUTH"
SECRET = re.compile(rf"(^|_)({_NAMES})$|SECRET_", re.IGNORECASE)


@dataclass(frozen=True)
class Point:
    """An arm before it is composed: its name, and what it sets beyond the overrides of the whole sweep."""

    name: str
    overrides: tuple[str, ...] = ()
    env: Environment = field(default_factory=dict)
    measure: bool = True


def build_sweep(request: Request, range_axis: Callable[[SweepConfig], Axis | None]) -> Sweep:
    """Compose every arm of a request.

    `range_axis` turns the `commits:` range of a configuration into an axis (None without one): git is not
    this module's to ask. Raises ConfigError for an empty sweep, equal names, an unknown baseline and
    whatever an arm may not have of its own.
    """
    if any(key_of(axis.key) == "only" for axis in request.axes):
        raise ConfigError("only cannot be swept over; it chooses arms for the whole sweep: only=[baseline,fast]")
    first = [axis.overrides[0] for axis in request.axes]
    base = request.compose([*request.plain, *first])
    commits = range_axis(base)
    axes = (*request.axes, commits) if commits else request.axes
    points = chosen(cross(entries(base.arms, cumulative=base.cumulative), axes), base.only)
    arms = name_slugs([_arm(request, point) for point in points])
    config = replace(base, baseline=pick_baseline(base.baseline, [arm.name for arm in arms]))
    _check(arms, config)
    baseline = next(arm.slug for arm in arms if arm.name == config.baseline)
    return Sweep(config.name, tuple(arms), baseline, config)


def entries(arms: Sequence[ArmConfig], *, cumulative: bool) -> list[Point]:
    """Turn the `arms:` list into points; in a cumulative list each inherits what stands above it."""
    points: list[Point] = []
    inherited = Point("")
    for arm in arms:
        own = ([f"commit={arm.commit}"] if arm.commit is not None else []) + list(arm.set)
        before = inherited if cumulative else Point("")
        kept = [text for text in before.overrides if key_of(text) not in map(key_of, own)]
        point = Point(arm.name, (*kept, *own), {**before.env, **arm.env}, arm.measure)
        points.append(point)
        inherited = point
    return points


def cross(points: Sequence[Point], axes: Sequence[Axis]) -> list[Point]:
    """Return the product of the named arms and the swept axes; names show only what differs."""
    _refuse_twice(points, axes)
    starts = list(points) or [Point("")]
    labels = axis_labels(axes)
    choices = [list(zip(axis.overrides, names, strict=True)) for axis, names in zip(axes, labels, strict=True)]
    return [
        Point(_join([start.name, *(name for _, name in combination)]),
              (*start.overrides, *(override for override, _ in combination)), start.env, start.measure)
        for start in starts
        for combination in itertools.product(*choices)
    ]  # fmt: skip


def chosen(points: Sequence[Point], only: Sequence[str]) -> list[Point]:
    """Return the points that `only` names, in their own order; all of them where it names none.

    The name of a listed arm stands for all that a swept key makes of it. Raises ConfigError for a name that no arm has,
    and where one arm alone is left.
    """
    if not only:
        return list(points)
    names = [point.name for point in points]
    if len(points) == 1:
        raise ConfigError(
            f"only={list(only)}: there is one arm; only= chooses among those of a sweep file (sweeps=NAME)"
        )
    for name in only:
        if not any(_is_meant(each, name) for each in names):
            quoted = ", ".join(f'"{each}"' for each in names)
            raise ConfigError(f"only={list(only)}: no arm is called '{name}'; the arms are {quoted}")
    left = [point for point in points if any(_is_meant(point.name, name) for name in only)]
    if len(left) == 1:
        raise ConfigError(f"only={list(only)} leaves one of {len(points)} arms and nothing to compare; name two")
    return left


def _is_meant(name: str, asked: str) -> bool:
    return name == asked or name.startswith(f"{asked},")


def axis_labels(axes: Sequence[Axis]) -> list[list[str]]:
    """Name each value of each axis: `abc1234` for a commit, `batch_size=8` for a setting, `slurm` for a group."""
    last = [axis.key.split(".")[-1] for axis in axes]
    return [
        [label if _speaks_for_itself(axis.key) else f"{axis.key if last.count(end) > 1 else end}={label}"
         for label in axis.labels]
        for axis, end in zip(axes, last, strict=True)
    ]  # fmt: skip


def _speaks_for_itself(key: str) -> bool:
    return key in {"commit", "workload", "launchers@ranks", "launchers"}


def _refuse_twice(points: Sequence[Point], axes: Sequence[Axis]) -> None:
    """Refuse a key that an arm sets and the shell sweeps: the arm's name would not say what it is."""
    for point in points:
        own = {key_of(override) for override in point.overrides}
        own |= {f"env.{name}" for name in point.env}
        for axis in axes:
            if (key := axis.key.lstrip("+~")) in own:
                raise ConfigError(f"arm '{point.name}' sets {key}, which is swept over as well; do one of both")


def key_of(override: str) -> str:
    """Return the key that an override sets."""
    return override.lstrip("+~").partition("=")[0]


def own_settings(arm: Arm) -> list[str]:
    """List what makes an arm beside its commit: what it sets, and its environment, each once."""
    sets = [text for text in arm.overrides if key_of(text).split(".")[0] not in ("commit", "env")]
    return [*sets, *(variable(name, value) for name, value in arm.config.env.items())]


def _join(parts: Iterable[str]) -> str:
    return ",".join(part for part in parts if part) or "only"


def _arm(request: Request, point: Point) -> Arm:
    config = request.compose([*request.plain, *point.overrides])
    own = replace(config, env={**config.env, **point.env})
    return Arm(point.name, "", point.overrides, own, measure=point.measure)


def name_slugs(arms: Sequence[Arm]) -> list[Arm]:
    """Give each arm its unique folder-safe slug. Raises ConfigError for two arms of one name."""
    names = [arm.name for arm in arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two arms are called '{twice[0]}'; give every arm a name of its own")
    slugs = [slug(name) for name in names]
    folded = [text.lower() for text in slugs]
    return [
        replace(arm, slug=text if folded.count(text.lower()) == 1 else _hashed(text, arm.name))
        for arm, text in zip(arms, slugs, strict=True)
    ]


def slug(name: str) -> str:
    """Write a name as one safe path component; a hash keeps apart what the rewriting would make equal."""
    text = re.sub(r"([^A-Za-z0-9_.-]|\.{2,})+", "-", name.replace("=", "-")).strip("-.") or "arm"
    lossy = not re.fullmatch(r"[A-Za-z0-9_.,=~^/ -]*", name) or len(text) > SLUG_MAX_CHARS or text == "arm"
    return _hashed(text, name) if lossy else text


def _hashed(text: str, name: str) -> str:
    return f"{text[: SLUG_MAX_CHARS - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def pick_baseline(asked: str | None, names: Sequence[str]) -> str:
    """Return the baseline's name: the one asked for, else the arm called `baseline`, else the first."""
    if asked is None:
        return "baseline" if "baseline" in names else names[0]
    if asked not in names:
        raise ConfigError(f"baseline={asked} is not an arm (or only= leaves it out); the arms are {', '.join(names)}")
    return asked


def _check(arms: Sequence[Arm], base: SweepConfig) -> None:
    unmeasured = [arm.name for arm in arms if not arm.measure]
    if base.baseline in unmeasured:
        raise ConfigError(f"the baseline '{base.baseline}' has measure: false; every arm is compared with it")
    if len(arms) - len(unmeasured) == 1:
        raise ConfigError(
            "there is one arm only, so nothing to compare; give several (commit=main,HEAD or "
            "workload.KEY=1,2), a range (commits=A..B) or a sweep file (sweeps=NAME); "
            f"`interlace aa` measures one arm against itself{_comma(base.workload.command)}"
        )
    if not re.fullmatch(r"[^/\0]{1,200}", base.name) or base.name in (".", ".."):
        raise ConfigError(f"name={base.name}: a sweep's name is a folder name; output_dir says where it lies")
    if base.rounds < 1:
        raise ConfigError(f"rounds={base.rounds}: at least one round is needed (three for a verdict that counts)")
    if base.adaptive.enabled and base.rounds < FEWEST_ADAPTIVE:
        raise ConfigError(
            f"rounds={base.rounds}: adaptive.enabled needs {FEWEST_ADAPTIVE} to start with; intervals that were looked "
            "at after fewer cover less than they say"
        )
    if base.adaptive.enabled and base.adaptive.max_rounds < base.rounds:
        raise ConfigError(f"adaptive.max_rounds={base.adaptive.max_rounds} is under rounds={base.rounds}")
    if base.rounds > MOST_ROUNDS:
        raise ConfigError(f"rounds={base.rounds}: more than {MOST_ROUNDS} rounds are a mistake")
    if base.order == "screen":
        _check_screen(len(arms) - len(unmeasured) - 1, base)
    for arm in arms:
        _check_arm(arm, base)


def _comma(command: str | None) -> str:
    """Say how several commands are typed, where the only one has a comma in it."""
    if command is None or "," not in command:
        return ""
    return (
        "; a comma inside workload.command stays a comma: to compare several commands, quote each: "
        "workload.command=\"'python a.py','python b.py'\""
    )


def _check_screen(candidates: int, base: SweepConfig) -> None:
    """Refuse a screen that could not rank, or that asks for what only judged rounds have."""
    if base.rounds != 1:
        raise ConfigError(f"order=screen is one round; with rounds={base.rounds} give order=mirrored, else rounds=1")
    if base.launchers.lanes > 1:
        raise ConfigError(f"order=screen ranks within one round; launchers.lanes={base.launchers.lanes}: give one lane")
    if candidates < 2:  # noqa: PLR2004 (one alone needs no rank)
        raise ConfigError("order=screen ranks several candidates; there is one: give order=mirrored rounds=4")
    if base.adaptive.enabled or base.fail_if:
        raise ConfigError("order=screen gives no verdicts; adaptive.enabled and fail_if need them: leave them out")


def _check_arm(arm: Arm, base: SweepConfig) -> None:
    for key in SWEEP_WIDE:
        if key != "baseline" and getattr(arm.config, key) != getattr(base, key):
            raise ConfigError(
                f"arm '{arm.name}' has a {key} of its own; {key} belongs to the whole sweep and cannot differ"
            )
    if arm.config.measure.window != base.measure.window:
        raise ConfigError(f"arm '{arm.name}' has another measure.window; arms are compared over the same steps")
    if arm.config.measure.period != base.measure.period:
        raise ConfigError(
            f"arm '{arm.name}' has another measure.period; give all arms a common multiple, so that blocks are the same"
        )
    if arm.config.workload.command is None and arm.config.workload.module is None:
        raise ConfigError('workload.command has no value; give workload.command="python train.py ..."')
    env = {**arm.config.workload.env, **arm.config.env}
    if secret := next((key for key, value in env.items() if value is not None and SECRET.search(key)), None):
        raise ConfigError(
            f"env.{secret} looks like a secret, and what a sweep sets is written to disk; "
            "export it in the shell instead: ranks inherit it"
        )
    if arm.config.ranks.nproc_per_node < (0 if arm.config.ranks.kind == "plain" else 1):
        raise ConfigError(f"ranks.nproc_per_node={arm.config.ranks.nproc_per_node}: at least one rank is needed")
    check_window(arm.config.measure.window, arm.config.workload.steps)


def check_window(window: Sequence[int], steps: int | None) -> None:
    """Raise ConfigError for a window that is no range of steps, or lies outside the steps a run makes."""
    if len(window) != 2 or not 1 <= window[0] <= window[1]:  # noqa: PLR2004 (first and last)
        raise ConfigError(f"measure.window={list(window)} is no window; give [first, last], counted from step 1")
    if steps is not None and window[1] > steps:
        raise ConfigError(
            f"measure.window={list(window)} ends after the last step of a run (workload.steps={steps}); "
            f"give a window inside it, such as measure.window=[{max(1, steps // 6)},{steps}]"
        )
