"""From run statistics to verdicts: which runs may be compared, how they differ, and in which words."""

from interlace.compare.compare import Comparisons, compare
from interlace.compare.comparison import Comparison, rejected
from interlace.compare.summary import ArmSummary, summarise_arm

__all__ = ["ArmSummary", "Comparison", "Comparisons", "compare", "rejected", "summarise_arm"]
