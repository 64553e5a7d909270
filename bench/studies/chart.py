"""Charts of studies as SVG, in a row of panels. Requires only the standard library."""

from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 280, 58, 14, 30, 46
# Okabe and Ito: distinguishable for readers who cannot tell some colours apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8b8b8b", "#7a5195", "#a6761d", "#1b7837")
STYLE = """text{font:11px sans-serif;fill:#222}.axis{stroke:#888;fill:none}.grid{stroke:#8883;fill:none}
.name{font-weight:bold}@media(prefers-color-scheme:dark){.page{fill:#15181c}text{fill:#ddd}}"""


@dataclass
class Axis:
    """One axis of a panel: its label, and whether it is logarithmic."""
    label: str
    log: bool = False
    low: float | None = None  # the least value that is shown

    def scale(self, values):
        """Returns a function from values to [0, 1], and the ticks."""
        low, high = min(values) if self.low is None else self.low, max(values)
        if self.log:
            first, last = floor(log10(low)), ceil(log10(high))
            last = max(last, first + 1)
            gap = ceil((last - first) / 7)
            return (lambda v: (log10(v) - first) / (last - first)), [10.0**e for e in range(first, last + 1, gap)]
        low = min(low, 0) if self.low is None else low
        high = high if high > low else low + 1
        step = 10 ** floor(log10((high - low) / 4))
        step *= next(f for f in (1, 2, 5, 10) if (high - low) / (f * step) <= 6)
        high = low + step * ceil((high - low) / step - 1e-9)
        return (lambda v: (v - low) / (high - low)), [low + i * step for i in range(floor((high - low) / step + 1e-9) + 1)]


@dataclass
class Panel:
    """A chart of named series of points. A series whose name begins with "theory" is dashed, in the colour before it."""
    title: str
    x: Axis
    y: Axis
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def short(value):
    """Returns a number as the label of a tick."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.10g}"


def drawn(panel, left, colour_of):
    """Returns the lines of one panel whose left edge is at `left`."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    points = [point for series in panel.series.values() for point in series]
    across, ticks_across = panel.x.scale([x for x, _ in points])
    up, ticks_up = panel.y.scale([y for _, y in points])

    def at(x, y):
        return left + LEFT + width * across(x), TOP + height * (1 - up(y))

    lines = [f'<text class="name" x="{left + LEFT}" y="16">{escape(panel.title)}</text>']
    for tick in ticks_up:
        y = TOP + height * (1 - up(tick))
        lines += [f'<path class="grid" d="M{left + LEFT},{y:.1f} h{width}"/>',
                  f'<text x="{left + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>']
    for tick in ticks_across:
        x = left + LEFT + width * across(tick)
        lines += [f'<path class="grid" d="M{x:.1f},{TOP} v{height}"/>',
                  f'<text x="{x:.1f}" y="{TOP + height + 15}" text-anchor="middle">{short(tick)}</text>']
    lines += [f'<path class="axis" d="M{left + LEFT},{TOP} v{height} h{width}"/>',
              f'<text x="{left + LEFT + width / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(panel.x.label)}</text>',
              f'<text transform="translate({left + 12},{TOP + height / 2}) rotate(-90)" text-anchor="middle">'
              f'{escape(panel.y.label)}</text>']
    for name, series in panel.series.items():
        visible = [at(x, y) for x, y in series if panel.y.low is None or y >= panel.y.low]
        dashes = ' stroke-dasharray="4 4"' if name.startswith("theory") else ""
        colour = colour_of[name]
        if len(visible) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in visible)
            lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        if not dashes and len(visible) <= 12:
            lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in visible]
    return lines


def write_chart(path, panels, columns=2):
    """Writes the panels in rows of `columns`, with one legend."""
    colour_of, used, latest = {}, 0, COLOURS[0]
    for name in dict.fromkeys(name for panel in panels for name in panel.series):
        if not name.startswith("theory"):
            latest, used = COLOURS[used % len(COLOURS)], used + 1
        colour_of[name] = latest
    columns = min(columns, len(panels))
    rows = ceil(len(panels) / columns)
    legend = [name for name in colour_of if not name.startswith("theory")]
    per_line = 2 * columns - 1
    width, height = WIDTH * columns + RIGHT, HEIGHT * rows + 18 * ceil(len(legend) / per_line) + 14
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
             f"<style>{STYLE}</style>", f'<rect class="page" width="{width}" height="{height}" fill="#fff"/>']
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        lines += [f'<g transform="translate(0,{HEIGHT * row})">', *drawn(panel, WIDTH * column, colour_of), "</g>"]
    for index, name in enumerate(legend):
        row, column = divmod(index, per_line)
        x, y = 20 + column * (width - 30) / per_line, HEIGHT * rows + 14 + 18 * row
        lines += [f'<path d="M{x:.0f},{y - 4} h18" stroke="{colour_of[name]}" stroke-width="2.5"/>',
                  f'<text x="{x + 24:.0f}" y="{y}">{escape(name)}</text>']
    path.write_text("\n".join([*lines, "</svg>", ""]))
