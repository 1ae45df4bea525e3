"""Tests of the rolling median."""

from __future__ import annotations

import statistics

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.rolling import MAD_TO_SIGMA, RollingMedian

values = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


@given(values, st.integers(1, 20))
def test_median_and_deviation_of_the_last_values(items: list[float], size: int) -> None:
    """As the standard library says of the last ``size`` values, duplicates and all."""
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
