"""What the GPUs and the CPUs of the node did during a run; its modules are imported by name."""

from interlace.monitor.readings import GpuSource

__all__ = ["GpuSource"]
