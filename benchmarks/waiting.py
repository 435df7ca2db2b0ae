"""What the orchestrator and its monitor use while a run is on: CPU of one core, in percent.

    python benchmarks/waiting.py [SECONDS]

A run that only sleeps is watched for SECONDS (default 30), with the monitor at 5 Hz and without it, in turn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

START_S = 6.0


def share_pct(folder: Path, seconds: float, source: str) -> float:
    """Start a sweep whose run sleeps, let it settle, and read the orchestrator's CPU over `seconds`."""
    argv = [sys.executable, "-m", "interlace", "sweep", "workload=command", "launchers=plain", "gate=off"]
    argv += [f"workload.command=sleep {seconds + 2 * START_S}", "+env.A=1,2", f"monitor.source={source}"]
    sweep = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process = psutil.Process(sweep.pid)
        time.sleep(START_S)
        before = process.cpu_times()
        time.sleep(seconds)
        after = process.cpu_times()
    finally:
        sweep.terminate()
        sweep.wait()
    return 100.0 * (after.user + after.system - before.user - before.system) / seconds


def main() -> None:
    """Measure both ways and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    with tempfile.TemporaryDirectory() as name:
        for source in ("auto", "off", "auto"):
            used_pct = share_pct(Path(name), seconds, source)
            print(f"monitor.source={source:5} orchestrator uses {used_pct:.2f} % of one core")


if __name__ == "__main__":
    main()
