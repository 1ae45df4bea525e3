"""Draw embedded charts as SVG within HTML, so that they follow the reader's theme, size and fonts. Pure.

The drawing is stretched to its frame. Lines keep their width, and the texts are HTML around it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Sequence

import numpy as np

from tocsin_server.core.models import F64
from tocsin_server.notify.chart_image import Curve

SIZE = 1000
"""Of the drawing, in units that are stretched to the width and height of its frame."""
RAIL = 90
"""Height of the row of dots above the values."""
MARGIN = 15
SHADES = 8
"""Opacities of the points of a scatter chart."""
COLORS = (
    ("#2258b7", "#3aadfb"), ("#af8845", "#cea157"), ("#08887e", "#5be7af"), ("#7a57f6", "#7777f9"),
    ("#e254b6", "#d55fb6"), ("#72711b", "#d1ce2b"), ("#3e96e1", "#c4ecfb"), ("#3c152c", "#9b4d7f"),
    ("#4f5963", "#a6b1bc"), ("#1e2175", "#3e5ad9"),
)  # fmt: skip
"""Of lines in the light and the dark theme, as in ``web/styles/tokens.css``."""
DASHES = ("", "6 3", "2 2")
"""Of the first lines, and of those for which the colors repeat."""
STYLE = "".join(
    (
        "figure{display:grid;grid-template-rows:auto 1fr auto;gap:6px;height:100vh;min-height:140px;",
        "margin:0;padding:8px 12px;box-sizing:border-box}",
        "figure p,figcaption{display:flex;flex-wrap:wrap;justify-content:space-between;",
        "gap:2px 16px;margin:0}",
        "figcaption{justify-content:start}figcaption span{overflow-wrap:anywhere}",
        "figure p{font-size:13px;font-variant-numeric:tabular-nums;color:light-dark(#41504a,#aebbb7)}",
        "svg{width:100%;height:100%;min-height:0;border:1px solid light-dark(#dde1db,#223036);",
        "box-sizing:border-box}svg.key{width:20px;height:8px;border:0;margin-right:6px}",
        "path{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round;",
        "vector-effect:non-scaling-stroke}.points{stroke-width:5}.bars{fill:currentColor;stroke:none}",
        ".bad{color:light-dark(#b3121f,#ff8078);stroke:currentColor;stroke-width:7}",
        *(
            f".c{i}{{color:light-dark({light},{dark});stroke:currentColor}}"
            for i, (light, dark) in enumerate(COLORS)
        ),
    )
)


def draw_lines(title: str, lines: Sequence[tuple[str, Curve]], label: str, *, log: bool = False) -> str:
    """Return curves on the same axes.

    A line spans the lowest to the highest value of each bucket and has a gap where there is none; non-finite
    values are dots in a row at the top.

    Args:
        title: Above the chart.
        lines: The name, shown if there are several, and the values of each line.
        label: The chart in words, for screen readers.
        log: Draw on a logarithmic axis, without the values that are not positive.
    """
    scaled = [tuple(_log10(v) if log else v for v in (each.low, each.high)) for _name, each in lines]
    bounds = _bounds(np.concatenate([values for pair in scaled for values in pair]))
    steps = np.concatenate([each.step for _name, each in lines])
    span = _bounds(steps)
    paths, dots = [], []
    for i, ((_name, curve), (low, high)) in enumerate(zip(lines, scaled, strict=True)):
        across = _place(curve.step, span, MARGIN, SIZE - MARGIN)
        heights = (_place(each, bounds, SIZE - MARGIN, RAIL + MARGIN) for each in (low, high))
        paths.append(_path(_pen(i), _line(across, *heights)))
        broken = across[np.array(curve.broken, dtype=bool)].tolist()
        dots += [f"M{at:.1f} {RAIL / 2}h0" for at in broken]
    paths += [_path('class="bad"', "".join(dots))] if dots else []
    several = len(lines) > 1
    names = "".join(f"<span>{_key(i)}{html.escape(name)}</span>" for i, (name, _) in enumerate(lines))
    left = _words(bounds, log) + (f" · {_count(len(dots))} with NaN or Inf (dots)" if dots else "")
    right = f"step {steps.min():,.0f} to {steps.max():,.0f}"
    return _figure(title, names if several else "", paths, (left, right), label)


def draw_points(title: str, x: F64, y: F64, names: tuple[str, str], log: Collection[str], label: str) -> str:
    """Return two metrics against each other, a point for each pair, later ones darker.

    Args:
        title: Above the chart.
        x: Values [n] of the first metric.
        y: Values [n] of the second.
        names: Of the metrics.
        log: ``x`` and ``y`` have a logarithmic axis; values that are not positive are left out.
        label: The chart in words, for screen readers.
    """
    axes = [_log10(values) if axis in log else values for axis, values in (("x", x), ("y", y))]
    good = np.isfinite(axes[0]) & np.isfinite(axes[1])
    bounds = [_bounds(each[good]) for each in axes]
    across = _place(axes[0][good], bounds[0], MARGIN, SIZE - MARGIN)
    up = _place(axes[1][good], bounds[1], SIZE - MARGIN, MARGIN)
    paths = []
    for i, places in enumerate(np.array_split(np.arange(across.size), SHADES)):
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across[places], up[places], strict=True))
        paths.append(_path(f'class="c0 points" opacity="{(i + 2) / (SHADES + 1):.2f}"', dots))
    (wide, high) = (_words(each, axis in log) for axis, each in zip("xy", bounds, strict=True))
    return _figure(title, "", paths, (f"{names[1]}: {high}", f"{names[0]}: {wide}"), label)


def draw_bars(
    title: str, counts: Sequence[int], low: float, high: float, label: str, *, log: bool = False
) -> str:
    """Return the counts of equally wide bins from ``low`` to ``high``; ``log``: logarithmic counts."""
    heights = np.array([math.log10(count + 1) if log else count for count in counts], dtype=np.float64)
    tops = _place(heights, (0.0, float(max(heights.max(initial=0), 1e-9))), SIZE, MARGIN)
    edges = np.linspace(MARGIN, SIZE - MARGIN, len(counts) + 1)
    bars = "".join(
        f"M{edges[i]:.1f} {SIZE}V{top:.1f}H{edges[i + 1] - 1:.1f}V{SIZE}Z"
        for i, top in enumerate(tops.tolist())
        if counts[i]
    )
    most = f"at most {max(counts, default=0):,} values in a bin{', log axis' if log else ''}"
    return _figure(title, "", [_path('class="c0 bars"', bars)], (_words((low, high), False), most), label)


def _figure(title: str, names: str, paths: Sequence[str], foot: tuple[str, str], label: str) -> str:
    """Return a drawing with its title and the names of its lines above, and its range below."""
    below = "".join(f"<span>{html.escape(text)}</span>" for text in foot)
    return (
        f"<figure><figcaption><b>{html.escape(title)}</b>{names}</figcaption>"
        f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(paths)}</svg><p>{below}</p></figure>'
    )


def _key(line: int) -> str:
    """Return a short piece of a line, for its name."""
    return f'<svg class="key" viewBox="0 0 20 8" aria-hidden="true">{_path(_pen(line), "M1 4H19")}</svg>'


def _pen(line: int) -> str:
    dash = DASHES[line // len(COLORS) % len(DASHES)]
    return f'class="c{line % len(COLORS)}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _path(attributes: str, drawn: str) -> str:
    return f'<path {attributes} d="{drawn}"/>'


def _line(across: F64, low: F64, high: F64) -> str:
    """Return a path through the buckets; a bucket alone between gaps is a dot."""
    path, pen = list[str](), "M"
    for x, bottom, top in zip(across.tolist(), low.tolist(), high.tolist(), strict=True):
        if math.isfinite(bottom) and math.isfinite(top):
            path.append(f"{pen}{x:.1f} {bottom:.1f}" + ("h0" if top == bottom else f"V{top:.1f}"))
            pen = "L"
        else:
            pen = "M"
    return "".join(path)


def _count(points: int) -> str:
    return "1 point" if points == 1 else f"{points:,} points"


def _words(bounds: tuple[float, float], log: bool) -> str:
    low, high = (10.0**each for each in bounds) if log else bounds
    return f"{_number(low)} to {_number(high)}{', log axis' if log else ''}"


def _number(value: float) -> str:
    """Return at most four figures, in full up to a trillion."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if 1e3 <= abs(rounded) < 1e12 else f"{rounded:g}"


def _log10(values: F64) -> F64:
    """Return the logarithms, NaN for values that are not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def _bounds(values: F64) -> tuple[float, float]:
    """Return the lowest and highest finite value, or 0 and 1."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _place(values: F64, bounds: tuple[float, float], start: float, stop: float) -> F64:
    """Return where ``values`` are between ``start`` and ``stop``; halves, so that no range overflows."""
    low, high = (each / 2 for each in bounds)
    if high <= low:
        return np.where(np.isfinite(values), (start + stop) / 2, np.nan)
    return start + (values / 2 - low) / (high - low) * (stop - start)
