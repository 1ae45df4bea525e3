"""A report's chart as a plotly figure."""

from __future__ import annotations

import math

from tests.server.report.conftest import curve
from tocsin_server.report.figure import Band, Overlaid, figure, joined


def test_overlapping_alerts_are_one_tint_a_severity() -> None:
    """However many ring at once, what lies below stays readable."""
    bands = [
        Band(0, 10, "critical"),
        Band(5, 20, "critical"),
        Band(5, 20, "warning"),
        Band(30, 40, "critical"),
    ]
    tints = [(one.severity, one.start, one.stop) for one in joined(bands)]
    assert tints == [("critical", 0, 20), ("critical", 30, 40), ("warning", 5, 20)]


def test_a_figure_is_json_that_holds_every_fault() -> None:
    """Values travel as typed arrays, a hostile name as letters."""
    run = Overlaid("</script><b>", 0, (curve([1.0, math.nan, math.inf]),))
    made = figure("auto", False, [run], [], [], (0.0, 2.0))
    text = made.to_json()
    assert "</script>" not in text
    assert {trace.name: list(trace.x) for trace in made.data if trace.name} == {"nan": [1.0], "pinf": [2.0]}
    assert '"dtype":"f8"' in text
