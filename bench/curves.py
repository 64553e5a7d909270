"""Line charts as SVG, for documents. Requires only the standard library."""

from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 340, 220, 46, 26, 30
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2")


def panel(x0, title, curves):
    """Returns the lines of one chart; curves: {(name, dashed): [value after epoch 1, 2, …]}. A name has one colour."""
    low = min(min(values) for values in curves.values())
    high = max(max(values) for values in curves.values())
    high, longest = max(high, low + 1e-9), max(len(values) for values in curves.values())
    names = list(dict.fromkeys(name for name, _ in curves))

    def at(epoch, value):
        x = x0 + LEFT + (WIDTH - LEFT - 12) * (epoch - 1) / max(longest - 1, 1)
        return f"{x:.1f},{TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low):.1f}"

    lines = [f'<text x="{x0 + LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
             f'<path d="M{x0 + LEFT - 4},{TOP} V{HEIGHT - BOTTOM + 4} H{x0 + WIDTH - 8}" fill="none" stroke="#888"/>']
    for value in (low, high):
        y = at(1, value).split(",")[1]
        lines.append(f'<text x="{x0 + LEFT - 8}" y="{y}" text-anchor="end">{value:.3g}</text>')
    for epoch in range(longest, 0, -max(1, longest // 5)):
        x = at(epoch, low).split(",")[0]
        lines.append(f'<text x="{x}" y="{HEIGHT - 10}" text-anchor="middle">{epoch}</text>')
    for (name, dashed), values in curves.items():
        points = " ".join(at(epoch, value) for epoch, value in enumerate(values, 1))
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        lines.append(f'<polyline points="{points}" fill="none" stroke-width="1.6"{dashes} '
                     f'stroke="{COLOURS[names.index(name) % len(COLOURS)]}"/>')
    return lines


def chart(panels, solid, dashed):
    """Returns an SVG with the panels {title: curves} next to each other, over epochs, and a legend."""
    names = list(dict.fromkeys(name for curves in panels.values() for name, _ in curves))
    height = HEIGHT + 16 * (len(names) + 1)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {height}" '
             f'width="{WIDTH * len(panels)}" font-family="sans-serif" font-size="11">',
             '<rect width="100%" height="100%" fill="white"/>']
    for index, (title, curves) in enumerate(panels.items()):
        lines += panel(index * WIDTH, title, curves)
    for index, name in enumerate(names):
        lines.append(f'<text x="{LEFT}" y="{HEIGHT + 8 + 16 * index}" fill="{COLOURS[index % len(COLOURS)]}">'
                     f'{escape(name)}</text>')
    lines.append(f'<text x="{LEFT}" y="{height - 8}">solid: {escape(solid)}, dashed: {escape(dashed)}</text>')
    return "\n".join([*lines, "</svg>", ""])
