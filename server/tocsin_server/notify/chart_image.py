"""Draw a small PNG chart of the signal around an onset; spikes and non-finite points stay visible. Pure."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

from tocsin_server.core.models import F64
from tocsin_server.store.results import SeriesLayer

WIDTH, HEIGHT, EDGE, RAIL = 640, 240, 28, 16
INK, LINE, ALARM, GRID = (60, 66, 77), (36, 99, 176), (198, 40, 40), (222, 226, 232)
COLORS = (LINE, (176, 90, 0), (0, 121, 107), (142, 36, 170), (93, 64, 55), (84, 110, 122))
"""Of the lines of one chart."""
GAP = 12
DOT = 2
"""Pixels: the radius of a point."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points or buckets [n]: their steps, lowest and highest finite value, and whether any was non-finite."""

    step: F64
    low: F64
    high: F64
    broken: Sequence[bool]


def curve_of(layer: SeriesLayer) -> Curve:
    """Return a series of one training process as a curve."""
    low = layer.first if layer.min is None else layer.min
    high = layer.first if layer.max is None else layer.max
    broken = ~np.isfinite(layer.first) | ~np.isfinite(low) | ~np.isfinite(high)
    for counts in (layer.nan, layer.pinf, layer.ninf):
        broken = broken if counts is None else broken | (np.asarray(counts) > 0)
    return Curve(np.asarray(layer.x, dtype=np.float64), low, high, broken.tolist())


def draw(
    title: str,
    curve: Curve,
    onset: float | None,
    beside: Sequence[tuple[str, Curve]] = (),
    *,
    log: bool = False,
) -> bytes:
    """Draw the chart as PNG.

    Each column of pixels spans its lowest to its highest value. Non-finite points are crosses in a row at the
    top, and the onset is a line.

    Args:
        title: Above the chart, in the color of ``curve`` if there are others.
        curve: Its first line.
        onset: The step at which an alert began.
        beside: Further lines by name, on the same axes, each in a different color.
        log: Draw on a logarithmic axis, without the values that are not positive.
    """
    image, pen = _canvas([title, *(name for name, _curve in beside)])
    curves = [_logged(each) if log else each for each in (curve, *(each for _name, each in beside))]
    steps = np.concatenate([each.step for each in curves])
    finite = [np.isfinite(each.low) & np.isfinite(each.high) for each in curves]
    lows = np.concatenate([each.low[good] for each, good in zip(curves, finite, strict=True)])
    highs = np.concatenate([each.high[good] for each, good in zip(curves, finite, strict=True)])
    bounds = (float(lows.min()), float(highs.max())) if lows.size else (0.0, 1.0)
    top, bottom = EDGE + RAIL, HEIGHT - EDGE
    if onset is not None and steps.size:
        at = _place(onset, float(steps.min()), float(steps.max()), EDGE, WIDTH - EDGE)
        pen.line((at, EDGE, at, bottom), fill=ALARM)
    for i, (each, good) in enumerate(zip(curves, finite, strict=True)):
        x = _scale(each.step, steps)
        _trace(pen, x[good], each.low[good], each.high[good], bounds, (bottom, top), COLORS[i % len(COLORS)])
        for at in x[np.array(each.broken, dtype=bool)]:
            pen.line((at - 4, EDGE + 4, at + 4, EDGE + 12), fill=ALARM, width=2)
            pen.line((at - 4, EDGE + 12, at + 4, EDGE + 4), fill=ALARM, width=2)
    _foot(pen, _span(bounds, log), f"step {int(steps.min())} to {int(steps.max())}" if steps.size else "")
    return _png(image)


def draw_points(title: str, x: F64, y: F64, names: tuple[str, str], log: Collection[str]) -> bytes:
    """Draw two metrics against each other as PNG, a point for each pair, later ones darker.

    Args:
        title: Above the chart.
        x: Values [n] of the first metric.
        y: Values [n] of the second.
        names: Of the metrics.
        log: ``x`` and ``y`` have a logarithmic axis; values that are not positive are left out.
    """
    image, pen = _canvas([title])
    axes = [_log10(values) if axis in log else values for axis, values in (("x", x), ("y", y))]
    good = np.isfinite(axes[0]) & np.isfinite(axes[1])
    across, up = (values[good] for values in axes)
    bounds = [(float(each.min()), float(each.max())) if each.size else (0.0, 1.0) for each in (across, up)]
    for i, (a, b) in enumerate(zip(across.tolist(), up.tolist(), strict=True)):
        left = _place(a, *bounds[0], EDGE + DOT, WIDTH - EDGE - DOT)
        top = _place(b, *bounds[1], HEIGHT - EDGE - DOT, EDGE + DOT)
        faint = 0.75 * (1 - (i + 1) / across.size)
        color = tuple(round(part + (255 - part) * faint) for part in LINE)
        pen.ellipse((left - DOT, top - DOT, left + DOT, top + DOT), fill=color)
    spans = [_span(each, axis in log) for axis, each in zip("xy", bounds, strict=True)]
    _foot(pen, f"{names[1]}: {spans[1]}", f"{names[0]}: {spans[0]}")
    return _png(image)


