"""The plot of the comparison, one SVG without any library. Readable on light and on dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from benchmarks.verdicts.rules import RULES
from benchmarks.verdicts.summary import USUAL_ROUNDS, USUAL_SIGMA, Spread, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.verdicts.arms import OrderName
    from benchmarks.verdicts.rules import Rule
    from benchmarks.verdicts.score import Cell

WIDTH, ROW, TOP, BOTTOM = 980, 38, 96, 62
PANEL_X, PANEL_WIDTH = (260, 640), 310
NOMINAL = 0.05
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.small { font-size: 12px } .title { font-size: 14px; font-weight: 600 }
.grid { stroke: #8c959f; stroke-opacity: .35 } .nominal { stroke: #6e7781; stroke-dasharray: 4 3 }
.own { stroke: #bc4c00; fill: #bc4c00 } .mirrored { stroke: #0969da; fill: #0969da }
.range { stroke-width: 2; stroke-opacity: .55 } .real { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .nominal { stroke: #9ea7b3 }
  .own { stroke: #f0883e; fill: #f0883e } .mirrored { stroke: #58a6ff; fill: #58a6ff } .real { fill: none }
}
"""


@dataclass(frozen=True)
class Panel:
    """One panel: where it begins, its heading, its axis title, and the share it shows."""

    x: float
    heading: str
    axis: str
    value: Callable[[Cell], float]

    def at(self, share: float) -> float:
        """Place of a share on the axis, in pixels."""
        return self.x + PANEL_WIDTH * share


def plot(cells: Sequence[Cell]) -> str:
    """All rules, false calls and missed effects side by side, as SVG text."""
    panels = (
        Panel(PANEL_X[0], "False calls", "identical arms called different (% of sweeps)", _false_calls),
        Panel(PANEL_X[1], "Missed effects", "2 % faster, not called faster (% of sweeps)", _missed),
    )
    height = TOP + ROW * len(RULES) + BOTTOM
    bottom = TOP + ROW * len(RULES)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>False calls and missed effects of twelve rules</title>",
        f"<style>{STYLE}</style>",
        *_legend(),
    ]
    for panel in panels:
        parts += _frame(panel, bottom)
    for number, rule in enumerate(RULES):
        y = TOP + ROW * (number + 0.5)
        parts.append(_text(PANEL_X[0] - 14, y + 4.5, rule.name, anchor="end"))
        for panel in panels:
            parts += _marks(panel, y, cells, rule)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _false_calls(cell: Cell) -> float:
    return cell.false_calls


def _missed(cell: Cell) -> float:
    return cell.missed


def _marks(panel: Panel, y: float, cells: Sequence[Cell], rule: Rule) -> list[str]:
    orders: list[tuple[str, OrderName, float]] = [("own", rule.own_order, -7.0), ("mirrored", "mirrored", 7.0)]
    if rule.own_order == "mirrored":
        orders = [("mirrored", "mirrored", 0.0)]
    parts = []
    for kind, order, offset in orders:
        parts += _mark(panel, y + offset, spread(cells, rule, order, panel.value), kind)
    return parts


def _mark(panel: Panel, y: float, shares: Spread, kind: str) -> list[str]:
    """Draw a line from the least to the most, a dot at the mean, a diamond where the real runs are."""
    least, mean, most = (f"{panel.at(share):.1f}" for share in (shares.least, shares.mean, shares.most))
    parts = [
        f'<line class="range {kind}" x1="{least}" x2="{most}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<circle class="{kind}" cx="{mean}" cy="{y:.1f}" r="3.5"/>',
    ]
    if shares.real is not None:
        parts.append(_diamond(panel.at(shares.real), y, kind))
    return parts


def _diamond(x: float, y: float, kind: str) -> str:
    return f'<path class="{kind} real" d="M{x - 7:.1f} {y:.1f} l7 -7 l7 7 l-7 7 z"/>'


def _frame(panel: Panel, bottom: float) -> list[str]:
    parts = [_text(panel.x, TOP - 12, panel.heading, style="title")]
    for percent in (0, 25, 50, 75, 100):
        x = panel.at(percent / 100.0)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 18, str(percent), anchor="middle", style="small"))
    parts.append(_text(panel.x + PANEL_WIDTH / 2.0, bottom + 40, panel.axis, anchor="middle"))
    x = panel.at(NOMINAL)
    parts.append(f'<line class="nominal" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
    parts.append(_text(x + 4, bottom + 18, "5", style="small"))
    return parts


def _legend() -> list[str]:
    """Two lines above the panels."""
    circle = '<circle class="{kind}" cx="{x}" cy="{y}" r="3.5"/>'
    what = f"{USUAL_ROUNDS} rounds; spread between runs {100 * USUAL_SIGMA:g} %"
    return [
        _text(14, 24, what, style="title"),
        circle.format(kind="own", x=20, y=44),
        _text(30, 48.5, "order of the tool or its users"),
        circle.format(kind="mirrored", x=250, y=44),
        _text(260, 48.5, "mirrored order"),
        '<line class="range own" x1="392" x2="428" y1="44" y2="44"/>',
        circle.format(kind="own", x=408, y=44),
        _text(436, 48.5, "least, mean and most of nine simulated noises"),
        _diamond(790, 44, "own"),
        _text(804, 48.5, "real runs"),
    ]


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(words)}</text>'
