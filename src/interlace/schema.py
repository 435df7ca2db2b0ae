"""The data that flows: frozen dataclasses with units in their names. No behaviour, no heavy imports.

Words (docs/words.md): arm, round, run, lane, sweep, window, step series.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORMAT_VERSION = 1
"""Version of every JSON file of a sweep. 1: first."""

Order = Literal["mirrored", "random", "sequential"]
Status = Literal["ok", "failed", "oom", "timeout", "stalled", "killed", "disturbed", "incomplete", "interrupted"]
Verdict = Literal["faster", "slower", "within noise", "not judged"]


# ---------------------------------------------------------------- configuration


@dataclass(frozen=True)
class ArmConfig:
    """One entry of `arms:` in a sweep file. With `measure: false` it keeps its row and is not run."""

    name: str
    commit: str | None = None
    set: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    measure: bool = True


@dataclass(frozen=True)
class SourceConfig:
    """Where the measured code lives, and how a commit of it is made runnable."""

    repo: str | None = None
    setup: str | None = None
    setup_timeout_s: float = 1800.0
    pythonpath: list[str] = field(default_factory=lambda: ["."])
    module: str | None = None
    dirty: Literal["fail", "ignore"] = "fail"
    lfs: Literal["fail", "ignore"] = "fail"
    cache_dir: str | None = None


@dataclass(frozen=True)
class WorkloadConfig:
    """What is measured. Keys of a workload's own YAML beyond these are its `settings`."""

    name: str
    command: str | None = None
    module: str | None = None
    cwd: str | None = None
    python: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    steps: int | None = None
    samples_per_step: float | None = None
    tokens_per_step: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RanksConfig:
    """How the ranks of one run are started."""

    kind: Literal["accelerate", "torchrun", "plain"]
    nproc_per_node: int = 1
    omp_num_threads: int | None = None
    mixed_precision: str = "no"
    config_file: str | None = None
    args: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LaunchersConfig:
    """Where a lane runs."""

    kind: Literal["local", "slurm"] = "local"


@dataclass(frozen=True)
class NumaConfig:
    """Whether each rank is bound to the NUMA node of its GPU."""

    bind: Literal["auto", "off"] = "auto"


@dataclass(frozen=True)
class MeasureConfig:
    """Which steps count, how they are read, and when a run is given up."""

    window: list[int] = field(default_factory=lambda: [51, 300])
    reader: str = "auto"
    log: str | None = None
    pattern: str | None = None
    unit: Literal["s", "ms", "us"] = "s"
    timeout_s: float = 7200.0
    stall_s: float = 600.0
    grace_s: float = 60.0


@dataclass(frozen=True)
class GateConfig:
    """When the node counts as empty, and what to do while it does not."""

    action: Literal["wait", "warn", "fail", "off"] = "wait"
    timeout_s: float = 600.0
    poll_s: float = 2.0
    gpu_memory_mib: float = 1024.0
    gpu_utilization_pct: float = 10.0
    cpu_busy_pct: float = 50.0


@dataclass(frozen=True)
class MonitorConfig:
    """What is sampled while a run is on."""

    source: Literal["auto", "nvml", "nvidia-smi", "off"] = "auto"
    interval_s: float = 0.2


@dataclass(frozen=True)
class StatsConfig:
    """How sure a verdict has to be."""

    confidence: float = 0.95
    margin_pct: float = 1.0
    block: int = 10


@dataclass(frozen=True)
class AdaptiveConfig:
    """Whether rounds are added until the interval is narrow enough. Only the spread is looked at, never the sign."""

    enabled: bool = False
    max_rounds: int = 8
    target_pct: float = 1.0


@dataclass(frozen=True)
class SweepConfig:
    """One fully resolved configuration: the whole sweep's part and, below it, one arm's part."""

    name: str
    workload: WorkloadConfig
    ranks: RanksConfig
    rounds: int = 4
    order: Order = "mirrored"
    seed: int = 0
    burn_in: bool = True
    baseline: str | None = None
    output_dir: str = "outputs"
    fail_if: Literal["slower", "not_faster", "incorrect"] | None = None
    commit: str | None = None
    commits: str | None = None
    arms: list[ArmConfig] = field(default_factory=list)
    cumulative: bool = False
    env: dict[str, str] = field(default_factory=dict)
    launchers: LaunchersConfig = field(default_factory=LaunchersConfig)
    source: SourceConfig = field(default_factory=SourceConfig)
    numa: NumaConfig = field(default_factory=NumaConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    gate: GateConfig = field(default_factory=GateConfig)
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
    stats: StatsConfig = field(default_factory=StatsConfig)
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    repeat_broken_rounds: bool = True


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


@dataclass(frozen=True)
class Sweep:
    """The whole experiment as decided: what `sweep.yaml` holds."""

    name: str
    arms: tuple[Arm, ...]
    baseline: str
    config: SweepConfig
    notes: tuple[str, ...] = ()


# ---------------------------------------------------------------- the record of a run


@dataclass(frozen=True)
class Cause:
    """Why a run ended as it did: a short code, a sentence, and the rank and exit code where known."""

    code: str
    message: str
    rank: int | None = None
    exitcode: int | None = None


@dataclass(frozen=True)
class StepSummary:
    """What the step series of one run says, over its window. Times in seconds.

    `stat_s` is the number that is compared: the 20 %-trimmed mean of block means.
    `quantum_s` is the resolution of the recorded values, None when all are equal.
    `resolution` is the relative bias that rounding can leave in `stat_s`; `stall_share` the part of the plain
    mean that the trimmed mean leaves out; `sd_s` the spread of single steps; `before_s` what all steps before the
    window took together, compilation and warm-up included.
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


@dataclass(frozen=True)
class GpuPeak:
    """Peak of one GPU over one run, as nvidia-smi would have shown it. None with a reason, never 0."""

    uuid: str
    index: int
    peak_mib: float | None
    baseline_mib: float | None
    reason: str | None = None


@dataclass(frozen=True)
class RunRecord:
    """All that is known of one finished attempt of a run; `record.json`."""

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
    gpus: tuple[GpuPeak, ...] = ()
    cpu_busy_pct: float | None = None
    own_cpu_s: float | None = None
    own_wall_s: float | None = None
    gate_wait_s: float = 0.0
    notes: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION
