"""The chart shows every spike and every non-finite point."""

from __future__ import annotations

import io
import math
import struct

import numpy as np
import pytest
from PIL import Image

from tocsin_server.notify.chart_image import ALARM, EDGE, HEIGHT, LINE, RAIL, WIDTH, Curve, draw


def drawn(values: list[float], onset: float | None = None) -> Image.Image:
    array = np.array(values)
    step = np.arange(len(values), dtype=np.float64)
    return Image.open(
        io.BytesIO(draw("loss", Curve(step, array, array, (~np.isfinite(array)).tolist()), onset))
    ).convert("RGB")


def columns(image: Image.Image, colour: tuple[int, int, int], rows: range) -> list[int]:
    return sorted({x for y in rows for x in range(WIDTH) if image.getpixel((x, y)) == colour})


def test_a_single_spike_reaches_the_top() -> None:
    """One value in 600: its column reaches the top edge."""
    image = drawn([1.0] * 300 + [100.0] + [1.0] * 299)
    top = columns(image, LINE, range(EDGE + RAIL, EDGE + RAIL + 4))
    middle = EDGE + 300 / 599 * (WIDTH - 2 * EDGE)
    assert top
    assert all(abs(x - middle) < 4 for x in top)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_single_non_finite_point_is_a_cross(value: float) -> None:
    """At the top of its step's column; the other values keep their scale."""
    image = drawn([1.0, 2.0] * 150 + [value] + [1.0, 2.0] * 150)
    marks = columns(image, ALARM, range(EDGE + 2, EDGE + RAIL))
    assert marks
    assert all(abs(x - WIDTH / 2) < 8 for x in marks)


@pytest.mark.parametrize("values", [[], [math.nan], [5.0], [-1.7e308, 1.7e308], [0.0] * 3])
def test_any_values_make_a_picture(values: list[float]) -> None:
    """No values, only NaN, one point, the widest range, a flat line."""
    image = drawn(values, 0.0)
    assert image.size == (WIDTH, HEIGHT)


def test_it_is_small() -> None:
    """A PNG of a few kilobytes, for phones."""
    values = np.random.default_rng(1).normal(size=600)
    body = draw("x" * 500 + "名", Curve(np.arange(600.0), values, values, [False] * 600), 300)
    assert body[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", body[16:24]) == (WIDTH, HEIGHT)
    assert len(body) < 50_000
