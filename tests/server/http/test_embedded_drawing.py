"""The drawing of an embedded chart: lines with gaps, marks, common axes, and any text."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tocsin_server.http.embedded_drawing import COLORS, MARGIN, RAIL, SIZE, draw_bars, draw_lines, draw_points
from tocsin_server.notify.chart_image import Curve


def curve(values: list[float]) -> Curve:
    array = np.array(values)
    return Curve(np.arange(len(values), dtype=np.float64), array, array, (~np.isfinite(array)).tolist())


def path(drawing: str, name: str) -> str:
    """Return the last path of a class; the first ones may be those beside the names."""
    return str(re.findall(rf'<path class="{name}"[^>]* d="([^"]*)"', drawing)[-1])


def heights(drawn: str) -> list[float]:
    return [float(found) for found in re.findall(r"[ML][\d.]+ ([\d.]+)", drawn)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_non_finite_value_is_a_gap_and_a_dot(value: float) -> None:
    """The line starts again after it, and the text below counts it."""
    drawing = draw_lines("loss", [("", curve([1.0, 2.0, value, 2.0]))], "loss")
    assert path(drawing, "c0").count("M") == 2
    assert path(drawing, "bad").count("M") == 1
    assert "1 point with NaN or Inf" in drawing


def test_a_bucket_spans_its_lowest_to_its_highest_value() -> None:
    """So that a spike stays visible."""
    low, high = np.array([1.0, 1.0, 1.0]), np.array([1.0, 9.0, 1.0])
    drawing = draw_lines("loss", [("", Curve(np.arange(3.0), low, high, [False] * 3))], "loss")
    assert re.findall(r"V([\d.]+)", path(drawing, "c0")) == [f"{RAIL + MARGIN:.1f}"]


def test_lines_share_their_axes() -> None:
    """The higher one is above; each is named with its color."""
    drawing = draw_lines("run", [("a", curve([1.0] * 9)), ("b", curve([9.0] * 9))], "a, b")
    assert max(heights(path(drawing, "c1"))) < min(heights(path(drawing, "c0")))
    assert re.findall(r'class="c(\d)"[^>]*/></svg>(\w)</span>', drawing) == [("0", "a"), ("1", "b")]


def test_beyond_the_colors_lines_are_dashed() -> None:
    """So that no two of the sixteen look alike."""
    drawing = draw_lines("run", [(str(i), curve([1.0, i])) for i in range(len(COLORS) + 2)], "many")
    assert drawing.count("stroke-dasharray") == 2 * 2


def test_a_logarithmic_axis_leaves_out_what_is_not_positive() -> None:
    """A zero is a gap, and the range says that the axis is logarithmic."""
    drawing = draw_lines("loss", [("", curve([1.0, 0.0, 100.0]))], "loss", log=True)
    assert len(heights(path(drawing, "c0"))) == 2
    assert "1 to 100, log axis" in drawing


@pytest.mark.parametrize("values", [[math.nan], [5.0], [-1.7e308, 1.7e308], [0.0] * 3])
def test_any_values_are_within_the_frame(values: list[float]) -> None:
    """Only NaN, one point, the widest range, a flat line."""
    drawing = draw_lines("loss", [("", curve(values))], "loss")
    assert all(0 <= height <= SIZE for height in heights(path(drawing, "c0")))


def test_names_of_any_script_are_kept_as_text() -> None:
    """And add no markup."""
    drawing = draw_lines("損失 <b>", [("", curve([1.0]))], 'λ "quoted"')
    assert "<b>損失 &lt;b&gt;</b>" in drawing
    assert 'aria-label="λ &quot;quoted&quot;"' in drawing


def test_later_points_are_darker() -> None:
    """A point for each pair of finite values."""
    x, y = np.array([1.0, 2.0, math.nan, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])
    drawing = draw_points("y against x", x, y, ("x", "y"), (), "y against x")
    assert drawing.count("h0") == 3
    opacities = [float(found) for found in re.findall(r'opacity="([\d.]+)"', drawing)]
    assert opacities == sorted(opacities)


def test_a_range_has_four_figures() -> None:
    """Large numbers in full."""
    drawing = draw_lines("tokens", [("", curve([0.00012345678, 163_742_800.0]))], "tokens")
    assert "0.0001235 to 163,700,000" in drawing


@pytest.mark.parametrize("counts", [[], [0, 0], [1, 5]])
def test_a_bin_with_values_has_a_bar(counts: list[int]) -> None:
    """An empty one has none."""
    drawing = draw_bars("weights", counts, 0.0, 1.0, "weights")
    assert path(drawing, "c0 bars").count("M") == sum(map(bool, counts))
