"""A sweep folder as frames: where reporting, and any notebook, begins."""

from interlace.loaded.sweep import LoadedSweep, load, refuse_other_session

__all__ = ["LoadedSweep", "load", "refuse_other_session"]
