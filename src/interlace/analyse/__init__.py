"""What the runs of a sweep say: a summary per arm, a comparison per candidate. Pure but for reading step series."""

from interlace.analyse.analysis import Analysis, analyse
from interlace.analyse.notes import Trouble

__all__ = ["Analysis", "Trouble", "analyse"]