def draw_bars(title: str, counts: Sequence[int], low: float, high: float, *, log: bool = False) -> bytes:
    """Draw the counts of equally wide bins from ``low`` to ``high`` as PNG; ``log``: logarithmic counts."""
    image, pen = _canvas([title])
    heights = [math.log10(count + 1) if log else count for count in counts]
    wide = (WIDTH - 2 * EDGE) / max(1, len(counts))
    for i, height in enumerate(heights):
        left = EDGE + i * wide
        top = _place(height, 0, max(*heights, 1e-9), HEIGHT - EDGE, EDGE + DOT)
        if height:
            pen.rectangle((left, top, max(left, left + wide - 1), HEIGHT - EDGE), fill=LINE)
    most = max(counts, default=0)
    _foot(pen, f"{low:.4g} to {high:.4g}", f"at most {most} values in a bin{', log axis' if log else ''}")
    return _png(image)


def _canvas(names: Sequence[str]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    _head(pen, names)
    pen.rectangle((EDGE, EDGE, WIDTH - EDGE, HEIGHT - EDGE), outline=GRID)
    return image, pen


def _foot(pen: ImageDraw.ImageDraw, left: str, right: str) -> None:
    """Write the values of the chart on the left, and those of the x axis on the right."""
    left, right = (_drawable(text) for text in (left, right))
    pen.text((EDGE, HEIGHT - EDGE + 6), left, fill=INK)
    pen.text((WIDTH - EDGE - pen.textlength(right), HEIGHT - EDGE + 6), right, fill=INK)


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _span(bounds: tuple[float, float], log: bool) -> str:
    low, high = (10.0**each for each in bounds) if log else bounds
    return f"{low:.4g} to {high:.4g}{', log axis' if log else ''}"


def _logged(curve: Curve) -> Curve:
    return replace(curve, low=_log10(curve.low), high=_log10(curve.high))


def _log10(values: F64) -> F64:
    """Return the logarithms, NaN for values that are not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def _drawable(text: str) -> str:
    """Return at most 90 characters; those that the font lacks are question marks."""
    return text[:90].encode("latin-1", "replace").decode("latin-1")


def _head(pen: ImageDraw.ImageDraw, names: Sequence[str]) -> None:
    """Write the title, and behind it the name of each further line, in the colors of the lines."""
    at = float(EDGE)
    for i, name in enumerate(names):
        text = _drawable(name)
        pen.text((at, 6), text, fill=COLORS[i % len(COLORS)] if len(names) > 1 else INK)
        at += pen.textlength(text) + GAP


def _trace(
    pen: ImageDraw.ImageDraw,
    x: F64,
    low: F64,
    high: F64,
    bounds: tuple[float, float],
    span: tuple[float, float],
    color: tuple[int, int, int],
) -> None:
    before: tuple[float, float] | None = None
    for at, least, most in zip(x.tolist(), low.tolist(), high.tolist(), strict=True):
        down, up = (_place(value, *bounds, *span) for value in (least, most))
        pen.line((at, down, at, up), fill=color, width=2)
        if before is not None:
            pen.line((*before, at, (down + up) / 2), fill=color, width=1)
        before = (at, (down + up) / 2)


def _scale(values: F64, over: F64) -> F64:
    """Return the pixels of steps on an axis over the steps ``over``."""
    if not values.size:
        return values
    low, high = float(over.min()), float(over.max())
    return np.array([_place(float(value), low, high, EDGE, WIDTH - EDGE) for value in values])


def _place(value: float, low: float, high: float, start: float, stop: float) -> float:
    """Return the pixel position of ``value``; halves are used so that the largest range does not overflow."""
    span = high / 2 - low / 2
    share = (value / 2 - low / 2) / span if span > 0 and math.isfinite(value) else 0.5
    return start + min(max(share, 0.0), 1.0) * (stop - start)
