"""The data that flows: frozen dataclasses with units in their names. No behaviour, no heavy imports.

Words (docs/words.md): arm, round, run, lane, sweep, window, step series.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from interlace.settings import Order, SweepConfig  # noqa: TC001 (msgspec reads these at run time)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

FORMAT_VERSION = 1
"""Version of every JSON file of a sweep. 1: first."""

Status = Literal["ok", "failed", "oom", "timeout", "stalled", "killed", "disturbed", "incomplete", "interrupted"]
Verdict = Literal["faster", "slower", "within noise", "not judged"]


# ---------------------------------------------------------------- arms and plan


@dataclass(frozen=True)
class Axis:
    """One swept key: `overrides[i]` selects the value that people read as `labels[i]`."""

    key: str
    overrides: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """What the shell asked for: overrides that hold for every arm, and the swept axes.

    `compose` turns the overrides of one arm into its configuration.
    """

    plain: tuple[str, ...]
    axes: tuple[Axis, ...]
    compose: Callable[[Sequence[str]], SweepConfig]


@dataclass(frozen=True)
class Arm:
    """One thing under comparison.

    `name` is what people read, `slug` its file-system-safe, unique form; `overrides` are the Hydra overrides
    that make it differ; `config` is what it resolved to. `sha` is the full commit, None without a repository.
    """

    name: str
    slug: str
    overrides: tuple[str, ...]
    config: SweepConfig
    sha: str | None = None
    subject: str | None = None
    measure: bool = True


@dataclass(frozen=True)
class Run:
    """One launch of one arm in one round. Round 0 is the burn-in, which is never compared."""

    index: int
    round: int
    arm: str

    @property
    def id(self) -> str:
        """Folder name of the run, as in `003-r1-compile`."""
        return f"{self.index:03d}-r{self.round}-{self.arm}"


@dataclass(frozen=True)
class Extension:
    """A round that was added to a plan, and why; `repeats` names the round whose place it takes."""

    round: int
    reason: str
    repeats: int | None = None


@dataclass(frozen=True)
class Plan:
    """Every run in its order, fixed before the first one starts. Arms are named by slug.

    `extensions` are the whole rounds added later: by a rule that sees no result but the spread, or by hand.
    """

    order: Order
    seed: int
    base_order: tuple[str, ...]
    runs: tuple[Run, ...]
    extensions: tuple[Extension, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def repeated(self) -> frozenset[int]:
        """The rounds for which another one stands; what is left of them is not measured any more."""
        return frozenset(one.repeats for one in self.extensions if one.repeats is not None)


@dataclass(frozen=True)
class Sweep:
    """The whole experiment as decided: what `sweep.yaml` holds. `command` is what was typed."""

    name: str
    arms: tuple[Arm, ...]
    baseline: str
    config: SweepConfig
    notes: tuple[str, ...] = ()
    command: str = ""

    @property
    def names(self) -> dict[str, str]:
        """Slug -> name of every arm."""
        return {arm.slug: arm.name for arm in self.arms}

    def in_order(self, found: Sequence[tuple[str, T]]) -> list[tuple[str, T]]:
        """Turn (slug, thing) pairs into (name, thing), in the order of the arms."""
        return [(arm.name, thing) for arm in self.arms for slug, thing in found if slug == arm.slug]

    def arm(self, slug: str) -> Arm:
        """Return the arm of this slug."""
        return next(arm for arm in self.arms if arm.slug == slug)


# ---------------------------------------------------------------- the record of a run


@dataclass(frozen=True)
class Cause:
    """Why a run ended as it did: a short code, a sentence, and the rank and exit code where known.

    `node` is where, in a run of several nodes.
    """

    code: str
    message: str
    rank: int | None = None
    exitcode: int | None = None
    node: str | None = None


@dataclass(frozen=True)
class StepSummary:
    """What the step series of one run says, over its window. Times in seconds.

    `stat_s` is the number that is compared: the 20 %-trimmed mean of block means.
    `quantum_s` is the resolution of the recorded values, None when all are equal.
    `resolution` is the relative bias that rounding can leave in `stat_s`, None when nothing is known;
    `stall_share` the part of the plain mean that the trimmed mean leaves out; `sd_s` the spread of single steps;
    `before_s` what the `before_n` steps before the window took together, compilation and warm-up included; None where
    the log does not hold all of them.
    """

    first: int
    last: int
    n: int
    stat_s: float
    median_s: float
    mean_s: float
    p90_s: float
    max_s: float
    step1_s: float | None
    quantum_s: float | None
    cumulative: bool
    sd_s: float | None = None
    stall_share: float | None = None
    resolution: float | None = None
    before_s: float | None = None
    before_n: int = 0


@dataclass(frozen=True)
class GpuSeen:
    """What one GPU did over one run. None where it was not to be had, never 0.

    `peak_mib` is the highest memory in use as nvidia-smi would have shown it, `baseline_mib` that before the run;
    `reason` says why there is no peak. `sm_clock_mhz` and `power_w` are medians over the samples in which the GPU
    was at work, `busy_pct` the share of such samples, `temperature_c` the highest. `held_pct` gives, for every
    reason that held the clock down, the share of those samples in which it did. `node` is None where the run had one.
    """

    uuid: str
    index: int
    peak_mib: float | None
    baseline_mib: float | None
    reason: str | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    busy_pct: float | None = None
    held_pct: dict[str, float] = field(default_factory=dict)
    node: str | None = None


@dataclass(frozen=True)
class Foreigner:
    """A compute process that was not ours, on a GPU of the node during a run; times in seconds of the run."""

    pid: int
    name: str | None
    uuid: str
    index: int | None
    first_s: float
    last_s: float
    used_mib: float | None = None
    node: str | None = None


def gpu_name(one: GpuSeen | Foreigner) -> str:
    """Return what messages call a GPU: by its index where it has one, and with its node where a run had several."""
    name = f"GPU {one.uuid if one.index is None else one.index}"
    return name if one.node is None else f"{one.node} {name}"


@dataclass(frozen=True)
class RunRecord:
    """All that is known of one finished attempt of a run; `record.json`.

    `node` is the node's name, as SLURM has it, or of several nodes the list, as in `n[1-2]`.
    `cpu_busy_pct` is the load of all CPUs of the node, `others_cpu_pct` the part of it that was not this run's (the
    orchestrator, other users, time a hypervisor took); None where the run's own share is not known. Of several nodes
    each is the highest.
    """

    run: Run
    attempt: int
    status: Status
    started_at: float
    wall_s: float
    returncode: int | None
    cause: Cause | None = None
    steps: StepSummary | None = None
    steps_seen: int = 0
    reader: str | None = None
    world_size_asked: int | None = None
    world_size_found: int | None = None
    gpus: tuple[GpuSeen, ...] = ()
    foreign: tuple[Foreigner, ...] = ()
    cpu_busy_pct: float | None = None
    others_cpu_pct: float | None = None
    own_cpu_s: float | None = None
    own_wall_s: float | None = None
    gate_wait_s: float = 0.0
    node: str | None = None
    notes: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION
