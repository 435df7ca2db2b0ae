"""From run statistics to verdicts: which runs may be compared, how they differ, and in which words."""

from interlace.compare.compare import Comparisons, compare
from interlace.compare.comparison import Comparison

__all__ = ["Comparison", "Comparisons", "compare"]
