"""A report's chart as a plotly figure."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.server.report.conftest import curve
from tocsin_server.report.figure import Band, Overlaid, figure, joined


def test_overlapping_alerts_are_one_tint_a_severity() -> None:
    """However many alerts there are, the chart below stays readable."""
    bands = [
        Band(0, 10, "critical"),
        Band(5, 20, "critical"),
        Band(5, 20, "warning"),
        Band(30, 40, "critical"),
    ]
    tints = [(one.severity, one.start, one.stop) for one in joined(bands)]
    assert tints == [("critical", 0, 20), ("critical", 30, 40), ("warning", 5, 20)]


def test_a_figure_is_json_that_holds_every_fault() -> None:
    """Values are typed arrays, a hostile name is text."""
    run = Overlaid("</script><b>", 0, (curve([1.0, math.nan, math.inf]),))
    made = figure("auto", False, [run], [], [], (0.0, 2.0))
    text = made.to_json()
    assert "</script>" not in text
    assert {trace.name: list(trace.x) for trace in made.data if trace.name} == {"nan": [1.0], "pinf": [2.0]}
    assert '"dtype":"f8"' in text


@pytest.mark.parametrize("kind", ["auto", "log", "log2", "linear"])
@pytest.mark.parametrize(
    "values", [[1e308, -1e308, 5e-324], [1.7e308] * 3, [5e-324] * 3, [5e-324, 1.0, 1.7e308], [-1.7e308] * 3]
)
def test_the_largest_and_least_floats_have_an_axis(kind: str, values: list[float]) -> None:
    """Its ends and ticks are finite, or the report would fail."""
    made = figure(kind, False, [Overlaid("run", 0, (curve(values),))], [], [], (0.0, 2.0))
    ticks = made.layout.yaxis.tickvals or ()
    assert np.isfinite([*made.layout.yaxis.range, *ticks]).all()
    assert made.to_json()
