"""Tests of the rolling median."""

from __future__ import annotations

import math
import statistics

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin_server.detect.stats.rolling import MAD_TO_SIGMA, RollingMedian

values = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


@given(values, st.integers(1, 20))
def test_median_and_deviation_of_the_last_values(items: list[float], size: int) -> None:
    """Equal to those of the standard library for the last ``size`` values, including duplicates."""
    rolling = RollingMedian(size)
    for item in items:
        rolling.push(item)
    last = items[-size:]
    centre = statistics.median(last)
    assert rolling.median == centre
    assert rolling.sigma == MAD_TO_SIGMA * statistics.median([abs(item - centre) for item in last])


@given(values)
def test_saved_and_restored(items: list[float]) -> None:
    """The state survives msgpack bit for bit."""
    rolling = RollingMedian(10)
    for item in items:
        rolling.push(item)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rolling), type=RollingMedian) == rolling


@given(
    st.lists(st.floats(-2, 9), min_size=1, max_size=60),
    st.integers(0, 20),
    st.integers(0, 60),
    st.floats(0, 9),
    st.just([5.0]) | st.lists(st.floats(4, 9), min_size=20, max_size=50),
)
@example([3.0, 2.0, math.nan, 1.0] * 9, 0, 36, 0.0, [6.0 - 0.1 * at for at in range(20)])
@example([3.0 - 0.1 * at for at in range(30)], 1, 30, 0.0, [6.0 - 0.1 * at for at in range(20)])
def test_passing_over_equals_pushing_until_an_outlier(
    items: list[float], start: int, stop: int, limit: float, before: list[float]
) -> None:
    """The values are in the window as if pushed; it stops at the first one above all, or not above 0."""
    start = min(start, len(items))
    stop = max(start, min(stop, len(items)))
    passed, pushed = RollingMedian(20), RollingMedian(20)
    for window in (passed, pushed):
        for item in before:
            window.push(item)
    at = passed.pass_over(items, start, stop, limit)
    for item in items[start:at]:
        assert 0 < item <= max(limit, pushed.highest)
        pushed.push(item)
    assert passed == pushed
    assert at == stop or not 0 < items[at] <= max(limit, pushed.highest)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=40), st.lists(st.floats(-99, 99), max_size=8))
def test_no_median_falls_below_the_least_one(items: list[float], more: list[float]) -> None:
    """Whatever is pushed, and whether the window is full or not."""
    rolling = RollingMedian(20)
    for item in items:
        rolling.push(item)
    least = rolling.least_median(8)
    for item in more:
        rolling.push(item)
        assert rolling.median >= least


@given(values, st.floats(0, 1e10), st.floats(0, 10))
def test_the_quick_check_agrees_with_the_deviation(
    items: list[float], height: float, deviations: float
) -> None:
    """The check by quartiles never contradicts the exact one."""
    rolling = RollingMedian(20)
    for item in items:
        rolling.push(item)
    assert rolling.within(height, deviations) == (height <= deviations * rolling.sigma)
