"""One rank of the ACT job, and the example of a trainer that is instrumented for Interlace.

What Interlace needs of it is one line, `recorder.step()` at the end of each step. What it shows besides: phases,
a profiler hook, the values of each step for a look at correctness, and the allocator's peak.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from interlace.recorder import StepRecorder
from interlace.workloads.act.data import Feed, batches
from interlace.workloads.act.policy import Policy, build_optimizer, compile_model
from interlace.workloads.act.readback import AtOnce, OneStepLate
from interlace.workloads.act.settings import Settings, read_settings, refuse_what_cannot_work
from interlace.workloads.act.step import CapturedStep, EagerStep
from interlace.workloads.profiling import profiled

if TYPE_CHECKING:
    from interlace.workloads.act.readback import Readback
    from interlace.workloads.act.step import Values


def train(settings: Settings, recorder: StepRecorder, run_dir: Path) -> list[tuple[int, Values]]:
    """Train for `settings.steps` steps; return the values of each, in order."""
    cpu = settings.device == "cpu" or (settings.device == "auto" and not torch.cuda.is_available())
    refuse_what_cannot_work(settings, "cpu" if cpu else "cuda")
    accelerator = Accelerator(cpu=cpu, kwargs_handlers=[_ddp_arguments(settings)])
    with _own_stream(settings):
        step = _build(settings, accelerator, recorder)
        return _loop(settings, accelerator, step, recorder, run_dir)


def _build(settings: Settings, accelerator: Accelerator, recorder: StepRecorder) -> EagerStep | CapturedStep:
    torch.manual_seed(settings.seed)
    torch.backends.cuda.matmul.allow_tf32 = settings.tf32
    torch.backends.cudnn.benchmark = True
    policy = Policy(settings)
    if settings.model.memory_format == "channels_last":
        policy = policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    captured = settings.capture == "step"
    optimizer = build_optimizer(policy, settings.optimizer, capturable=captured)
    compile_model(policy, settings.compile)
    prepared, optimizer = accelerator.prepare(policy, optimizer)
    if settings.model.branches == "two":
        _allow_two_streams()
    if settings.ddp.average == "bucket" and isinstance(prepared, DistributedDataParallel):
        prepared.register_comm_hook(None, allreduce_hook)  # divides a whole bucket instead of each gradient
    step = EagerStep(accelerator, prepared, optimizer, clip_norm=settings.optimizer.clip_norm, recorder=recorder)
    torch.manual_seed(settings.seed + 1 + accelerator.process_index)  # dropout masks and latents differ by rank
    return CapturedStep(step) if captured else step


def _loop(
    settings: Settings, accelerator: Accelerator, step: EagerStep | CapturedStep, recorder: StepRecorder, run_dir: Path
) -> list[tuple[int, Values]]:
    rank, device = accelerator.process_index, accelerator.device
    source = batches(settings, rank, accelerator.num_processes, device)
    feed = Feed(source, device, ahead=settings.data.transfer == "ahead")
    readback: Readback = OneStepLate() if settings.losses == "late" and device.type == "cuda" else AtOnce()
    known: list[tuple[int, Values]] = []
    profile = settings.profile
    first = profile.first if rank in profile.ranks else 0
    with profiled(run_dir / "traces", rank, first=first, steps=profile.steps) as profiler_step:
        recorder.start()
        for number in range(1, settings.steps + 1):
            with recorder.phase("data"):
                batch = feed.next()
            values = step(batch)
            with recorder.phase("data"):
                feed.ahead()
            with recorder.phase("read back"):
                known += readback(number, values)
            profiler_step()
            recorder.step(**_peak(device) if number == settings.steps else {})
    return known + readback.rest()


def _ddp_arguments(settings: Settings) -> DistributedDataParallelKwargs:
    ddp = settings.ddp
    return DistributedDataParallelKwargs(
        broadcast_buffers=ddp.broadcast_buffers,
        bucket_cap_mb=ddp.bucket_cap_mb,
        gradient_as_bucket_view=ddp.gradient_as_bucket_view,
        find_unused_parameters=ddp.find_unused_parameters,
        static_graph=ddp.static_graph,
    )


def _own_stream(settings: Settings) -> contextlib.AbstractContextManager[object]:
    """Put everything, DDP's construction included, on one stream that can be captured."""
    if settings.capture == "none":
        return contextlib.nullcontext()
    return torch.cuda.stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]


def _allow_two_streams() -> None:
    """Tell torch (2.10 and later) that gradients made on one stream and taken up on another are meant."""
    allow = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)
    if allow is not None:
        allow(enabled=False)


def _peak(device: torch.device) -> dict[str, float]:
    if device.type != "cuda":
        return {}
    return {"peak_allocated_mib": torch.cuda.max_memory_allocated(device) / 2**20}


def _write_values(path: Path, values: list[tuple[int, Values]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"step": step, **row._asdict()}) for step, row in values)
    path.write_text("".join(f"{line}\n" for line in lines))


def main() -> None:
    """Run one rank."""
    run_dir = Path(os.environ["INTERLACE_RUN_DIR"])
    settings = read_settings(Path(os.environ["INTERLACE_CONFIG"]))
    with StepRecorder() as recorder:
        values = train(settings, recorder, run_dir)
    _write_values(run_dir / "values" / f"rank-{os.environ.get('RANK', '0')}.jsonl", values)
    sys.stdout.write(f"last loss {values[-1][1].loss:.4f}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    # Interpreter teardown of gloo can hang or abort after the work is done (torch 2.11); nothing is left to do.
    os._exit(0)
