"""Draw a small PNG chart of the signal around an onset; spikes and non-finite points stay visible. Pure."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from tocsin_server.core.models import F64
from tocsin_server.store.results import SeriesLayer

WIDTH, HEIGHT, EDGE, RAIL = 640, 240, 28, 16
INK, LINE, ALARM, GRID = (60, 66, 77), (36, 99, 176), (198, 40, 40), (222, 226, 232)
COLORS = (LINE, (176, 90, 0), (0, 121, 107), (142, 36, 170), (93, 64, 55), (84, 110, 122))
"""Of the lines of one chart."""
GAP = 12


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


def draw(title: str, curve: Curve, onset: float | None, beside: Sequence[tuple[str, Curve]] = ()) -> bytes:
    """Draw the chart as PNG.

    Each column of pixels spans its lowest to its highest value. Non-finite points are crosses in a row at the
    top, and the onset is a line.

    Args:
        title: Above the chart, in the color of ``curve`` if there are others.
        curve: Its first line.
        onset: The step at which an alert began.
        beside: Further lines by name, on the same axes, each in a color of its own.
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    _head(pen, [title, *(name for name, _curve in beside)])
    curves = [curve, *(each for _name, each in beside)]
    steps = np.concatenate([each.step for each in curves])
    finite = [np.isfinite(each.low) & np.isfinite(each.high) for each in curves]
    lows = np.concatenate([each.low[good] for each, good in zip(curves, finite, strict=True)])
    highs = np.concatenate([each.high[good] for each, good in zip(curves, finite, strict=True)])
    bounds = (float(lows.min()), float(highs.max())) if lows.size else (0.0, 1.0)
    top, bottom = EDGE + RAIL, HEIGHT - EDGE
    pen.rectangle((EDGE, EDGE, WIDTH - EDGE, bottom), outline=GRID)
    if onset is not None and steps.size:
        at = _place(onset, float(steps.min()), float(steps.max()), EDGE, WIDTH - EDGE)
        pen.line((at, EDGE, at, bottom), fill=ALARM)
    for i, (each, good) in enumerate(zip(curves, finite, strict=True)):
        x = _scale(each.step, steps)
        _trace(pen, x[good], each.low[good], each.high[good], bounds, (bottom, top), COLORS[i % len(COLORS)])
        for at in x[np.array(each.broken, dtype=bool)]:
            pen.line((at - 4, EDGE + 4, at + 4, EDGE + 12), fill=ALARM, width=2)
            pen.line((at - 4, EDGE + 12, at + 4, EDGE + 4), fill=ALARM, width=2)
    pen.text((EDGE, bottom + 6), f"{bounds[0]:.4g} to {bounds[1]:.4g}", fill=INK)
    if steps.size:
        text = f"step {int(steps.min())} to {int(steps.max())}"
        pen.text((WIDTH - EDGE - 7 * len(text), bottom + 6), text, fill=INK)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _head(pen: ImageDraw.ImageDraw, names: Sequence[str]) -> None:
    """Write the title, and behind it the name of each further line, in the colors of the lines."""
    at = float(EDGE)
    for i, name in enumerate(names):
        text = name[:90].encode("latin-1", "replace").decode("latin-1")
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
