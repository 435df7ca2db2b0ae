"""What reading a big trace costs, beside parsing it with json: CPU time and peak memory, each in a process of its own.

python benchmarks/traces.py [MB]        a made trace of this size (default 100) in the layout of torch's exporter
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READ = "from interlace.trace.columns import read_trace; trace = read_trace(P)"
OURS = f"{READ}; from interlace.trace.metrics import measure; measure(trace)"
JSON = "import json; json.loads(P.read_bytes())"
PER_STEP = 10_000
"""Kernels a step, with six operators each: what an eager step of a mid-sized model has."""

EVENT = """
  {{
    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {number},"Record function id": 0, "Ev Idx": {number}, "correlation": {number}
    }}
  }},"""


def write(path: Path, megabytes: int) -> None:
    """Write steps until the file is as large as asked for."""
    host, gpu = {"pid": 9, "tid": 9}, {"pid": 0, "tid": 7}
    with path.open("w") as file:

        def add(cat: str, name: str, ts: float, dur: float, where: dict[str, int], number: int) -> None:
            file.write(EVENT.format(cat=cat, name=name, ts=ts, dur=dur, number=number, **where))

        file.write('{\n  "schemaVersion": 1,\n  "traceEvents": [')
        step, now = 0, 0.0
        while file.tell() < megabytes << 20:
            begin = now
            for number in range(step * PER_STEP, (step + 1) * PER_STEP):
                for k in range(6):
                    name = "aten::add" if k else "autograd::engine::evaluate_function: AddmmBackward0"
                    add("cpu_op", name, now + k, 8 - k, host, number)
                add("cuda_runtime", "cudaLaunchKernel", now + 6, 2, host, number)
                add("kernel", "void gemm<float, 128>(float*)", now + 12, 7, gpu, number)
                now += 15
            add("user_annotation", f"ProfilerStep#{step}", begin, now - begin, host, 0)
            step += 1
        file.write('\n  {\n    "name": "end", "ph": "M", "pid": 0\n  }\n  ],\n  "traceName": "x"\n}\n')


def cost(code: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of a process that runs `code` on the trace P."""
    script = f"from pathlib import Path; P = Path({str(path)!r}); {code}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(told.stdout) / 1024


def main() -> None:
    """Measure in turn, twice, and print ratios to json."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank-0.json"
        write(path, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
        began = time.perf_counter()
        rounds = [[cost(code, path) for code in (JSON, READ, OURS)] for _ in range(2)]
        best = [(min(one[k][0] for one in rounds), min(one[k][1] for one in rounds)) for k in range(3)]
        size = path.stat().st_size / 2**20
        print(f"{size:.0f} MiB, best of two in turn, {time.perf_counter() - began:.0f} s in all")
        for name, (cpu_s, mib) in zip(("json.loads", "read_trace", "and measure"), best, strict=True):
            cpu, memory = cpu_s / best[0][0], mib / best[0][1]
            print(f"{name:12} CPU {cpu:5.2f} of json ({cpu_s:.1f} s)   memory {memory:5.2f} ({mib:.0f} MiB)")


if __name__ == "__main__":
    main()
