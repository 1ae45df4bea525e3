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


def draw(title: str, curve: Curve, onset: float | None) -> bytes:
    """Draw the chart as PNG.

    Each column of pixels spans its lowest to its highest value. Non-finite points are crosses in a row at the
    top, and ``onset``, the step at which an alert began, is a line.
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    pen.text((EDGE, 6), _drawable(title), fill=INK)
    pen.rectangle((EDGE, EDGE, WIDTH - EDGE, HEIGHT - EDGE), outline=GRID)
    steps, finite = curve.step, np.isfinite(curve.low) & np.isfinite(curve.high)
    low, high = curve.low[finite], curve.high[finite]
    bounds = (float(low.min()), float(high.max())) if low.size else (0.0, 1.0)
    top, bottom = EDGE + RAIL, HEIGHT - EDGE
    if onset is not None and steps.size:
        at = _place(onset, float(steps.min()), float(steps.max()), EDGE, WIDTH - EDGE)
        pen.line((at, EDGE, at, bottom), fill=ALARM)
    x = _scale(steps)
    _trace(pen, x[finite], low, high, bounds, (bottom, top))
    for at in x[np.array(curve.broken, dtype=bool)]:
        pen.line((at - 4, EDGE + 4, at + 4, EDGE + 12), fill=ALARM, width=2)
        pen.line((at - 4, EDGE + 12, at + 4, EDGE + 4), fill=ALARM, width=2)
    _foot(pen, bounds, steps)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _foot(pen: ImageDraw.ImageDraw, bounds: tuple[float, float], steps: F64) -> None:
    """Write the range of the values on the left, and that of the steps on the right."""
    pen.text((EDGE, HEIGHT - EDGE + 6), f"{bounds[0]:.4g} to {bounds[1]:.4g}", fill=INK)
    if steps.size:
        right = f"step {int(steps.min())} to {int(steps.max())}"
        pen.text((WIDTH - EDGE - pen.textlength(right), HEIGHT - EDGE + 6), right, fill=INK)


def _drawable(text: str) -> str:
    """Return at most 90 characters; those that the font lacks are question marks."""
    return text[:90].encode("latin-1", "replace").decode("latin-1")


def _trace(
    pen: ImageDraw.ImageDraw,
    x: F64,
    low: F64,
    high: F64,
    bounds: tuple[float, float],
    span: tuple[float, float],
) -> None:
    before: tuple[float, float] | None = None
    for at, least, most in zip(x.tolist(), low.tolist(), high.tolist(), strict=True):
        down, up = (_place(value, *bounds, *span) for value in (least, most))
        pen.line((at, down, at, up), fill=LINE, width=2)
        if before is not None:
            pen.line((*before, at, (down + up) / 2), fill=LINE, width=1)
        before = (at, (down + up) / 2)


def _scale(steps: F64) -> F64:
    """Return the pixels of steps on an axis over all of them."""
    if not steps.size:
        return steps
    low, high = float(steps.min()), float(steps.max())
    return np.array([_place(float(step), low, high, EDGE, WIDTH - EDGE) for step in steps])


def _place(value: float, low: float, high: float, start: float, stop: float) -> float:
    """Return the pixel position of ``value``; halves are used so that the largest range does not overflow."""
    span = high / 2 - low / 2
    share = (value / 2 - low / 2) / span if span > 0 and math.isfinite(value) else 0.5
    return start + min(max(share, 0.0), 1.0) * (stop - start)
