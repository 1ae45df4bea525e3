"""Ranges, lines, marks and axes of a report's charts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.server.report.conftest import curve
from tocsin_server.report.outline import axis_of, envelope, line, lone, marks


def test_every_fault_is_a_mark_and_no_line() -> None:
    """NaN and infinities are marks at their steps; on a log axis also zeros and negative values."""
    reported = curve([1.0, math.nan, math.inf, -math.inf, 0.0, -2.0])
    assert {kind: x.tolist() for kind, (x, _) in marks(reported, False).items()} == {
        "nan": [1], "pinf": [2], "ninf": [3],
    }  # fmt: skip
    assert {kind: x.tolist() for kind, (x, _) in marks(reported, True).items()} == {
        "nan": [1], "pinf": [2], "ninf": [3], "zero": [4], "negative": [5],
    }  # fmt: skip
    assert np.isfinite(line(reported, True)).tolist() == [True, False, False, False, False, False]


def test_a_spike_within_a_bucket_is_in_its_range() -> None:
    """The outline includes the spike, although the mean does not show it."""
    bucket = replace(curve([1.0, 1.0, 1.0]), high=np.array([1.0, 1e6, 1.0]), exact=False)
    assert np.nanmax(envelope(bucket, None).y) == 1e6
    assert axis_of("auto", [bucket]).log


def test_a_value_alone_between_two_faults_is_seen() -> None:
    """No line passes through it: it is drawn as a dot."""
    y = line(curve([math.nan, 5.0, math.nan, 1.0, 2.0]), False)
    assert lone(y).tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("values", [[], [math.nan], [0.0], [-1.7e308, 1.7e308], [5e-324], [3.0, 3.0]])
@pytest.mark.parametrize("kind", ["auto", "linear", "log", "log2"])
def test_every_axis_has_two_finite_ends(kind: str, values: list[float]) -> None:
    """For any values: none, no finite one, a flat line, the whole range of a float."""
    low, high = axis_of(kind, [curve(values)] if values else []).range
    assert math.isfinite(low)
    assert low < high < math.inf
