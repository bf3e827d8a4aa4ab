"""Plots as SVG, written by hand: a file that needs nothing to be looked at. Curves over x, bars for the rest."""
import html
import math

WIDTH, LEFT, RIGHT, TOP = 760, 70, 20, 44
CURVES_HEIGHT, BAR, GAP = 320, 14, 12
COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#8d6a9f", "#edae49", "#5f5f5f")


def picture(height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{html.escape(str(words))}</text>'


def line(x1, y1, x2, y2, colour="#ddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def legend(peers):
    parts, x = [], LEFT
    for peer, colour in zip(peers, COLOURS):
        parts += [f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>', text(x + 14, 35, peer)]
        x += 30 + 8 * len(peer)
    return parts


def nice_step(most, steps=5):
    """The smallest of 1, 2, 5 times a power of ten that covers `most` in so many steps."""
    rough = most / steps
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def curves(title, x_name, unit, lines):
    """lines: {peer: [(x, y)…]}; x on a logarithmic scale, marked at each x that was measured."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    top = max((y for points in lines.values() for _, y in points), default=0) or 1
    step = nice_step(top)
    ceiling = step * math.ceil(top / step - 1e-9)
    bottom, right = CURVES_HEIGHT - 46, WIDTH - RIGHT

    def at_x(x):
        if len(xs) < 2:
            return (LEFT + right) / 2
        return LEFT + (right - LEFT) * math.log(x / xs[0]) / math.log(xs[-1] / xs[0])

    def at_y(y):
        return bottom - (bottom - TOP) * y / ceiling
    parts = [text(LEFT, 16, f"{title}, {unit}", extra='font-weight="bold"'), *legend(lines)]
    for i in range(round(ceiling / step) + 1):
        parts += [line(LEFT, at_y(i * step), right, at_y(i * step)), text(LEFT - 6, at_y(i * step) + 4, f"{i * step:g}", "end")]
    parts += [text(at_x(x), bottom + 18, f"{x:g}", "middle") for x in xs]
    parts.append(text((LEFT + right) / 2, bottom + 36, x_name, "middle"))
    for (_, points), colour in zip(lines.items(), COLOURS):
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return picture(CURVES_HEIGHT, parts)


def bars(title, peers, cases):
    """cases: [(name, unit, {peer: value})]; each case has a scale of its own, its longest bar fills the width."""
    parts, y = [text(LEFT, 16, title, extra='font-weight="bold"'), *legend(peers)], TOP + GAP
    for name, unit, values in cases:
        parts.append(text(LEFT, y + 10, f"{name}{', ' + unit if unit else ''}"))
        y += BAR + 4
        most = max(values.values()) or 1
        for peer, colour in zip(peers, COLOURS):
            if peer in values:
                width = max(1.0, (WIDTH - LEFT - RIGHT - 80) * max(0.0, values[peer]) / most)
                parts += [f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>',
                          text(LEFT + width + 6, y + 10, f"{values[peer]:.4g}")]
                y += BAR
        y += GAP
    return picture(y, parts)
