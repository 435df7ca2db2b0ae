"""The typed configuration: frozen dataclasses that mirror conf/, units in their names. No behaviour.

What a key means stands beside it in conf/config.yaml; `interlace.typed` turns composed data into these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

Order = Literal["mirrored", "random", "sequential", "screen"]
Source = Literal["auto", "nvml", "nvidia-smi", "off"]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Environment = dict[str, str | None]
"""Variables and what they are set to; None takes a variable of the shell's away."""


@dataclass(frozen=True)
class ArmConfig:
    """One entry of `arms:` in a sweep file. With `measure: false` it keeps its row and is not run."""

    name: str
    commit: str | None = None
    set: list[str] = field(default_factory=list)
    env: Environment = field(default_factory=dict)
    measure: bool = True


@dataclass(frozen=True)
class SourceConfig:
    """Where the measured code lives, and how a commit of it is made runnable."""

    repo: str | None = None
    setup: str | None = None
    setup_timeout_s: Positive = 1800.0
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
    env: Environment = field(default_factory=dict)
    steps: Count | None = None
    samples_per_step: Positive | None = None
    tokens_per_step: Positive | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RanksConfig:
    """How the ranks of one run are started."""

    kind: Literal["accelerate", "torchrun", "plain"]
    nproc_per_node: Annotated[int, Meta(ge=0)] = 1
    omp_num_threads: Count | None = None
    mixed_precision: str = "no"
    config_file: str | None = None
    args: list[str] = field(default_factory=list)
    hook: bool = False


@dataclass(frozen=True)
class LaunchersConfig:
    """Where a lane runs. Names of what SLURM is asked for are submitit's, launchers/slurm.yaml says what they mean."""

    kind: Literal["local", "slurm"] = "local"
    lanes: Annotated[int, Meta(ge=1, le=64)] = 1
    wait: bool = True
    poll_s: Positive = 5.0
    timeout_min: Count = 240
    nodes: Count = 1
    gpus_per_node: Count | None = None
    cpus_per_task: Count | None = None
    mem_gb: Positive | None = None
    slurm_partition: str | None = None
    slurm_account: str | None = None
    slurm_qos: str | None = None
    slurm_constraint: str | None = None
    slurm_reservation: str | None = None
    slurm_gres: str | None = None
    slurm_nodelist: str | None = None
    slurm_exclude: str | None = None
    slurm_comment: str | None = None
    slurm_dependency: str | None = None
    slurm_mail_type: str | None = None
    slurm_mail_user: str | None = None
    slurm_mem_per_cpu: str | None = None
    slurm_mem_per_gpu: str | None = None
    slurm_wckey: str | None = None
    slurm_exclusive: bool = True
    slurm_signal_delay_s: Count = 90
    slurm_setup: list[str] = field(default_factory=list)
    slurm_srun_args: list[str] = field(default_factory=list)
    slurm_additional_parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NumaConfig:
    """Whether each rank is bound to the NUMA node of its GPU, how far, and its memory too."""

    bind: Literal["auto", "off"] = "auto"
    scope: Literal["node", "socket", "cores"] = "node"
    memory: Literal["off", "preferred", "bind"] = "off"


@dataclass(frozen=True)
class MeasureConfig:
    """Which steps count, how they are read, and when a run is given up."""

    window: list[int] = field(default_factory=lambda: [51, 300])
    reader: str = "auto"
    log: str | None = None
    pattern: str | None = None
    unit: Literal["s", "ms", "us"] = "s"
    period: Count = 1
    timeout_s: Positive = 7200.0
    stall_s: Positive = 600.0
    grace_s: NotNegative = 60.0


@dataclass(frozen=True)
class GateConfig:
    """When the node counts as empty, and what to do while it does not."""

    action: Literal["wait", "warn", "fail", "off"] = "wait"
    timeout_s: Positive = 600.0
    poll_s: Positive = 2.0
    gpu_memory_mib: Positive = 1024.0
    gpu_utilization_pct: Percent = 10.0
    gpu_drained_mib: Positive = 300.0
    gpu_temperature_c: Positive = 75.0
    cpu_busy_pct: Percent = 50.0
    memory_available_mib: NotNegative = 1024.0


@dataclass(frozen=True)
class MonitorConfig:
    """What is sampled while a run is on."""

    source: Source = "auto"
    interval_s: Positive = 0.2


@dataclass(frozen=True)
class StatsConfig:
    """How sure a verdict has to be."""

    confidence: Annotated[float, Meta(ge=0.5, le=0.9999)] = 0.95
    margin_pct: Positive = 1.0
    block: Count = 10


@dataclass(frozen=True)
class AdaptiveConfig:
    """Whether rounds are added until the interval is narrow enough. Only the spread is looked at, never the sign."""

    enabled: bool = False
    max_rounds: Count = 8
    target_pct: Positive = 1.0


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
    fail_if: Literal["slower", "not_faster"] | None = None
    commit: str | None = None
    commits: str | None = None
    arms: list[ArmConfig] = field(default_factory=list)
    cumulative: bool = False
    only: list[str] = field(default_factory=list)
    env: Environment = field(default_factory=dict)
    launchers: LaunchersConfig = field(default_factory=LaunchersConfig)
    source: SourceConfig = field(default_factory=SourceConfig)
    numa: NumaConfig = field(default_factory=NumaConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    gate: GateConfig = field(default_factory=GateConfig)
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
    stats: StatsConfig = field(default_factory=StatsConfig)
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    repeat_broken_rounds: Annotated[int, Meta(ge=0)] = 1
