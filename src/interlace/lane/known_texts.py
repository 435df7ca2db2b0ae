"""The only table of texts that name why a program failed. Pure."""

from __future__ import annotations

from interlace.lane.ends import LABEL

KNOWN = (
    ("cuda_oom", (
        r"(CUDA|HIP|XPU|MPS backend) out of memory|(CUDA|HIP) error: out of memory|Cuda failure .{0,9}out of memory"
        r"|torch\.(cuda\.)?OutOfMemoryError|CU\w+_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY"
        r"|RESOURCE_EXHAUSTED: Out of memory|Out of memory error on GPU"),
     "a GPU ran out of memory"),
    ("too_many_files", r"Too many open files|received 0 items of ancdata",
     "too many files are open (raise `ulimit -n`)"),
    ("shm_exhausted", (
        r"(out of|insufficient) shared memory|killed by signal: Bus error|unable to .{0,40}shared memory"
        r"|unable to [a-z0-9 ]{3,60} <.{0,99}No space|(creating .{0,40}|failed to extend )/dev/shm/"
        r"|posix_fallocate failed|No space left .{0,80}/dev/shm|/dev/shm.{0,80}No space left"),
     "shared memory ran out (/dev/shm is too small, or full of what killed runs left)"),
    ("host_oom", (
        rf"DefaultCPUAllocator: (can't|not enough)|^{LABEL}([\w.]+\.)?(_Array)?MemoryError\b|Cannot allocate memory"
        r"|std::bad_alloc|oom.kill event|task \d+: Out Of Memory"),
     "the host ran out of memory"),
    ("killed", r"killed by signal: Killed",
     "a loader worker was killed (SIGKILL: the host's out-of-memory killer, or somebody)"),
    ("disk_full", r"No space left on device|Disk quota exceeded", "a disk is full"),
    ("port_in_use", (
        r"EADDRINUSE|[Aa]ddress (already )?in use|[Ee]rrno:? 98\b|[Pp]ort \d+ is already in use"
        r"|another process is utilizing it"),
     "a port of the rendezvous was taken"),
    ("nccl_timeout", (
        r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL"
        r"|ProcessGroupNCCL watchdog hang|gloo.{0,120}Timed out waiting \d+ms"),
     "a collective timed out: some rank did not take part"),
    ("nccl_error", r"nccl(Internal|System|UnhandledCuda|Remote)Error|ncclInvalid\w+|NCCL error in", "NCCL failed"),
    ("cuda_error", r"(CUDA|HIP) error: \w+|Cuda failure ", "CUDA failed"),
    ("segfault", r"Segmentation fault", "a rank crashed (segmentation fault)"),
    ("bad_arguments", (
        r"error: (unrecognized arguments|the following arguments are required|argument ).*"
        r"|^Could not (override|append to config) .*|^In '[^']{1,80}': Could not find .*"),
     "the command refused its arguments"),
    ("import_error", r"(ModuleNotFoundError|ImportError): .*", "an import failed"),
)  # fmt: skip
"""Code, pattern, sentence; the first that matches names the cause."""
