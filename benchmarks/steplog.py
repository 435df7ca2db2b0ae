"""How fast logs are read: records of single formats, and other output that has to be searched for the first one.

    python benchmarks/steplog.py [RECORDS]        (default: 20000)

Prints the size, the time, the time a record and the peak of memory for each, each in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from interlace.errors import ReadError
from interlace.steplog import read

LINES = {
    "keyvalue": "2026-01-02 03:04:05 step={n} step_s=0.4{n:02d} loss=1.234 lr=1e-4\n",
    "jsonl": '{{"step": {n}, "step_s": 0.4{n:02d}, "loss": 1.234, "lr": 0.0001}}\n',
    "nanogpt": "iter {n}: loss 3.2100, time 412.{n:02d}ms, mfu 31.20%\n",
    "megatron": " [2026-01-02 03:04:05] iteration {n:8d}/ 9999999 | consumed samples: {n:12d} |"
    " elapsed time per iteration (ms): 412.5 | learning rate: 1.5E-04 | global batch size:    64 |"
    " lm loss: 9.1E+00 | grad norm: 1.234 |\n",
    "tqdm": "\rtrain:  12%|#2        | {n}/9999999 [10:00<1:40:00,  2.44it/s, loss=1.2]",
    "nothing": "WARNING some.module:123 this line says step and batch and time, {n} times, and is no record\n",
}


def one(name: str, records: int) -> None:
    """Write a log, read it, and print what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        with path.open("w") as log:
            log.writelines(LINES[name].format(n=n) for n in range(1, records + 1))
        begun = time.perf_counter()
        try:
            found = len(read(path).frame)
        except ReadError:
            found = 0
        took_s = time.perf_counter() - begun
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        mib = path.stat().st_size / 2**20
    print(
        f"{name:10} {found:8d} steps {mib:7.1f} MiB {took_s:7.2f} s {took_s / records * 1e6:7.1f} us a record", end=""
    )
    print(f" {mib / took_s:6.1f} MiB/s, peak {peak_mib:.0f} MiB")


def main(arguments: list[str]) -> None:
    """Measure every kind, each in a process of its own."""
    if len(arguments) == 2:
        one(arguments[0], int(arguments[1]))
        return
    for name in LINES:
        subprocess.run([sys.executable, __file__, name, arguments[0] if arguments else "20000"], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
